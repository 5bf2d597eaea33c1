package console_test

import (
	"context"
	"testing"
	"time"

	"parley/console"
	"parley/conversation"
	"parley/conversation/usage"
	"parley/embedding"
)

// The overview shows how far the vectors of messages have come, also while all get new
// ones, what they cost, and why the server fails.
func TestTheOverviewShowsEmbeddings(t *testing.T) {
	t.Parallel()
	var status embedding.Status
	d := newConsoleHarness(t, func(p *console.Deps) {
		p.Currency = "EUR"
		p.Embeddings = func(context.Context) (embedding.Status, error) { return status, nil }
	})
	for _, c := range []struct {
		status embedding.Status
		want   []string
	}{
		{embedding.Status{Model: "nomic", Done: 1200, Total: 34_000}, []string{"nomic", "1,200 of 34,000 messages"}},
		{embedding.Status{Model: "nomic", Done: 34_000, Total: 34_000, Used: usage.Embeddings{Requests: 540, Tokens: 1_200_000, Cost: 0.024}},
			[]string{"all messages are processed", "540 requests in all, 1,200,000 tokens, 0.02 EUR"}},
		{embedding.Status{Model: "nomic", Total: 5, Used: usage.Embeddings{Requests: 1}, Failure: "the embeddings server answered 429", Since: time.Now()},
			[]string{"failing", "the embeddings server answered 429", "Search uses words alone"}},
	} {
		status = c.status
		d.shows(d.browser.Page("/console/"), c.want...)
	}
}

// How much of the prompts came from the server's cache is shown for all answers, and in
// the trace of each.
func TestConsoleShowsCachedTokens(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	c := d.talk("telegram:chat:7", conversation.Sender{ID: "1", Name: "Ann"}, "hello", "hi", func(r *conversation.Run) { r.Prompt, r.Cached = 1200, 900 })
	d.shows(d.browser.Page("/console/"), "From the cache</dt><dd>75 %")
	d.shows(d.browser.Page("/console/conversation/"+c.ID+"/trace"), "900")
}
