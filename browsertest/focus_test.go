package browsertest

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"parley/gateway/gatewaytest"
	"parley/internal/waittest"
	"parley/llm"
	"parley/llm/llmtest"
)

// focused is what has the focus of a page, in words.
const focused = `(document.activeElement.closest("li")?.id ?? "") + " " + document.activeElement.textContent.trim()`

// An answer that is a picture without a word comes like any other. The page broke off in the middle of
// the update that brought it, and still showed the assistant at work.
func TestAnAnswerOfPicturesAlone(t *testing.T) {
	t.Parallel()
	var data bytes.Buffer
	if err := png.Encode(&data, image.NewRGBA(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Images: []llm.Image{{MediaType: "image/png", Data: data.Bytes()}}}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("Paint an evening")
	b.answers(1)
	b.await("!document.querySelector('#waiting > li')")
	b.awaitText("#said", "The assistant: picture-1.png")
	b.clean()
}

// A screen reader is told the answer without the folded thoughts, and that the assistant asks
// something.
func TestAScreenReaderIsToldAnswersAndQuestions(t *testing.T) {
	t.Parallel()
	g := startGatewayIn(t, t.TempDir(), gatewaytest.OpenToAll+"[tools]\nask = [\"current_time\"]\n", func(c llmtest.Call) llmtest.Answer {
		answer := using("current_time", "{}", "It is late.")(c)
		answer.Reasoning = "First I look at a clock."
		return answer
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("What time is it?")
	b.awaitText("#said", "May I do this?")
	b.do(chromedp.Click("#waiting .offers button"))
	b.await("document.getElementById('said').textContent === 'The assistant: It is late.'")
	b.clean()
}

// The button that somebody is about to press keeps the focus when something else of the page
// changes.
func TestFocusStaysInAQuestionWhileTheChatGoesOn(t *testing.T) {
	t.Parallel()
	g := startGatewayIn(t, t.TempDir(), gatewaytest.OpenToAll+"[tools]\nask = [\"current_time\"]\n", using("current_time", "{}", "It is late."))
	b := openTab(t)
	b.open(g.URL)
	b.say("What time is it?")
	b.awaitText("#waiting .notice", "May I do this?")
	two := b.another()
	b.do(chromedp.Focus("#waiting .offers form:nth-of-type(2) button"))
	before := eval[string](b, focused)
	two.say("And in Lisbon?")
	b.awaitText("#waiting .bubble", "And in Lisbon?")
	if now := eval[string](b, focused); now != before || !strings.HasPrefix(now, "q") {
		t.Errorf("%q had the focus, now %q has it", before, now)
	}
	b.clean()
}

// The list of chats changes while somebody is in it with the keyboard: the focus stays where it is.
func TestFocusStaysInTheListOfChats(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.answers(1)
	two := openTab(t)
	for n, selector := range []string{".line-more", "a"} {
		eval[bool](b, `([...document.querySelectorAll("#chats li[data-name]")].find((line) => line.querySelector("a span").textContent === "one").querySelector("`+selector+`").focus(), true)`)
		two.open(g.URL)
		two.say(fmt.Sprint("another ", n))
		two.answers(1)
		b.await(fmt.Sprintf("document.querySelectorAll('#chats li[data-name]').length === %d && !document.querySelector('#chats .at-work')", n+2))
		if got := eval[string](b, "document.activeElement.closest('li')?.querySelector('a span').textContent ?? 'nothing'"); got != "one" || !eval[bool](b, "document.activeElement.matches('"+selector+"')") {
			t.Errorf("%s: the focus is at %s", selector, got)
		}
	}
	b.clean()
}

// What a reader has folded or scrolled of a thought stays so while the thought grows.
func TestAThoughtStaysAsTheReaderHasFoldedIt(t *testing.T) {
	t.Parallel()
	first, release := waittest.Gate(t)
	g := startGateway(t, func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "<think>\n" + strings.Repeat("I think of a line.\n", 200) + "</think>\nDone.", Pieces: 40, HoldAt: 20, Hold: first}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("Think")
	const box = "document.querySelector('#text .thought > div')"
	b.await(box + "?.scrollTop > 100") // its end is in sight
	eval[bool](b, "("+box+".scrollTop = 50) > 0")
	b.do(chromedp.Click("#text .thought summary"))
	b.await("!document.querySelector('#text .thought').open")
	eval[bool](b, `(window.folded = [], new MutationObserver(() => window.folded.push(!document.querySelector("#text .thought")?.open)).observe(document.getElementById("text"), { childList: true }), true)`)
	release()
	b.answers(1)
	b.await("window.folded.length > 0")
	if !eval[bool](b, "window.folded.every(Boolean)") {
		t.Error("the thought was unfolded again")
	}
	b.clean()
}

// A key that presses the stop button moves the focus to the text field, since the button is hidden with the answer.
func TestFocusGoesToTheFieldWhenAnAnswerIsStopped(t *testing.T) {
	t.Parallel()
	hold, _ := waittest.Gate(t)
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		<-hold
		return echo(c)
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.await("!document.getElementById('stop').hidden")
	b.do(chromedp.Focus("#stop"), typed(kb.Enter))
	b.awaitText("#messages .notice", "Stopped")
	b.await("document.activeElement.id === 'text-field'")
	b.clean()
}

// The button that undoes a change does not take the focus from what somebody has gone on to meanwhile, as on
// a slow connection.
func TestUndoDoesNotTakeTheFocus(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.answers(1)
	b.await("document.getElementById('text-field').value === ''")
	b.openLineMenu("one")
	eval[bool](b, holdReplies)
	b.do(typed(kb.ArrowDown), typed(kb.Enter)) // Pin
	b.await("window.taken")
	b.do(chromedp.Focus("#text-field"))
	eval[bool](b, "window.taken(), true")
	b.awaitText("#toast", "“one” was pinned.")
	if !eval[bool](b, "document.activeElement.id === 'text-field'") {
		t.Error("the field has lost the focus")
	}
	b.clean()
}

// The stop button can be pressed again for the next answer while the reply to the first press has not arrived.
func TestTheNextAnswerCanBeStoppedBeforeTheReply(t *testing.T) {
	t.Parallel()
	hold, _ := waittest.Gate(t)
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		<-hold
		return echo(c)
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.await("!document.getElementById('stop').hidden")
	eval[bool](b, holdReplies)
	b.do(chromedp.Click("#stop"))
	b.awaitText("#messages .notice", "Stopped")
	b.await("window.taken && !document.getElementById('stop').disabled")
	b.clean()
}

// Results that come late leave the focus on the one that somebody has tabbed to.
func TestLateResultsKeepTheFocus(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.say("heron by the lake")
	b.answers(1)
	b.await("document.getElementById('text-field').value === ''")
	b.do(chromedp.Focus(".side .find input"), typed("heron"))
	b.await("document.querySelector('#found-chats a')")
	eval[bool](b, holdReplies)
	b.do(typed(" by"))
	b.await("window.taken")
	b.do(chromedp.Focus("#found-chats a"))
	eval[bool](b, "(window.taken(), true)")
	b.await("window.told")
	if !eval[bool](b, "document.activeElement.matches('#found-chats a')") {
		t.Error("the result has lost the focus")
	}
	b.clean()
}
