package browsertest

import (
	"os"
	"path/filepath"
	"testing"

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
	if got := eval[string](b, "document.getElementById('text-field').value"); got != "" {
		t.Errorf("the field has %q", got)
	}
	b.clean()
}
