package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"parley/gateway/gatewaytest"
	"parley/internal/waittest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/pages/pagestest"
)

// A person writes, sees the answer come, and finds the chat under its title. An answer that
// was cut can be continued.
func TestAChatWithStreaming(t *testing.T) {
	t.Parallel()
	hold, seen := make(chan struct{}), make(chan struct{})
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		if strings.HasPrefix(c.LastUser(), "Go on exactly") {
			return llmtest.Answer{Text: "And the end."}
		}
		<-hold
		answer := slowly("The first word, then **many others**, and the last.", 12, 50*time.Millisecond)
		answer.HoldAt, answer.Hold = 8, seen // until the page shows the first words
		answer.FinishReason = "length"
		return answer
	})
	b := openTab(t)
	b.open(g.URL)
	const inMenu = "[...document.querySelectorAll('#menu .menu-list > *')].filter((entry) => !entry.hidden).length"
	if got := eval[int](b, inMenu); got != 1 {
		t.Errorf("the menu of a new chat has %d entries, and should lead to its instructions alone", got)
	}
	b.say("Tell me something")
	b.awaitText("#waiting .bubble", "Tell me something")
	b.await("!document.getElementById('answer').hidden && !document.getElementById('stop').hidden")
	close(hold)
	b.awaitText("#text", "The first word")
	close(seen)
	b.answers(1)
	b.awaitText("#messages .assistant strong", "many others")
	b.awaitText("#messages .user .bubble", "Tell me something")
	b.awaitText("#chats a[aria-current]", "Tell me something")
	b.await("document.title === 'Tell me something · Parley'")
	b.await("document.getElementById('waiting').innerText === ''")
	b.await(inMenu + " === 6")

	// The answer was cut at the model's limit: the button asks for the rest, and is hidden then.
	b.shot("cut-answer")
	b.do(chromedp.Click("#messages .continue button"))
	b.answers(2)
	b.awaitText("#messages .user .bubble", "Go on exactly")
	b.awaitText("#messages .assistant", "And the end.")
	b.await("[...document.querySelectorAll('#messages .continue')].every((form) => !form.offsetParent)")
	b.clean()
}

// Reloading in the middle of an answer loses no word and doubles none.
func TestReloadInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	words := make([]string, 60)
	for i := range words {
		words[i] = fmt.Sprintf("word%02d", i)
	}
	text := strings.Join(words, " ")
	goOn := make(chan struct{}) // the answer does not end before the second reload
	g := startGateway(t, func(llmtest.Call) llmtest.Answer {
		answer := slowly(text, 60, 50*time.Millisecond)
		answer.HoldAt, answer.Hold = 30, goOn
		return answer
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("Count")
	b.awaitText("#text", "word05")
	b.do(chromedp.Reload())
	b.awaitText("#text", "word10")
	if got := b.text("#waiting .bubble"); got != "Count" {
		t.Errorf("after the reload the question reads %q", got)
	}
	b.do(chromedp.Reload())
	close(goOn)
	b.answers(1)
	if got := b.text("#messages .assistant .prose"); got != text {
		t.Errorf("the answer reads %q", got)
	}
	b.clean()
}

// What the model thought before it called a tool stays on the page, folded, while the run goes
// on, also after a reload. The finished answer shows it likewise.
func TestThoughtsOfToolRoundsStayInSight(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		if c.Messages[len(c.Messages)-1].Role != "tool" {
			return llmtest.Answer{Reasoning: "I need the time.", ToolCalls: []llm.ToolCall{{ID: "a", Name: "current_time", Arguments: "{}"}}}
		}
		<-goOn
		return llmtest.Answer{Reasoning: "Now I know it.", Text: "It is late."}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("How late is it?")
	const folded = "document.querySelector('#text details.thought:not([open])')?.textContent.includes('I need the time.')"
	b.await(folded)
	b.do(chromedp.Reload())
	b.await(folded)
	close(goOn)
	b.await("document.querySelectorAll('#messages details.thought:not([open])').length === 2 && document.getElementById('answer').hidden")
	b.clean()
}

// Two tabs on one chat show the same at every moment that matters.
func TestTwoTabsAgree(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		<-hold
		return llmtest.Answer{Text: "To " + c.LastUser() + ": yes."}
	})
	one := openTab(t)
	one.open(g.URL)
	one.say("first")
	one.awaitText("#waiting .bubble", "first")
	two := one.another()
	two.awaitText("#waiting .bubble", "first")
	hold <- struct{}{}
	one.answers(1)
	two.answers(1)
	two.say("second")
	one.awaitText("#waiting .bubble", "second")
	hold <- struct{}{}
	one.answers(2)
	two.answers(2)
	one.say("/undo")
	one.await("document.querySelectorAll('#messages .assistant').length === 1")
	two.await("document.querySelectorAll('#messages .assistant').length === 1")
	const transcript = "document.getElementById('messages').innerText"
	gatewaytest.Await(t, "both tabs to show the same", func() bool { return eval[string](one, transcript) == eval[string](two, transcript) })
	one.clean()
	two.clean()
}

// A tab shows the version of a message that is chosen in another tab, however often that is. From the
// second time within ten seconds on, it showed neither version.
func TestTabFollowsTheVersionsChosenInAnother(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	one := openTab(t)
	one.open(g.URL)
	one.say("first")
	one.answers(1)
	two := one.another()
	two.answers(1)
	send := func(what, fields string) {
		eval[bool](one, "(fetch(location.pathname + '/"+what+"', {method: 'POST', headers: {Accept: 'application/json'}, body: new URLSearchParams("+fields+")}), true)")
	}
	both := func(want string) {
		for _, tab := range []*tab{one, two} {
			tab.await("[...document.querySelectorAll('#messages .bubble')].map((e) => e.textContent).join() === '" + want + "'")
			tab.answers(1)
		}
	}
	send("edit", "{seq: 1, text: 'second', id: 'an-edit-1'}")
	both("second")
	for range 2 {
		send("version", "{seq: 1}")
		both("first")
		send("version", "{seq: 3}")
		both("second")
	}
	one.clean()
	two.clean()
}

// The page reconnects by itself after the gateway was killed in the middle of an answer. It
// keeps messages that were written meanwhile, with their files, and sends each once.
func TestThePageSurvivesTheGateway(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{}, 8)
	g := startGateway(t, func(llmtest.Call) llmtest.Answer {
		<-hold
		return llmtest.Answer{Text: "Still here."}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("Are you there?")
	b.awaitText("#waiting .bubble", "Are you there?")
	g.Kill()
	b.await("!document.getElementById('connection').hidden")
	b.drop("notes.txt", "text/plain", "some notes")
	b.say("Written without a connection")
	b.awaitText("#unsent .bubble", "Written without a connection")
	b.awaitText("#unsent .bubble", "notes.txt")
	b.say("And another")
	b.await("document.querySelectorAll('#unsent > li').length === 2 && document.getElementById('text-field').value === ''")
	b.shot("unsent")
	g.Start()
	close(hold)
	b.await("document.querySelectorAll('#messages .user').length === 3 && document.getElementById('answer').hidden")
	b.await("!document.querySelector('#unsent > li') && !document.querySelector('#waiting > li')")
	b.awaitText("#messages .assistant", "Still here.")
	b.expectAsked("Are you there?|Written without a connection|And another")
	b.awaitText("#messages .enclosed", "notes.txt")
}

// Everything can be done without a mouse.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.LastUser(), "slow") {
			select {
			case <-hold:
			case <-time.After(waittest.Patience):
			}
		}
		return llmtest.Answer{Text: "echo: " + c.LastUser()}
	})
	defer close(hold)
	b := openTab(t)
	b.open(g.URL)
	keys := func(sequence string, modifiers ...chromedp.KeyOption) {
		t.Helper()
		b.do(typed(sequence, modifiers...))
	}
	b.await("document.activeElement.id === 'text-field'")
	keys("one")
	keys(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierShift))
	keys("two")
	keys(kb.Enter)
	b.answers(1)
	b.await("document.querySelector('#messages .bubble').textContent === 'one\\ntwo'")
	b.await("document.getElementById('text-field').value === ''") // the page read that the message was taken

	keys(kb.ArrowUp) // edits the last message
	b.await("!document.getElementById('editing').hidden")
	keys(" three")
	keys(kb.Enter)
	b.await("document.querySelectorAll('#messages .user').length === 1 && document.querySelector('#messages .bubble').textContent === 'one\\ntwo three'")
	b.awaitText("#messages .assistant", "two three")

	keys("slow")
	keys(kb.Enter)
	b.await("!document.getElementById('stop').hidden")
	keys(kb.Escape) // stops it
	b.await("document.getElementById('stop').hidden")
	b.awaitText("#messages .notice", "Stopped")

	b.await("document.getElementById('text-field').value === ''")
	b.do(chromedp.Blur("#text-field"))
	keys("/") // leads to the field, and types nothing
	b.await("document.activeElement.id === 'text-field' && document.getElementById('text-field').value === ''")
	keys("/sta")
	b.await("document.querySelectorAll('#completions li:not([hidden])').length === 2")
	keys(kb.ArrowDown)
	keys(kb.ArrowUp)
	keys(kb.Enter) // completes
	b.await("document.getElementById('text-field').value.trim() === '/status'")
	keys(kb.Enter)
	b.awaitText("#messages .asked", "/status")

	b.do(chromedp.Blur("#text-field"))
	eval[bool](b, "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '?', shiftKey: true, bubbles: true, cancelable: true })) || true")
	b.await("document.querySelector('#keys[open]')")
	b.shot("shortcuts")
	keys(kb.Escape)
	b.await("!document.querySelector('#keys[open]')")
	eval[bool](b, "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true, bubbles: true, cancelable: true })) || true")
	b.await("document.activeElement.matches('.side .find input')")

	b.do(chromedp.Reload(), chromedp.Focus(".brand"))
	keys(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))
	b.await("document.activeElement.matches('.skip') && document.activeElement.getBoundingClientRect().top >= 0")
	keys(kb.Enter) // the page's first stop leads past the list of chats
	b.await("document.activeElement.id === 'main'")
	b.clean()
}

// One goes from chat to chat with the keyboard, from the empty field too, where arrow up alone
// edits the last message.
func TestKeyboardBetweenChats(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	press := func(key string, modifiers chromedp.Modifier) {
		t.Helper()
		b.await("document.readyState === 'complete' && document.activeElement.id === 'text-field'")
		b.do(typed(key, chromedp.KeyModifiers(modifiers)))
	}
	b.say("First chat")
	b.answers(1)
	press("o", chromedp.ModifierCtrl|chromedp.ModifierShift)
	b.await("location.pathname === '/' && document.readyState === 'complete'")
	b.say("Second chat")
	b.answers(1)
	b.await("document.querySelectorAll('#chats [data-name]').length === 2")
	press(kb.ArrowDown, chromedp.ModifierAlt)
	b.awaitText("#title", "First chat")
	press(kb.ArrowUp, chromedp.ModifierAlt)
	b.awaitText("#title", "Second chat")
	b.clean()
}

// On a phone nothing is wider than the screen, and the chats are a drawer.
func TestAPhone(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says("```\n"+strings.Repeat("a very long line of code ", 20)+"\n```\n\n| "+strings.Repeat("column | ", 12)+"\n| "+strings.Repeat("--- | ", 12)+"\n\n"+strings.Repeat("unbroken", 40)))
	b := openTab(t)
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	b.open(g.URL)
	b.say(strings.Repeat("wide", 100))
	b.answers(1)
	if width := eval[float64](b, "Math.max(document.documentElement.scrollWidth, document.getElementById('scroll').scrollWidth)"); width > 390 {
		t.Errorf("the page is %v pixels wide", width)
	}
	b.await("getComputedStyle(document.getElementById('side')).visibility === 'hidden'")
	b.do(chromedp.Click(".open-side"))
	b.await("getComputedStyle(document.getElementById('side')).visibility === 'visible'")
	for range 30 { // Tab stays in the drawer, also after its last control
		b.do(typed("\t"))
		if eval[bool](b, "document.activeElement.closest('main') !== null") {
			t.Fatal("Tab has left the open drawer")
		}
	}
	b.do(typed(kb.Escape))
	b.await("getComputedStyle(document.getElementById('side')).visibility === 'hidden' && document.activeElement.matches('.open-side')")

	b.touch()
	b.do(chromedp.Focus("#text-field"), typed("one"), typed("\r"), typed("two")) // Enter begins a new line
	b.await("document.getElementById('text-field').value === 'one\\ntwo'")
	b.shot("phone-two-lines")
	b.do(chromedp.Click("#send"))
	b.answers(2)
	b.await("[...document.querySelectorAll('#messages .user .bubble')].at(-1).textContent === 'one\\ntwo'")
	b.clean()
}

// The colours follow the system until somebody chooses, and then stay chosen.
func TestDarkAndLight(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says("x"))
	b := openTab(t)
	const bright = "getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'"
	b.prefer("light")
	b.open(g.URL)
	b.await(bright)
	b.prefer("dark")
	b.await("!(" + bright + ")")
	b.do(chromedp.Click("[data-theme-switch]"))
	b.await(bright)
	b.do(chromedp.Reload())
	b.await(bright)
	b.clean()
}

// Nothing that is said runs in a real browser either, and nothing is loaded from
// elsewhere.
func TestTextOfMessagesIsNeverRunAsScript(t *testing.T) {
	t.Parallel()
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: c.LastUser(), Pieces: 20} })
	b := openTab(t)
	b.open(g.URL)
	hostile := pagestest.Hostile()
	for n, texts := range [][]string{hostile[:30], hostile[30:60], hostile[60:]} {
		b.do(chromedp.SetValue("#text-field", strings.Join(texts, "\n\n")), chromedp.Focus("#text-field"), typed("\r"))
		b.answers(n + 1)
	}
	b.do(chromedp.SetValue("#text-field", hostile[0]), chromedp.Focus("#text-field"), typed("\r"))
	b.answers(4)
	b.do(chromedp.Reload())
	b.answers(4)
	for _, address := range b.asked() {
		if !strings.HasPrefix(address, g.URL+"/") && !strings.HasPrefix(address, "data:") && !strings.HasPrefix(address, "blob:") {
			t.Errorf("the page has asked %s", address)
		}
	}
	b.clean() // of dialogs, and of what the content security policy has refused
}

// maxLoad is what a page may load in all, in bytes over the line.
const maxLoad = 150_000

// A page with an answer and highlighted code is light, and all of it comes from
// the gateway.
func TestAPageIsLight(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says("```go\npackage main\n```\n\n```python\nprint(1)\n```\n\n```typescript\nlet x: number\n```"))
	b := openTab(t)
	b.open(g.URL)
	b.say("Show me code")
	b.answers(1)
	b.await("document.querySelectorAll('.hljs-keyword, .hljs-built_in').length >= 3")
	fresh := openTab(t) // with an empty cache
	fresh.open(eval[string](b, "location.href"))
	fresh.await("document.querySelectorAll('.hljs-keyword, .hljs-built_in').length >= 3")
	if received := fresh.loaded(); received > maxLoad || received < 10_000 {
		t.Errorf("the page has loaded %.0f bytes, at most %d are wanted", received, maxLoad)
	}
	for _, address := range fresh.asked() {
		if !strings.HasPrefix(address, g.URL+"/") {
			t.Errorf("the page has asked %s", address)
		}
	}
}

// A picture that is pasted goes along with the message, and so does a text that is too
// long for one. What the gateway would refuse is refused when it is picked.
func TestFilesAreCheckedWhenTheyArePicked(t *testing.T) {
	t.Parallel()
	g := startGatewayIn(t, t.TempDir(), gatewaytest.OpenToAll+"\n[llm]\nvision = false\n[files]\nmax_file = 8\n", says("A dot."))
	b := openTab(t)
	b.open(g.URL)
	b.drop("empty.txt", "text/plain", "")
	b.awaitText("#trouble", "empty.txt is empty.")
	eval[bool](b, `(() => {
		const data = new DataTransfer();
		data.items.add(new File([new Uint8Array(9 * 1024 * 1024)], "film.mp4", { type: "video/mp4" }));
		document.getElementById("compose").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
		return true;
	})()`)
	b.awaitText("#trouble", "film.mp4 is too large")
	b.await("document.querySelectorAll('#picked > li').length === 0")
	b.await("!document.getElementById('attach').hidden")
	eval[bool](b, `(() => {
		const bytes = Uint8Array.from(atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="), (c) => c.charCodeAt(0));
		const data = new DataTransfer();
		data.items.add(new File([bytes], "dot.png", { type: "image/png" }));
		document.getElementById("text-field").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
		return true;
	})()`)
	b.await("document.querySelector('#picked img')")
	b.awaitText("#trouble", "The model can't see pictures: of dot.png it is told only the name.")
	b.say("What is it?")
	b.answers(1)
	eval[bool](b, `(() => {
		const data = new DataTransfer();
		data.setData("text/plain", "a line of a long text\n".repeat(15000));
		document.getElementById("text-field").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
		return true;
	})()`)
	b.awaitText("#picked", "pasted.txt")
	b.say("And this?")
	b.answers(2)
	b.awaitText("#messages .enclosed summary", "pasted.txt")
	b.await("[...document.querySelectorAll('#messages .enclosed img')].some((picture) => picture.complete && picture.naturalWidth === 1)")
	b.clean()
}
