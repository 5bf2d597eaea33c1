package browsertest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// press presses the mouse on the first element of a selector, and returns a function that releases it at the same place.
func (b *tab) press(selector string) (release func()) {
	b.t.Helper()
	at := eval[[]float64](b, fmt.Sprintf(`((element) => {
		element.scrollIntoView({ block: "nearest" });
		const { x, y, width, height } = element.getBoundingClientRect();
		return [x + width / 2, y + height / 2];
	})(document.querySelector(%s))`, quote(selector)))
	mouse := func(kind input.DispatchMouseEventType, buttons int64) {
		b.t.Helper()
		b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			event := input.DispatchMouseEventParams{Type: kind, X: at[0], Y: at[1], Button: input.MouseButtonLeft, Buttons: buttons, ClickCount: 1}
			_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, event)
			return err
		}))
	}
	mouse(input.DispatchMouseEventTypeMousePressed, 1)
	return func() { mouse(input.DispatchMouseEventTypeMouseReleased, 0) }
}

// openHearing opens a page that notes in window.heard what its stream brings, before it shows that. A press may take any time.
func (b *tab) openHearing(url string) {
	b.t.Helper()
	script := page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.heard = [];
		const wait = window.setTimeout;
		window.setTimeout = (f, ms, ...more) => (ms === 3000 ? 0 : wait(f, ms, ...more)); // press.js: longest
		window.EventSource = class extends EventSource {
			constructor(url) {
				super(url);
				this.addEventListener("message", ({ data }) => { window.heard.push(data); });
			}
		};`}
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		b.t.Fatal(err)
	}
	b.open(url)
	b.await("window.heard.length > 0")
}

// hears waits until the page's stream has brought a text.
func (b *tab) hears(text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("window.heard.some((data) => data.includes(%s))", quote(text)))
}

// "Send now" works where another message is sent, and moves, between the press and the release.
func TestAPressOnSendNowOutlivesAnotherMessage(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.openHearing(g.URL)
	eval[bool](b, refuseNext(1))
	b.say("first")
	b.awaitText("#unsent .refused", "Not now.")
	eval[bool](b, holdSending)
	b.say("second")
	b.await("window.release && document.querySelectorAll('#unsent > li').length === 2")
	release := b.press("#unsent .refused [data-again]")
	eval[bool](b, "release() && true")
	b.hears("To: second")
	release()
	b.answers(2)
	b.expectAsked("second|first")
	b.await("!document.querySelector('#unsent > li')")
	b.clean()
}

// A refused message that somebody sends while the gateway is away is sent when it is back.
func TestARefusedMessageIsSentWhenTheGatewayIsBack(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, refuseNext(1))
	b.say("first")
	b.awaitText("#unsent .refused", "Not now.")
	eval[bool](b, "(window.load = window.fetch, window.fetch = () => Promise.reject(new TypeError('away')), true)")
	b.do(chromedp.Click("#unsent [data-again]"))
	b.await("!document.querySelector('#unsent .refused')")
	b.awaitText("#unsent", "It is sent when the connection is back.")
	eval[bool](b, "(window.fetch = window.load, dispatchEvent(new Event('online')))")
	b.answers(1)
	b.await("!document.querySelector('#unsent > li')")
	b.clean()
}

// A button that is pressed while the list of unsent messages changes stays the same one.
func TestUnsentMessagesKeepTheirButtons(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, refuseNext(2))
	b.say("first")
	b.awaitText("#unsent .refused", "Not now.")
	eval[bool](b, "(window.button = document.querySelector('#unsent [data-again]'), true)")
	b.say("second")
	b.await("document.querySelectorAll('#unsent .refused').length === 2")
	if !eval[bool](b, "window.button === document.querySelector('#unsent [data-again]')") {
		t.Error("the list has made the button anew")
	}
	b.clean()
}

// A message that is sent off while the browser still stores the one before follows it.
func TestAMessageSentOffWhileTheOneBeforeIsStoredFollows(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.await("document.activeElement.id === 'text-field'")
	eval[bool](b, `(() => { // files are read before a message is stored
		const read = Blob.prototype.arrayBuffer;
		Blob.prototype.arrayBuffer = function () { return new Promise((resolve) => { window.stored = () => resolve(read.call(this)); }); };
		return true;
	})()`)
	b.drop("one.txt", "text/plain", "some notes")
	b.awaitText("#picked", "one.txt")
	b.do(typed("first"), typed("\r"))
	b.await("window.stored")
	b.do(typed("second"), typed("\r"))
	b.expectField("")
	eval[bool](b, "(window.stored(), true)")
	b.answers(2)
	b.expectAsked("first|second")
	b.clean()
}

// A chat of the list opens where the list changes between the press and the release.
func TestAPressOnAChatOutlivesAChangeOfTheList(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	dir := t.TempDir()
	seedChats(t, dir)
	g := startGatewayIn(t, dir, gatewaytest.OpenToAll, echo)
	b := openTab(t)
	b.openHearing(g.URL + "/chat/chat-1")
	another := b.another()
	another.open(g.URL + "/chat/chat-3")
	release := b.press("#chats a[href='/chat/chat-5']")
	eval[bool](b, "window.heard.length = 0 || true")
	another.say("This chat moves up")
	another.awaitText("#messages .assistant", "To: This chat moves up")
	b.hears("/chat/chat-3")
	release()
	b.await("location.pathname === '/chat/chat-5'")
	b.clean()
	another.clean()
}

// The same for a press that ends the renaming of another chat.
func TestAPressOutlivesTheRenamingThatItEnds(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	dir := t.TempDir()
	seedChats(t, dir)
	g := startGatewayIn(t, dir, gatewaytest.OpenToAll, echo)
	b := openTab(t)
	b.openHearing(g.URL + "/chat/chat-1")
	another := b.another()
	another.open(g.URL + "/chat/chat-3")
	b.lineMenu("feta 2", "rename")
	b.await("document.querySelector('#chats input')")
	eval[bool](b, "window.heard.length = 0 || true")
	another.say("This chat moves up")
	another.awaitText("#messages .assistant", "To: This chat moves up")
	b.hears("/chat/chat-3")
	b.press("#chats a[href='/chat/chat-5']")()
	b.await("location.pathname === '/chat/chat-5'")
	b.clean()
	another.clean()
}

// A question is answered where a message comes between the press of its button and the release.
func TestAPressOnAQuestionOutlivesAnotherMessage(t *testing.T) {
	t.Parallel()
	g := startGatewayIn(t, t.TempDir(), gatewaytest.OpenToAll+"[tools]\nask = [\"current_time\"]\n", using("current_time", `{}`, "It is late."))
	b := openTab(t)
	b.openHearing(g.URL)
	b.say("What time is it?")
	b.awaitText("#waiting .notice", "May I do this?")
	another := b.another()
	release := b.press("#waiting .notice .offers button")
	another.say(strings.Repeat("Take your time.\n", 3))
	b.hears("Take your time.")
	release()
	b.awaitText("#messages .assistant", "It is late.")
	b.clean()
	another.clean()
}

// A press inside an answer that is being written is a click, although more text arrives before the release.
func TestAPressInAnAnswerOutlivesItsEnd(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	text := "<think>\nI think.\n" + strings.Repeat("And think.\n", 40) + "</think>\nDone."
	g := startGateway(t, func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: text, Pieces: 20, HoldAt: 10, Hold: goOn}
	})
	b := openTab(t)
	b.openHearing(g.URL)
	b.say("Think")
	b.awaitText("#text .thought", "And think.")
	eval[bool](b, `(addEventListener("click", ({ target }) => { window.clicked = target.closest("summary")?.textContent; }), true)`)
	release := b.press("#text .thought summary")
	close(goOn)
	b.hears("Done.")
	release()
	b.await("window.clicked === 'Thinking …'")
	b.answers(1)
	b.clean()
}

// Undo restores a deleted chat although its time limit ends between the press and the release.
func TestAPressOnUndoOutlivesItsMoment(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	dir := t.TempDir()
	seedChats(t, dir)
	g := startGatewayIn(t, dir, gatewaytest.OpenToAll, echo)
	b := openTab(t)
	script := page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.moments = []; // what the page does when the moment is over
		const wait = window.setTimeout;
		window.setTimeout = (f, ms, ...more) => (ms > 5000 && ms <= 8000 ? window.moments.push(f) : wait(f, ms, ...more));`}
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		t.Fatal(err)
	}
	b.open(g.URL + "/chat/chat-1")
	b.lineMenu("feta 5", "delete")
	b.awaitText("#toast", "“feta 5” was deleted.")
	release := b.press("#toast button")
	eval[bool](b, "(window.moments.forEach((over) => over()), true)")
	release()
	b.awaitText("#chats [data-name]:not([hidden])", "feta 5")
	b.open(g.URL + "/chat/chat-5")
	b.awaitText("#messages", "a cheese")
	b.clean()
}
