package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// A file that has changed since it was chosen can't be sent: the page says so, and not that the gateway
// is away, and does not try for ever.
func TestAFileThatHasChangedIsNamed(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	path := filepath.Join(t.TempDir(), "notes.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("some notes")
	b.do(chromedp.SetUploadFiles("#files", []string{path}))
	b.awaitText("#picked", "notes.txt")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b.say("Here they are")
	b.awaitText("#trouble", "“notes.txt” can't be read.")
	b.await("!document.querySelector('#unsent > li') && document.getElementById('text-field').value === 'Here they are'")
	write("other notes")
	b.do(chromedp.Click("#picked button"))
	b.do(chromedp.SetUploadFiles("#files", []string{path}))
	b.awaitText("#picked", "notes.txt")
	b.do(chromedp.Click("#send"))
	b.answers(1)
}

// A message that waits to be sent keeps the focus of its buttons while the page tries again, and a
// screen reader is told that it was not sent.
func TestUnsentMessagesKeepTheFocus(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.await("document.activeElement.id === 'text-field'")
	g.Kill()
	b.say("Do not lose me")
	b.awaitText("#unsent", "Do not lose me")
	b.awaitText("#said", "Not sent.")
	b.do(chromedp.Focus("#unsent [data-again]"))
	eval[bool](b, `(window.tried = 0, window.load = window.fetch, window.fetch = (...request) => window.load(...request).finally(() => setTimeout(() => { window.tried++; }, 100)), document.activeElement.click(), true)`)
	b.await("window.tried > 0")
	if !eval[bool](b, "document.activeElement.matches('#unsent [data-again]')") {
		t.Error("the button has lost the focus")
	}
	g.Start()
	b.answers(1)
	b.await("document.activeElement.id === 'text-field'")
}

// A message for which the browser has no room is sent from the page's memory, once the gateway is
// back.
func TestUnsentMessageWithoutStorage(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.await("document.activeElement.id === 'text-field'")
	eval[bool](b, `(IDBObjectStore.prototype.put = () => { throw new DOMException("no room", "QuotaExceededError"); }, true)`)
	g.Kill()
	b.say("Do not lose me")
	b.awaitText("#unsent", "Not sent.")
	g.Start()
	b.awaitText("#messages .assistant", "To: Do not lose me")
	b.await("!document.querySelector('#unsent > li')")
}

// A message that is taken back into the field while the page sends it again is sent, and not in the
// field as well.
func TestAMessageIsNotTakenBackWhileItIsSent(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, "(window.load = window.fetch, window.fetch = () => Promise.reject(new TypeError('away')), true)")
	b.say("Once")
	b.awaitText("#unsent .bubble", "Once")
	b.awaitText("#unsent", "Not sent.")
	eval[bool](b, "(window.fetch = window.load, true)")
	eval[bool](b, holdSending)
	b.do(chromedp.Click("#unsent [data-again]"))
	b.await("window.release")
	b.do(chromedp.Click("#unsent [data-restore]"))
	eval[bool](b, "release() && true")
	b.answers(1)
	b.await("!document.querySelector('#unsent > li')")
	b.expectField("")
	b.clean()
}

// refuseNext makes the gateway refuse so many of the page's next requests.
func refuseNext(n int) string {
	return fmt.Sprintf(`((left) => {
		const send = window.fetch;
		window.fetch = async (...request) => left-- > 0 ? new Response(JSON.stringify({ detail: "Not now." }), { status: 422 }) : send(...request);
		return true;
	})(%d)`, n)
}

// "Send now" on a refused message works also while another message is being sent.
func TestARefusedMessageIsSentAgainWhileAnotherIsSent(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, refuseNext(1))
	b.say("first")
	b.awaitText("#unsent .refused", "Not now.")
	eval[bool](b, holdSending)
	b.say("second")
	b.await("window.release && document.querySelectorAll('#unsent > li').length === 2") // which moves no button any more
	b.do(chromedp.Click("#unsent .refused [data-again]"))
	eval[bool](b, "release() && true")
	b.awaitText("#messages .user", "second")
	b.awaitText("#messages .user", "first")
	b.await("!document.querySelector('#unsent > li')")
	b.clean()
}

// What follows a message for which the browser has no room is sent after it.
func TestMessagesKeepTheirOrderWithoutRoom(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, `(() => {
		const put = IDBObjectStore.prototype.put;
		IDBObjectStore.prototype.put = function (row) {
			if (row.text === "large") throw new DOMException("no room", "QuotaExceededError");
			return put.call(this, row);
		};
		const load = window.fetch;
		window.fetch = () => Promise.reject(new TypeError("away"));
		window.back = () => { window.fetch = load; };
		return true;
	})()`)
	b.say("large")
	b.awaitText("#unsent", "Not sent.")
	b.say("small")
	b.await("document.querySelectorAll('#unsent > li').length === 2")
	eval[bool](b, "(window.back(), document.querySelector('#unsent [data-again]').click(), true)")
	b.await("!document.querySelector('#unsent > li') && document.getElementById('answer').hidden")
	b.awaitText("#messages .assistant", "small")
	b.expectAsked("large|small")
	b.clean()
}

// A proxy that leads to its own sign-in has not delivered a message to the gateway: the message is kept.
func TestAMessageIsKeptWhereAProxyAsksForASignIn(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, `(() => {
		const send = window.fetch;
		window.fetch = () => { window.fetch = send; return send("/signin"); }; // leads to a page, with 200
		return true;
	})()`)
	b.say("Do not lose me")
	b.awaitText("#unsent", "Not sent.")
	b.do(chromedp.Click("#unsent [data-again]"))
	b.answers(1)
	b.await("!document.querySelector('#unsent > li')")
	b.clean()
}

// A message for which no reply comes is sent again over another connection.
func TestAMessageWithoutAReplyIsSentAgain(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, `(() => {
		const send = window.fetch;
		const late = new AbortController();
		AbortSignal.timeout = () => late.signal;
		window.fetch = (url, { signal }) => new Promise((_, reject) => {
			window.giveUp = () => { window.fetch = send; AbortSignal.timeout = () => undefined; late.abort(); };
			signal?.addEventListener("abort", () => reject(signal.reason));
		});
		return true;
	})()`)
	b.say("Do not lose me")
	b.await("window.giveUp")
	eval[bool](b, "(window.giveUp(), true)")
	b.awaitText("#unsent", "Not sent.")
	b.do(chromedp.Click("#unsent [data-again]"))
	b.answers(1)
	b.await("!document.querySelector('#unsent > li')")
	b.clean()
}

// A message that is refused in one tab after another one has taken it back stays taken back.
func TestARefusalDoesNotBringAMessageBack(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, "(window.fetch = () => Promise.reject(new TypeError('away')), true)")
	b.say("Once")
	b.awaitText("#unsent", "Not sent.")
	two := openHeld(b)
	b.do(chromedp.Click("#unsent [data-restore]"))
	b.await("!document.querySelector('#unsent > li')")
	two.await("window.refuse && (window.refuse(), true)")
	two.await("window.told && !document.querySelector('#unsent > li')")
}

// openHeld opens the page of a tab in a second one, which hears that its first request is refused when window.refuse() is called.
func openHeld(b *tab) *tab {
	b.t.Helper()
	id := chromedp.FromContext(b.ctx).BrowserContextID
	ctx, end := chromedp.NewContext(chrome, chromedp.WithExistingBrowserContext(id))
	b.t.Cleanup(end)
	second := newTab(b.t, ctx)
	script := page.AddScriptToEvaluateOnNewDocumentParams{Source: `(() => {
		const send = window.fetch;
		window.fetch = (url, request) => request?.method !== "POST" ? send(url, request) : new Promise((resolve) => {
			window.refuse = () => {
				resolve(new Response(JSON.stringify({ detail: "Not now." }), { status: 422 }));
				setTimeout(() => { window.told = true; }, 300);
			};
		});
	})()`}
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		b.t.Fatal(err)
	}
	second.open(eval[string](b, "location.href"))
	return second
}
