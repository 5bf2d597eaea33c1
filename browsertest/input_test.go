package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// Keys that belong to an input method, as for Japanese, do nothing in the page: Escape stops no answer,
// and Enter ends no renaming.
func TestKeysOfInputMethodsAreLeftAlone(t *testing.T) {
	t.Parallel()
	hold, release := waittest.Gate(t)
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		<-hold
		return echo(c)
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.await("!document.getElementById('stop').hidden")
	compose := func(selector, key string) {
		t.Helper()
		eval[bool](b, fmt.Sprintf("document.querySelector(%s).dispatchEvent(new KeyboardEvent('keydown', { key: %s, isComposing: true, bubbles: true, cancelable: true })) || true", quote(selector), quote(key)))
	}
	compose("#text-field", "Escape")
	if eval[bool](b, "document.getElementById('stop').disabled") {
		t.Error("Escape has stopped the answer")
	}
	release()
	b.answers(1)
	b.lineMenu("one", "rename")
	compose("#chats li input", "Enter")
	b.await("document.querySelector('#chats li input')")
	b.do(chromedp.Focus(".side .find input"), typed("x")) // which ends the renaming, and keeps the focus
	compose(".side .find input", "Escape")
	b.await("document.querySelector('.side .find input').value === 'x'")
	b.clean()
}
