package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/journal"
	"parley/conversation/steps"
	"parley/conversation/storetest"
	"parley/internal/waittest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// toolProcess runs a router whose tools are called, and copies its database at some point, as a kill
// at that instant would leave it.
type toolProcess struct {
	*harness

	mu    sync.Mutex
	calls map[string]int // how often each tool was called, by its name and arguments
}

// newToolProcess starts a router with the tool read, which may be repeated, and the tool charge, which
// must not. The model requests two rounds of calls and then answers. at is called at each point, such
// as "model 2" or "charge 1".
func newToolProcess(t *testing.T, store *conversation.Store, at func(p *toolProcess, point string), change ...func(*Deps)) *toolProcess {
	t.Helper()
	p := &toolProcess{calls: map[string]int{}}
	tool := func(name string, repeatable bool) tools.Tool {
		return tools.Tool{Name: name, Repeatable: repeatable, Parameters: json.RawMessage(`{"type":"object"}`),
			Call: tools.Text(func(_ context.Context, arguments json.RawMessage) (string, error) {
				call := name + " " + string(arguments)
				p.mu.Lock()
				p.calls[call]++
				p.mu.Unlock()
				at(p, call)
				return "done: " + call, nil
			})}
	}
	registry, err := tools.NewRegistry(tool("read", true), tool("charge", false))
	if err != nil {
		t.Fatal(err)
	}
	p.harness = newHarnessOn(t, store, func(d *Deps) {
		d.Tools = registry
		d.Config.MaxParallelTools = 1
		for _, change := range change {
			change(d)
		}
	})
	p.server.Reply(func(c llmtest.Call) llmtest.Answer {
		results := 0
		for _, m := range c.Messages {
			if m.Role == "tool" {
				results++
			}
		}
		at(p, fmt.Sprint("model ", results/2+1))
		ask := func(n int) llmtest.Answer {
			return llmtest.Answer{Reasoning: fmt.Sprint("I owe bill ", n), Usage: &llm.Usage{Prompt: 100, Completion: 10}, ToolCalls: []llm.ToolCall{
				{ID: "a", Name: "read", Arguments: fmt.Sprint(n)}, {ID: "b", Name: "charge", Arguments: fmt.Sprint(n)}}}
		}
		switch {
		case results == 0:
			return ask(1)
		case results == 2:
			return ask(2)
		}
		return llmtest.Answer{Text: "Both are paid.", Usage: &llm.Usage{Prompt: 100, Completion: 10}}
	})
	return p
}

// waits reports whether a message of the room waits for an answer.
func (h *harness) waits() bool {
	h.t.Helper()
	list, err := h.store.Inbox(h.t.Context(), room, 1)
	if err != nil {
		h.t.Fatal(err)
	}
	return len(list) > 0
}

func nothing(*toolProcess, string) {}

// storeOfAKillAt answers a question and returns the database that a kill at a point would have left, and
// how often each tool had been called until then.
func storeOfAKillAt(t *testing.T, point string) (store *conversation.Store, calls map[string]int) {
	t.Helper()
	copyDatabase := copyAt[*toolProcess](point)
	p := newToolProcess(t, storetest.New(t), func(p *toolProcess, at string) {
		copyDatabase(p, at)
		p.mu.Lock()
		defer p.mu.Unlock()
		if at == point {
			calls = map[string]int{}
			for call, n := range p.calls {
				calls[call] = n
			}
		}
	})
	p.ask(room, "pay both bills")
	p.end()
	return storetest.Open(t, p.copied), calls
}

// Wherever the process dies, the next one repeats no finished model call, repeats no tool call that
// must not be repeated, and answers.
func TestRunGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		point   string
		calls   int    // of the model by the second process
		unknown string // the call whose outcome the model is told to be unknown
		resumed bool
	}{
		{point: "model 1", calls: 3},
		{point: "read 1", calls: 2, resumed: true},
		{point: "charge 1", calls: 2, resumed: true, unknown: "charge 1"},
		{point: "model 2", calls: 2, resumed: true},
		{point: "read 2", calls: 1, resumed: true},
		{point: "charge 2", calls: 1, resumed: true, unknown: "charge 2"},
		{point: "model 3", calls: 1, resumed: true},
	} {
		t.Run(tt.point, func(t *testing.T) {
			t.Parallel()
			store, before := storeOfAKillAt(t, tt.point)
			p := newToolProcess(t, store, nothing)
			if got := p.reply(room); got != "Both are paid." {
				t.Fatalf("the reply: %q", got)
			}
			for _, call := range []string{"charge 1", "charge 2"} {
				if n := before[call] + p.calls[call]; n != 1 {
					t.Errorf("%s ran %d times", call, n)
				}
			}
			for _, call := range []string{"read 1", "read 2"} {
				if n := before[call] + p.calls[call]; n < 1 || n > 2 || n == 2 && call != tt.point {
					t.Errorf("%s ran %d times", call, n)
				}
			}
			if got := p.server.Served(); got != tt.calls {
				t.Errorf("the model was called %d times, want %d", got, tt.calls)
			}
			want := []string{"user: pay both bills", "assistant: ", "tool: done: read 1", "tool: done: charge 1",
				"assistant: ", "tool: done: read 2", "tool: done: charge 2", "assistant: Both are paid."}
			for i := range want {
				if tt.unknown != "" && want[i] == "tool: done: "+tt.unknown {
					want[i] = "tool: " + outcomeUnknown
				}
			}
			if diff := cmp.Diff(want, p.archive()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"I owe bill 1", "I owe bill 2"}, p.thoughts()); diff != "" {
				t.Error(diff)
			}
			if isSent := slices.ContainsFunc(p.server.Calls(), func(c llmtest.Call) bool {
				return slices.ContainsFunc(c.Messages, func(m llm.Message) bool { return strings.Contains(m.Content, "I owe") })
			}); isSent {
				t.Error("the model is sent what it has thought")
			}
			run := p.committed(1)
			if run.Rounds != 3 || run.Prompt != 300 || run.Completion != 30 {
				t.Errorf("the run counts %d model calls with %d and %d tokens", run.Rounds, run.Prompt, run.Completion)
			}
			outline := outline(run.Steps)
			if resumed := slices.Contains(outline, "resumed "); resumed != tt.resumed {
				t.Errorf("the trace: %q", outline)
			}
			wantSteps := []string{"model fake", "tool read", "tool charge", "model fake", "tool read", "tool charge", "model fake"}
			outline = slices.DeleteFunc(outline, func(s string) bool { return s == "resumed " })
			if i := map[string]int{"charge 1": 2, "charge 2": 5}[tt.unknown]; i > 0 {
				wantSteps[i] += " failed"
			}
			if diff := cmp.Diff(wantSteps, outline); diff != "" {
				t.Error(diff)
			}
			if _, found, err := journal.New(store).Of(t.Context(), room); found || err != nil {
				t.Errorf("the journal stays after the commit: %v", err)
			}
		})
	}
}

// A run that is resumed after a crash shows the reasoning and the tool calls from before.
func TestRunThatGoesOnShowsWhatItHasDone(t *testing.T) {
	t.Parallel()
	store, _ := storeOfAKillAt(t, "charge 2")
	var thoughts, called []string
	p := newToolProcess(t, store, func(p *toolProcess, point string) {
		if point != "model 3" {
			return
		}
		p.harness.mu.Lock()
		defer p.harness.mu.Unlock()
		thoughts = slices.Clone(p.shownThoughts)
		for _, call := range p.called {
			called = append(called, strings.TrimSpace(fmt.Sprint(call.Name, " ", call.Arguments, " ", call.Done, " ", call.Error)))
		}
	})
	p.reply(room)
	if diff := cmp.Diff([]string{"I owe bill 1", "I owe bill 2", ""}, thoughts); diff != "" {
		t.Error(diff)
	}
	want := []string{"read 1 true", "charge 1 true", "read 2 true", "charge 2 true outcome unknown: the gateway stopped"}
	if diff := cmp.Diff(want, called); diff != "" {
		t.Error(diff)
	}
}

// thoughts returns what the model thought before its messages, as it is stored.
func (p *toolProcess) thoughts() (list []string) {
	p.t.Helper()
	c, err := p.store.Active(p.t.Context(), room)
	if err != nil {
		p.t.Fatal(err)
	}
	page, err := p.store.Messages(p.t.Context(), conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewTalk})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, m := range page.Messages {
		if m.Reasoning != "" {
			list = append(list, m.Reasoning)
		}
	}
	return list
}

// A message that was edited while the gateway was down keeps the results that are there, and
// no call is made again for it.
func TestEditedMessageKeepsItsResults(t *testing.T) {
	t.Parallel()
	store, _ := storeOfAKillAt(t, "read 1")
	if _, err := store.Edit(t.Context(), conversation.Account{Channel: "cli"}, "1", "pay none", time.Now()); err != nil {
		t.Fatal(err)
	}
	p := newToolProcess(t, store, nothing)
	p.reply(room)
	if p.calls["read 1"]+p.calls["charge 1"] > 0 {
		t.Errorf("calls were made again: %v", p.calls)
	}
	want := []string{"user: pay none", "assistant: ", "tool: " + outcomeUnknown, "tool: " + messageChanged}
	if diff := cmp.Diff(want, p.archive()[:4]); diff != "" {
		t.Error(diff)
	}
}

// A message that was withdrawn while the gateway was down is not answered. The archive keeps
// the results of the tools that were called for it.
func TestWithdrawnMessageKeepsItsResults(t *testing.T) {
	t.Parallel()
	store, _ := storeOfAKillAt(t, "model 2")
	if _, err := store.Withdraw(t.Context(), conversation.Account{Channel: "cli"}, "1"); err != nil {
		t.Fatal(err)
	}
	p := newToolProcess(t, store, nothing)
	p.said = 1 // the message from before
	p.server.Reply(func(c llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "Hello."} })
	if got := p.ask(room, "hi"); got != "Hello." {
		t.Errorf("the reply: %q", got)
	}
	want := []string{"assistant: ", "tool: done: read 1", "tool: done: charge 1", "user: hi", "assistant: Hello."}
	if diff := cmp.Diff(want, p.archive()); diff != "" {
		t.Error(diff)
	}
	if len(p.calls) > 0 || p.server.Served() != 1 {
		t.Errorf("tools were called, %v, or the model %d times", p.calls, p.server.Served())
	}
}

// A /stop that was sent while the gateway was down ends the run and keeps its results.
func TestStopKeepsTheResultsOfAnUnfinishedRun(t *testing.T) {
	t.Parallel()
	store, _ := storeOfAKillAt(t, "model 2")
	stop := conversation.Inbound{Key: room, SourceID: "2", Address: "2", Text: "/stop"}
	if _, err := store.Accept(t.Context(), nil, stop); err != nil {
		t.Fatal(err)
	}
	p := newToolProcess(t, store, nothing)
	if got := p.reply(room); got != stopped {
		t.Errorf("the reply: %q", got)
	}
	want := []string{"user: pay both bills", "assistant: ", "tool: done: read 1", "tool: done: charge 1"}
	if diff := cmp.Diff(want, p.archive()); diff != "" {
		t.Error(diff)
	}
}

// A resumed run does not take messages that arrived after it had begun.
func TestLaterMessagesWaitForARunThatGoesOn(t *testing.T) {
	t.Parallel()
	store, _ := storeOfAKillAt(t, "model 3")
	more := conversation.Inbound{Key: room, SourceID: "2", Address: "2", Text: "and the third"}
	if _, err := store.Accept(t.Context(), nil, more); err != nil {
		t.Fatal(err)
	}
	p := newToolProcess(t, store, nothing)
	p.reply(room)
	if got := p.archive(); len(got) < 8 || got[7] != "assistant: Both are paid." || slices.Contains(got[:8], "user: and the third") {
		t.Errorf("the conversation: %q", got)
	}
	p.reply(room)
}

// A run is ended with an explanation when three processes have died in the same step of it.
func TestRunIsGivenUpAfterThreeCrashes(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"read 1", "model 2"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			store, _ := storeOfAKillAt(t, point)
			for range maxDeaths - 1 {
				p := newToolProcess(t, store, copyAt[*toolProcess](point))
				if got := p.reply(room); got != "Both are paid." {
					t.Fatalf("the reply: %q", got)
				}
				p.end()
				store = storetest.Open(t, p.copied)
			}
			p := newToolProcess(t, store, nothing)
			if got := p.reply(room); !strings.HasPrefix(got, "The gateway stopped 3 times in a row while it worked on this") {
				t.Errorf("the reply: %q", got)
			}
			if p.server.Served() > 0 {
				t.Error("the model was called")
			}
			p.said = 1 // the message from before
			if got := p.ask(room, "/retry"); got != "Both are paid." {
				t.Errorf("the reply to /retry: %q", got)
			}
		})
	}
}

// Orderly stops do not count as crashes, however many there are.
func TestRunIsNotGivenUpAfterOrderlyStops(t *testing.T) {
	t.Parallel()
	store := storetest.New(t)
	for range maxDeaths + 1 {
		reached := make(chan struct{})
		once := sync.OnceFunc(func() { close(reached) })
		p := newToolProcess(t, store, func(_ *toolProcess, point string) {
			if point == "model 2" {
				once()
			}
		})
		p.server.Reply(func(c llmtest.Call) llmtest.Answer {
			if len(c.Messages) < 4 {
				return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "read", Arguments: "1"}}}
			}
			once()
			return llmtest.Answer{Silence: true}
		})
		p.router.deps.Config.DrainTimeout = 1
		if !p.waits() {
			p.say(room, "pay both bills")
		}
		waittest.Receive(t, reached, "the model is asked again")
		p.end()
	}
	p := newToolProcess(t, store, nothing)
	p.server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "Paid."} })
	if got := p.reply(room); got != "Paid." {
		t.Errorf("the reply: %q", got)
	}
	run := p.committed(1)
	if n := len(slices.DeleteFunc(slices.Clone(run.Steps), func(s steps.Step) bool { return s.Kind != steps.Tool })); n != 1 {
		t.Errorf("the tool was called %d times: %q", n, outline(run.Steps))
	}
}
