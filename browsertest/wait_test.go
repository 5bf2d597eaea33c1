package browsertest

import (
	"fmt"
	"net/http"
	"testing"

	"parley/llm/llmtest"
)

// The page counts down to the next attempt, also where it is opened later, and says when it
// is over.
func TestThePageCountsDownToTheNextAttempt(t *testing.T) {
	t.Parallel()
	g := startGateway(t, func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"25"}}}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("Hello")
	b.awaitText("#text", "The model is busy. Trying again in ")
	b.passes(19)
	b.await(`/Trying again in \d seconds?\./.test(document.getElementById("text").textContent)`)
	late := b.another()
	late.await(`/Trying again in \d+ seconds\./.test(document.getElementById("text").textContent)`)
	late.await(`document.querySelector("#text time:not([data-form])") !== null`) // the page's script counts
	late.passes(30)
	late.awaitText("#text", "Trying again now.")
	late.clean()
}

// passes lets the clock of the page jump ahead.
func (b *tab) passes(seconds int) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf("((now) => { Date.now = () => now() + %d; return true; })(Date.now)", seconds*1000))
}
