package agentloop

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/media"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// words returns n random words.
func words(r *rand.Rand, n int) string {
	list := []string{"the", "river", "was", "deep", "and", "nobody", "knew", "where", "bridge", "stood", "until", "morning", "came",
		"with", "seventeen", "letters", "from", "harbour", "market", "quickly", "under", "green", "window", "of", "a", "house"}
	var b strings.Builder
	for range n {
		b.WriteString(list[r.IntN(len(list))] + " ")
	}
	return b.String()
}

// callBytes returns what a call sends, in the order in which servers give it to the model: tools,
// then messages.
func callBytes(t *testing.T, c llmtest.Call) string {
	t.Helper()
	var b strings.Builder
	write := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	for _, tool := range c.Tools {
		write(tool)
	}
	for _, m := range c.Messages {
		b.WriteString(m.Role + ":" + m.Text() + "\n")
		m.Role, m.Content, m.Note = "", "", ""
		if !reflect.ValueOf(m).IsZero() { // it has more than its text
			write(m)
		}
	}
	return b.String()
}

// repeatedShare returns the share of a call with which the previous call begins, too.
func repeatedShare(before, call string) float64 {
	n := sort.Search(min(len(before), len(call)), func(i int) bool { return before[:i+1] != call[:i+1] })
	return float64(n) / float64(len(call))
}

// Most of each call repeats the beginning of the previous one, so that the model's server can take it
// from its cache: also with a summary, and across restarts.
func TestCallsBeginLikeThePreviousCall(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it has six long conversations")
	}
	t.Parallel()
	mostlyShort := func(r *rand.Rand) int { return int(30 * math.Pow(10, r.Float64())) } // 117 on average
	evenly := func(r *rand.Rand) int { return 30 + r.IntN(271) }                         // 165 on average
	threeRules := []string{"answer in British English, and never in more than three paragraphs", "all sizes in metric units", "never name a customer"}
	for _, talk := range []struct {
		name          string
		budget, turns int
		words         func(*rand.Rand) int // of a turn, 30 to 300, a quarter of them the question's
		rules         []string             // that are noted at the beginning
		least         float64
	}{
		{"even", 8000, 300, evenly, nil, 0.92},
		{"short", 32_000, 540, mostlyShort, nil, 0.97},
		{"even with rules", 8000, 300, evenly, threeRules, 0.92},
	} {
		for _, strategy := range []string{SlidingWindow, Summarization} {
			t.Run(fmt.Sprint(talk.name, " ", talk.budget, " ", strategy), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(1, uint64(talk.budget)))
				h := newRecallHarness(t, func(d *Deps) {
					d.Budget, d.StateBudget, d.Strategy, d.KeepRecent = talk.budget, 800, strategy, 20
				})
				for _, rule := range talk.rules {
					h.ask(room, "/state add rule: "+rule)
				}
				share := 0.0
				before := ""
				advanced, start := 0, int64(1)
				for n := range talk.turns {
					said := talk.words(r)
					h.server.Reply(func(c llmtest.Call) llmtest.Answer {
						if c.Messages[0].Content == summaryPrompt {
							return llmtest.Answer{Text: "They spoke of the river. " + strings.Repeat("And of more. ", 40)}
						}
						return llmtest.Answer{Text: words(rand.New(rand.NewPCG(2, uint64(n))), said*3/4), NoUsage: true}
					})
					if n%50 == 25 {
						h.end()
						h.start()
					}
					h.ask(room, words(r, said/4))
					calls := h.server.Calls()
					last := calls[len(calls)-1]
					for i := len(calls) - 1; last.Messages[0].Content == summaryPrompt; i-- {
						last = calls[i]
					}
					now := callBytes(t, last)
					share += repeatedShare(before, now) / float64(talk.turns)
					before = now
					if c, err := h.store.Active(t.Context(), room); err != nil || c.Window.Start < start {
						t.Fatalf("the window begins at %d after %d, %v", c.Window.Start, start, err)
					} else if c.Window.Start > start {
						advanced, start = advanced+1, c.Window.Start
					}
				}
				t.Logf("%.3f of each call repeat the one before; the window has advanced %d times in %d turns", share, advanced, talk.turns)
				if share < talk.least || advanced < 3 {
					t.Errorf("%.3f of each call repeat the one before, want %.2f; the window has advanced %d times", share, talk.least, advanced)
				}
			})
		}
	}
}

// Each call repeats the history that the previous one sent, across restarts and whatever tools
// return, unless the window advances or an edit, /undo or /retry changes it.
func TestCallsDoNotChangeWhatEarlierCallsSent(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it has many conversations")
	}
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 11))
			h := newRecallHarness(t, func(d *Deps) {
				d.Budget, d.StateBudget, d.KeepRecent = 1200+r.IntN(3000), 300, 4
				if d.Strategy = SlidingWindow; seed%2 == 1 {
					d.Strategy = Summarization
				}
				if d.Files, d.Vision = (channelFiles{"cat": png}), seed%3 > 0; d.Vision {
					d.Budget += 1000 * (4 + r.IntN(36))
				}
			})
			h.server.Reply(func(c llmtest.Call) llmtest.Answer { return anyAnswer(seed, c) })
			calls := callComparison{h: h, changed: true}
			retried := false
			for range 60 {
				if command := h.doAnything(r); command != "" {
					calls.changed, retried = true, command == "/retry"
				}
				calls.compare()
				if retried { // a /retry in another place is told that place, which does not stay with the message
					calls.changed, retried = true, false
				}
			}
			if refused := h.server.Refusals(); len(refused) > 0 {
				t.Errorf("refused: %v", refused)
			}
		})
	}
}

// anyAnswer returns a summary, tool calls, an error or random words, as the call and the seed say.
func anyAnswer(seed uint64, c llmtest.Call) llmtest.Answer {
	n := len(c.LastUser()) + 7*len(c.Messages)
	last := c.Messages[len(c.Messages)-1]
	switch {
	case c.Messages[0].Content == summaryPrompt:
		return llmtest.Answer{Text: "They spoke of the river."}
	case last.Role == "user" && n%3 == 0:
		return llmtest.Answer{ToolCalls: []llm.ToolCall{
			{ID: "a", Name: tools.RecallName, Arguments: "{}"},
			{ID: "b", Name: tools.SessionStateName, Arguments: fmt.Sprintf(`{"kind":"decision","text":"number %d"}`, n)},
		}}
	case n%17 == 0:
		return llmtest.Answer{Status: 400, Body: `{"error":{"message":"no"}}`}
	}
	usage := llm.Usage{Prompt: 300 + n%900, Completion: 5} // from which the gateway learns how the server counts
	return llmtest.Answer{Text: words(rand.New(rand.NewPCG(seed, uint64(n))), 1<<(n%8)), Usage: &usage}
}

// doAnything lets one random thing happen in the room: a message, several at once, one with pictures or
// from another place, a command, a restart, or a look at the window. It returns the command if it
// changed the conversation: /undo or /retry.
func (h *harness) doAnything(r *rand.Rand) (command string) {
	h.t.Helper()
	switch r.IntN(12) {
	default:
		h.ask(room, words(r, 1<<r.IntN(8)))
	case 0:
		h.ask(room, "as we discussed, "+words(r, 1<<r.IntN(10)))
	case 1:
		h.say(room, words(r, 10), words(r, 20))
		h.reply(room)
		until(h.t, "all answered", func() bool {
			waiting, err := h.store.Inbox(h.t.Context(), room, 1)
			return err == nil && len(waiting) == 0
		})
	case 2:
		command = []string{"/undo", "/retry"}[r.IntN(2)]
		h.ask(room, command)
	case 3:
		h.end()
		h.start()
	case 4:
		h.ask(room, []string{"/status", "/state"}[r.IntN(2)])
	case 5:
		if _, err := h.router.Window(h.t.Context(), room); err != nil {
			h.t.Fatal(err)
		}
	case 7, 8:
		n := []int{1, 2, 2, 5, 10, 20}[r.IntN(6)]
		h.accept(withFiles(h.inbound(room, words(r, 5)), slices.Repeat([]media.Attachment{{Name: "cat.png", MediaType: "image/png", Ref: "cat"}}, n)...))
		h.reply(room)
	case 6:
		in := h.inbound(room, "in another place now")
		in.Place = fmt.Sprint("room ", r.IntN(100))
		h.accept(in)
		h.reply(room)
	}
	return command
}

// callComparison compares each call of a conversation with the one before.
type callComparison struct {
	h       *harness
	changed bool // the next call may differ: the window or the conversation changed, or there was no call yet
	window  conversation.Window
	before  llmtest.Call
	seen    int // number of calls that were compared
}

// compare fails the test if one of the calls since the last comparison changes what the call before it
// sent, unless the window has moved.
func (c *callComparison) compare() {
	t := c.h.t
	t.Helper()
	active, err := c.h.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	c.changed = c.changed || active.Window != c.window
	c.window = active.Window
	calls := c.h.server.Calls()[c.seen:] // of one run, or of two
	c.seen += len(calls)
	for _, call := range calls {
		if call.Messages[0].Content == summaryPrompt {
			continue
		}
		if !c.changed {
			sameHistory(t, c.before, call)
		}
		c.before = call
	}
	c.changed = c.changed && len(calls) == 0
}

// sameHistory fails the test unless a call repeats what the previous one sent up to its newest
// question, with the lasting part of the note there. The question itself may be cut now, since it had
// more room while it was the newest.
func sameHistory(t *testing.T, before, call llmtest.Call) {
	t.Helper()
	if len(call.Tools) != len(before.Tools) {
		t.Fatalf("call %d offers %d tools, and the one before %d", call.N, len(call.Tools), len(before.Tools))
	}
	newest := 0
	for i, m := range before.Messages {
		if m.Role == "user" {
			newest = i
		}
	}
	for i, m := range before.Messages[:min(newest+1, len(call.Messages))] {
		got := call.Messages[i]
		if got.Note != m.Note && (i < newest || !strings.HasPrefix(m.Note, got.Note)) {
			t.Fatalf("call %d tells in front of message %d %q, and the one before %q", call.N, i, got.Note, m.Note)
		}
		if i == newest {
			break
		}
		if got.Role != m.Role || got.Content != m.Content || len(got.Images) != len(m.Images) {
			t.Fatalf("call %d sends as message %d\n%s: %.200q with %d pictures\nand the one before\n%s: %.200q with %d",
				call.N, i, got.Role, got.Content, len(got.Images), m.Role, m.Content, len(m.Images))
		}
	}
}
