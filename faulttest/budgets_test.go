package faulttest

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

// TestKillsDoNotExceedTheCap kills the gateway repeatedly during model calls or right after the answer.
// Every call that reached the model's server is counted, so that the cap is exceeded by one call at
// most, and the chat is told.
func TestKillsDoNotExceedTheCap(t *testing.T) {
	t.Parallel()
	const most, each = 4000, 400
	w := newWorld(t, settings{budget: "total_tokens = 4000", llm: "max_output_tokens = 400"})
	w.model.Reply(func(llmtest.Call) llmtest.Answer {
		answer := llmtest.Answer{Text: "yes", Usage: &llm.Usage{Prompt: each - 1, Completion: 1}}
		if w.model.Served()%2 == 0 { // it is still being written when the gateway is killed
			answer.Pieces, answer.ChunkDelay = 2, time.Hour
		}
		return answer
	})
	random := rand.New(rand.NewPCG(5, 6))
	refused := func() bool {
		return strings.Contains(strings.Join(w.platform.sent(1), "\n"), "Today's 4,000 tokens for everybody are used")
	}
	for n := 1; !refused(); n++ {
		if n > most/each+2 {
			t.Fatalf("the model was asked %d times, and the cap is not reached", w.model.Served())
		}
		before := w.model.Served()
		p := w.startServing() // may ask at once, about a message of before
		w.say(1, "again")
		gatewaytest.Await(t, "the next call", func() bool { return w.model.Served() > before || refused() })
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond) // where it is killed
		p.Kill()
	}
	if calls := w.model.Served(); (calls-1)*each >= most {
		t.Errorf("%d calls of %d tokens passed a cap of %d", calls, each, most)
	}
	p := w.startServing() // counts what the last one left
	p.Stop()
	if n := w.count(`SELECT count(*) FROM budget_reservations`); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
}
