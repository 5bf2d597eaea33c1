package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/places"
	"parley/conversation/storetest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// approvalHarness runs a router whose tool "pay" must be allowed by a person. The model requests the
// test's calls in its first answer, and then repeats their results.
type approvalHarness struct {
	*harness

	mu   sync.Mutex
	paid map[string]int // by the arguments
}

func newApprovalHarness(t *testing.T, store *conversation.Store, change func(*Deps), at func(*approvalHarness, string), calls ...llm.ToolCall) *approvalHarness {
	t.Helper()
	a := &approvalHarness{paid: map[string]int{}}
	if at == nil {
		at = func(*approvalHarness, string) {}
	}
	tool := func(name string, t tools.Tool) tools.Tool {
		t.Name, t.Parameters = name, json.RawMessage(`{"type":"object"}`)
		t.Call = tools.Text(func(_ context.Context, arguments json.RawMessage) (string, error) {
			a.mu.Lock()
			a.paid[name+" "+string(arguments)]++
			a.mu.Unlock()
			at(a, "call")
			return "done: " + name + " " + string(arguments), nil
		})
		return t
	}
	registry, err := tools.NewRegistry(
		tool("pay", tools.Tool{Approve: tools.ApproveAsk}),
		tool("renew", tools.Tool{Approve: tools.ApproveAsk, Repeatable: true}),
		tool("look", tools.Tool{ReadOnly: true, Repeatable: true}))
	if err != nil {
		t.Fatal(err)
	}
	a.harness = newHarnessOn(t, store, func(d *Deps) {
		d.Tools, d.Approvals = registry, tools.DefaultConfig()
		d.FromOperator = func(in conversation.Inbound) bool { return in.Sender.ID == "" }
		if change != nil {
			change(d)
		}
	})
	if len(calls) == 0 {
		calls = []llm.ToolCall{{ID: "a", Name: "pay", Arguments: `{"sum": 5}`}}
	}
	a.server.Reply(func(c llmtest.Call) llmtest.Answer {
		var results []string
		for _, m := range c.Messages {
			if m.Role == "tool" {
				results = append(results, m.Text())
			}
		}
		at(a, fmt.Sprint("model ", min(len(results), 1)+1))
		if len(results) == 0 {
			return llmtest.Answer{ToolCalls: calls}
		}
		return llmtest.Answer{Text: "It says " + strings.Join(results, "; ")}
	})
	return a
}

// calls returns how often the tools were called.
func (a *approvalHarness) calls() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := map[string]int{}
	for call, times := range a.paid {
		n[call] = times
	}
	return n
}

// open returns the open questions of the room.
func (a *approvalHarness) open() []approvals.Question {
	a.t.Helper()
	open, err := approvals.New(a.store).Open(a.t.Context(), room)
	if err != nil {
		a.t.Fatal(err)
	}
	return open
}

// answered returns the run that has answered the room.
func (a *approvalHarness) answered() (answer conversation.Run) {
	a.t.Helper()
	until(a.t, "the run of the answer", func() bool {
		a.harness.mu.Lock()
		defer a.harness.mu.Unlock()
		i := slices.IndexFunc(a.runs, func(run conversation.Run) bool { return run.Kind == conversation.KindAgent && run.Key == room })
		if i >= 0 {
			answer = a.runs[i]
		}
		return i >= 0
	})
	return answer
}

// from returns a message that a person writes in the room.
func (a *approvalHarness) from(who, text string) conversation.Inbound {
	in := a.inbound(room, text)
	in.Sender = conversation.Sender{ID: who, Name: strings.ToUpper(who[:1]) + who[1:]}
	return in
}

const saysPaid5 = `It says done: pay {"sum": 5}`

func TestCallWaitsUntilItIsAllowed(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), func(d *Deps) { d.Config.MaxConcurrentRuns = 1 }, nil)
	a.accept(a.from("ann", "pay the bill"))
	asked := a.reply(room)
	for _, want := range []string{"May I do this?", "`pay`", `"sum": 5`, "`/approve 1` or `/deny 1`", "10 minutes"} {
		if !strings.Contains(asked, want) {
			t.Errorf("the question lacks %q: %q", want, asked)
		}
	}
	// The only slot is free for another session meanwhile.
	other := conversation.Key("cli:other")
	a.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if last := c.Messages[len(c.Messages)-1]; last.Role == "tool" {
			return llmtest.Answer{Text: "It says " + last.Text()}
		}
		return llmtest.Answer{Text: "Hello there."}
	})
	if got := a.ask(other, "hi"); got != "Hello there." {
		t.Errorf("another session gets %q", got)
	}
	if len(a.calls()) > 0 {
		t.Fatal("the tool was called before anybody allowed it")
	}
	a.accept(a.from("ann", "/approve"))
	if got := a.reply(room); !strings.HasPrefix(got, "✅ Allowed by Ann: `pay`") || !strings.Contains(got, `"sum": 5`) {
		t.Errorf("the approval is acknowledged with %q", got)
	}
	if got := a.reply(room); got != saysPaid5 {
		t.Errorf("the reply: %q", got)
	}
	if diff := cmp.Diff(map[string]int{`pay {"sum": 5}`: 1}, a.calls()); diff != "" {
		t.Error(diff)
	}
	run := a.answered()
	want := []string{"model fake", "approval pay", "tool pay", "model fake"}
	if diff := cmp.Diff(want, outline(run.Steps)); diff != "" {
		t.Error(diff)
	}
	if step := run.Steps[1]; step.Answer != "allowed" || step.By != "Ann" || step.CallID != "a" {
		t.Errorf("the trace says %+v", step)
	}
	if q, err := approvals.New(a.store).Newest(t.Context(), room); err != nil || q.Arguments != "" {
		t.Errorf("the question keeps its arguments after the run: %+v, %v", q, err)
	}
}

func TestRefusedCallIsNotMade(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ answer, says, model string }{
		{"/deny", "🚫 Denied by Ann: `pay`", callDenied},
		{"no", "🚫 Denied by Ann: `pay`", callDenied},
		{"/deny 1", "🚫 Denied by Ann: `pay`", callDenied},
	} {
		t.Run(tt.answer, func(t *testing.T) {
			t.Parallel()
			a := newApprovalHarness(t, storetest.New(t), nil, nil)
			a.accept(a.from("ann", "pay the bill"))
			a.reply(room)
			a.accept(a.from("ann", tt.answer))
			if got := a.reply(room); !strings.HasPrefix(got, tt.says) {
				t.Errorf("the answer: %q", got)
			}
			if got := a.reply(room); got != "It says "+tt.model {
				t.Errorf("the reply: %q", got)
			}
			if len(a.calls()) > 0 {
				t.Error("the tool was called")
			}
		})
	}
}

func TestPlainYesCountsOnlyAsAnAnswerToTheQuestion(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), nil, nil)
	a.accept(a.from("ann", "pay the bill"))
	a.reply(room)
	a.accept(a.from("ann", "Yes."))
	if got := a.reply(room); !strings.HasPrefix(got, "✅ Allowed by Ann") {
		t.Errorf("a plain yes: %q", got)
	}
	if got := a.reply(room); got != saysPaid5 {
		t.Errorf("the reply: %q", got)
	}
	for name, say := range map[string]func(*approvalHarness) []conversation.Inbound{
		"in a group": func(a *approvalHarness) []conversation.Inbound {
			in := a.from("ann", "yes")
			in.Group = true
			return []conversation.Inbound{in}
		},
		"from somebody else": func(a *approvalHarness) []conversation.Inbound { return []conversation.Inbound{a.from("bob", "yes")} },
		"after something else": func(a *approvalHarness) []conversation.Inbound {
			return []conversation.Inbound{a.from("ann", "wait"), a.from("ann", "yes")}
		},
		"before it was asked": func(a *approvalHarness) []conversation.Inbound {
			in := a.from("ann", "yes")
			in.At = in.At.Add(-time.Hour)
			return []conversation.Inbound{in}
		},
		"with more": func(a *approvalHarness) []conversation.Inbound {
			return []conversation.Inbound{a.from("ann", "yes, but only half")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApprovalHarness(t, storetest.New(t), nil, nil)
			a.accept(a.from("ann", "pay the bill"))
			a.reply(room)
			a.accept(say(a)...)
			if got := a.reply(room); !strings.HasPrefix(got, "❓ I still wait for an answer: may I run `pay`?") {
				t.Errorf("the chat is told %q", got)
			}
			if len(a.open()) != 1 || len(a.calls()) > 0 {
				t.Error("it counted as an answer")
			}
		})
	}
}

func TestOnlyApproversAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		approvers []string
		who       string
		may       bool
	}{
		{nil, "ann", true},
		{nil, "bob", false},
		{[]string{"anyone"}, "bob", true},
		{[]string{"telegram:42"}, "ann", false},
		{[]string{"cli:bob"}, "bob", true},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			t.Parallel()
			a := newApprovalHarness(t, storetest.New(t), func(d *Deps) {
				if tt.approvers != nil {
					d.Approvals.Approvers = tt.approvers
				}
			}, nil)
			a.accept(a.from("ann", "pay the bill"))
			a.reply(room)
			a.accept(a.from(tt.who, "/approve 1"))
			got := a.reply(room)
			if may := strings.HasPrefix(got, "✅"); may != tt.may {
				t.Fatalf("%s is told %q", tt.who, got)
			}
			if !tt.may && (len(a.open()) != 1 || len(a.calls()) > 0) {
				t.Error("the question does not stay open")
			}
		})
	}
}

func TestSecondAnswerComesTooLate(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), nil, nil)
	a.accept(a.from("ann", "pay the bill"))
	a.reply(room)
	a.accept(a.from("ann", "/approve 1"), a.from("ann", "/deny 1"), a.from("ann", "/approve 1"))
	var replies []string
	for range 4 {
		got, _, _ := strings.Cut(a.reply(room), "\n")
		replies = append(replies, got)
	}
	if replies[0] != "✅ Allowed by Ann: `pay`" || !slices.Contains(replies, saysPaid5) {
		t.Errorf("the replies: %q", replies)
	}
	late := slices.DeleteFunc(slices.Clone(replies), func(s string) bool {
		return !strings.HasPrefix(s, "Question 1 is answered already: `pay` was allowed by Ann")
	})
	if len(late) != 2 || a.calls()[`pay {"sum": 5}`] != 1 {
		t.Errorf("the replies: %q, the calls: %v", replies, a.calls())
	}
}

func TestUnansweredQuestionExpires(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), func(d *Deps) { d.Approvals.ApproveTimeout = time.Millisecond }, nil)
	a.accept(a.from("ann", "pay the bill"))
	replies := []string{a.reply(room), a.reply(room), a.reply(room)}
	if !strings.HasPrefix(replies[1], "⌛ `pay` was not allowed within") || replies[2] != "It says "+callExpired {
		t.Errorf("the replies: %q", replies)
	}
	a.accept(a.from("ann", "/approve 1"))
	if got := a.reply(room); !strings.HasPrefix(got, "Question 1 is closed: nobody answered") {
		t.Errorf("a press on an old question: %q", got)
	}
	if len(a.calls()) > 0 {
		t.Error("the tool was called")
	}
}

func TestAnswerHoldsForTheSession(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), func(d *Deps) { d.Approvals.ApproveRemember = true }, nil,
		llm.ToolCall{ID: "a", Name: "pay", Arguments: `{"sum": 5}`}, llm.ToolCall{ID: "b", Name: "pay", Arguments: `{"sum": 6}`})
	a.accept(a.from("ann", "pay the bills"))
	a.reply(room)
	a.reply(room)
	a.accept(a.from("ann", "/approve 1 always"))
	if got := a.reply(room); !strings.Contains(got, "`/approvals revoke pay` ends that") {
		t.Errorf("the answer: %q", got)
	}
	both := `It says done: pay {"sum": 5}; done: pay {"sum": 6}`
	if got := a.reply(room); got != both {
		t.Errorf("the reply: %q", got)
	}
	a.accept(a.from("ann", "/new"))
	a.reply(room)
	a.accept(a.from("ann", "pay them again"))
	if got := a.reply(room); got != both {
		t.Errorf("it is asked again: %q", got)
	}
	a.accept(a.from("ann", "/approvals"))
	if got := a.reply(room); !strings.Contains(got, "Always allowed in this session:\n\n- `pay`, by Ann") {
		t.Errorf("/approvals: %q", got)
	}
	a.accept(a.from("ann", "/approvals revoke pay"))
	a.reply(room)
	a.accept(a.from("ann", "/new"))
	a.reply(room)
	a.accept(a.from("ann", "and again"))
	if got := a.reply(room); !strings.HasPrefix(got, "❓ **May I do this?**") {
		t.Errorf("after it was revoked: %q", got)
	}
}

func TestCallsOfOneRoundAreAskedAboutTogether(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), nil, nil,
		llm.ToolCall{ID: "a", Name: "pay", Arguments: `{"sum": 1}`}, llm.ToolCall{ID: "b", Name: "look", Arguments: `{}`},
		llm.ToolCall{ID: "c", Name: "pay", Arguments: `{"sum": 2}`})
	a.accept(a.from("ann", "pay"))
	a.reply(room)
	a.reply(room)
	if got := a.calls(); got["look {}"] != 1 || len(got) != 1 {
		t.Errorf("called before the answers: %v", got)
	}
	a.accept(a.from("ann", "/approve"))
	if got := a.reply(room); !strings.HasPrefix(got, "Which one?") {
		t.Errorf("an answer that may mean each: %q", got)
	}
	a.accept(a.from("ann", "/status"))
	if got := a.reply(room); strings.Count(got, "Waits for your answer") != 2 {
		t.Errorf("/status: %q", got)
	}
	a.accept(a.from("ann", "/deny 1"))
	a.reply(room)
	a.accept(a.from("ann", "/approve all"))
	a.reply(room)
	want := "It says " + callDenied + "; done: look {}; done: pay {\"sum\": 2}"
	if got := a.reply(room); got != want {
		t.Errorf("the reply: %q", got)
	}
}

func TestMessagesWaitForTheAnswer(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), nil, nil)
	a.accept(a.from("ann", "pay the bill"))
	a.reply(room)
	a.accept(a.from("ann", "and tell me the time"))
	a.reply(room)
	a.accept(a.from("ann", "and the weather"), a.from("ann", "/approve"))
	a.reply(room)
	if got := a.reply(room); got != saysPaid5 {
		t.Errorf("the reply: %q", got)
	}
	a.reply(room)
	want := []string{"user: pay the bill", "assistant: ", `tool: done: pay {"sum": 5}`, "assistant: " + saysPaid5, "user: and tell me the time", "user: and the weather"}
	if diff := cmp.Diff(want, a.archive()[:6]); diff != "" {
		t.Error(diff)
	}
}

func TestCommandsThatEndTheRunCancelTheQuestion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ command, first string }{
		{"/stop", stopped},
		{"/new", "⏹ I no longer ask for `pay`; it was not run."},
		{"/clear", "⏹ I no longer ask for `pay`; it was not run."},
	} {
		t.Run(tt.command, func(t *testing.T) {
			t.Parallel()
			a := newApprovalHarness(t, storetest.New(t), nil, nil)
			a.accept(a.from("ann", "pay the bill"))
			a.reply(room)
			a.accept(a.from("ann", tt.command))
			if got := a.reply(room); got != tt.first {
				t.Errorf("the reply: %q", got)
			}
			if tt.command != "/stop" {
				a.reply(room)
			}
			a.accept(a.from("ann", "/approve 1"))
			if got := a.reply(room); !strings.HasPrefix(got, "Question 1 is closed: the answer was stopped") {
				t.Errorf("a press on the old question: %q", got)
			}
			if len(a.calls()) > 0 || a.waits() {
				t.Error("the call was made, or the message still waits")
			}
			if tt.command == "/stop" {
				if diff := cmp.Diff([]string{"user: pay the bill", "assistant: ", "tool: " + callStopped}, a.archive()); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestEditCancelsTheQuestion(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), nil, nil)
	in := a.from("ann", "pay the bill")
	a.accept(in)
	a.reply(room)
	key, err := a.store.Edit(t.Context(), conversation.Account{Channel: "cli"}, in.SourceID, "pay nothing", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a.router.Edited(key)
	if got := a.reply(room); got != "It says "+callCancelled {
		t.Errorf("the reply: %q", got)
	}
	if len(a.open()) > 0 || len(a.calls()) > 0 {
		t.Error("the question is open, or the call was made")
	}
}

func TestWithdrawnMessageCancelsItsQuestion(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), nil, nil)
	in := a.from("ann", "pay the bill")
	a.accept(in)
	a.reply(room)
	key, err := a.store.Withdraw(t.Context(), conversation.Account{Channel: "cli"}, in.SourceID)
	if err != nil {
		t.Fatal(err)
	}
	a.router.Edited(key)
	a.accept(a.from("ann", "/approve 1"))
	if got := a.reply(room); !strings.HasPrefix(got, "Question 1 is closed") {
		t.Errorf("the answer: %q", got)
	}
	if len(a.open()) > 0 || len(a.calls()) > 0 {
		t.Error("the question is open, or the call was made")
	}
}

// The ID of a call has a NUL character, which is not stored as it is: the answer to its question is found all the same, and
// the call is made.
func TestCallWhoseIDHasNULIsAllowed(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), nil, nil, llm.ToolCall{ID: "a\x00b", Name: "pay", Arguments: `{"sum": 5}`})
	a.accept(a.from("ann", "pay the bill"))
	a.reply(room)
	a.accept(a.from("ann", "/approve 1"))
	if replies := []string{a.reply(room), a.reply(room)}; replies[1] != saysPaid5 {
		t.Errorf("the replies: %q", replies)
	}
}

// Somebody deletes a message whose call waits for an answer, and writes nothing else: the question is closed at once, and
// the archive has the calls that were made before it, in front of later messages.
func TestWithdrawnMessageEndsTheRunThatAsks(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), nil, nil,
		llm.ToolCall{ID: "a", Name: "look", Arguments: "{}"}, llm.ToolCall{ID: "b", Name: "pay", Arguments: `{"sum": 5}`})
	in := a.from("ann", "pay the bill")
	a.accept(in)
	a.reply(room)
	key, err := a.store.Withdraw(t.Context(), conversation.Account{Channel: "cli"}, in.SourceID)
	if err != nil {
		t.Fatal(err)
	}
	a.router.Edited(key)
	run := a.answered()
	if run.Status != conversation.StatusStopped || len(run.Replies) > 0 || len(a.open()) > 0 {
		t.Errorf("the run is %s, with %d replies and %d open questions", run.Status, len(run.Replies), len(a.open()))
	}
	a.server.Reply(llmtest.Echo)
	a.accept(a.from("ann", "hello"))
	if got := a.reply(room); got != "echo: hello" {
		t.Errorf("the next message is answered with %q", got)
	}
	page, err := a.store.Messages(t.Context(), conversation.MessageQuery{Conversation: run.Conversation.ID, View: conversation.ViewAll})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range page.Messages {
		all = append(all, string(m.Role)+": "+m.Content)
	}
	want := []string{"assistant: ", "tool: done: look {}", "tool: " + callCancelled, "user: hello", "assistant: echo: hello"}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}

// After a kill at any step, the call is made exactly once, unless its tool may be repeated, and the user gets a reply.
func TestApprovalSurvivesAKill(t *testing.T) {
	t.Parallel()
	answer := conversation.Inbound{Key: room, SourceID: "2", Address: "2", Text: "/approve 1", Sender: conversation.Sender{ID: "ann", Name: "Ann"}, At: time.Now()}
	for _, tt := range []struct {
		name, tool, point string
		asks              bool   // the next process asks
		times             int    // that the tool is called in all
		says              string // the last reply
	}{
		{name: "before the question", tool: "pay", point: "model 1", asks: true, times: 1, says: saysPaid5},
		{name: "while it is open", tool: "pay", point: "asked", times: 1, says: saysPaid5},
		{name: "with the answer in the inbox", tool: "pay", point: "answer", times: 1, says: saysPaid5},
		{name: "after the answer", tool: "pay", point: "given", times: 1, says: saysPaid5},
		{name: "in the call", tool: "pay", point: "call", times: 1, says: "It says " + outcomeUnknown},
		{name: "in a call that may be repeated", tool: "renew", point: "call", times: 2, says: `It says done: renew {"sum": 5}`},
		{name: "after the call", tool: "pay", point: "model 2", times: 1, says: saysPaid5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			call := llm.ToolCall{ID: "a", Name: tt.tool, Arguments: `{"sum": 5}`}
			first := newApprovalHarness(t, storetest.New(t), nil, copyAt[*approvalHarness](tt.point), call)
			first.accept(first.from("ann", "pay the bill"))
			first.reply(room)
			before := 0
			switch tt.point {
			case "asked":
				first.copied = copyAsKilled(t, first.store)
			case "answer":
				first.end()
				if _, err := first.store.Accept(t.Context(), nil, answer); err != nil {
					t.Fatal(err)
				}
				first.copied = copyAsKilled(t, first.store)
			case "given":
				first.end()
				if _, _, err := approvals.New(first.store).Give(t.Context(), approvals.Answer{ID: 1, Session: room, Allow: true, By: "Ann"}); err != nil {
					t.Fatal(err)
				}
				first.copied = copyAsKilled(t, first.store)
			case "call", "model 2":
				first.accept(answer)
				first.reply(room)
				first.reply(room)
				before = 1
			}
			first.end()
			a := newApprovalHarness(t, storetest.Open(t, first.copied), nil, nil, call)
			a.said = 2
			if tt.asks {
				if got := a.reply(room); !strings.HasPrefix(got, "❓") {
					t.Fatalf("it is not asked again: %q", got)
				}
			}
			if tt.asks || tt.point == "asked" {
				a.accept(a.from("ann", "/approve 1"))
			}
			got := a.reply(room)
			for strings.HasPrefix(got, "✅") || strings.HasPrefix(got, "❓") {
				got = a.reply(room)
			}
			if got != tt.says {
				t.Errorf("the reply: %q", got)
			}
			if n := before + a.calls()[tt.tool+` {"sum": 5}`]; n != tt.times {
				t.Errorf("the tool was called %d times", n)
			}
		})
	}
}

func TestShutdownKeepsTheQuestion(t *testing.T) {
	t.Parallel()
	store := storetest.New(t)
	a := newApprovalHarness(t, store, nil, nil)
	a.accept(a.from("ann", "pay the bill"))
	a.reply(room)
	a.end()
	again := newApprovalHarness(t, storetest.Open(t, copyAsKilled(t, store)), nil, nil)
	again.said = 1
	if len(again.open()) != 1 {
		t.Fatal("the question is gone")
	}
	again.accept(again.from("ann", "yes"))
	again.reply(room)
	if got := again.reply(room); got != saysPaid5 {
		t.Errorf("the reply: %q", got)
	}
	if run := again.answered(); slices.Contains(outline(run.Steps), "resumed ") {
		t.Errorf("the trace says that the gateway had died: %q", outline(run.Steps))
	}
}

// A group asks whether a call may be made when it becomes known that it has moved, and so does the session that it belongs to from then on.
// Both questions can be answered there, and each call is made once.
func TestQuestionOfAPlaceThatMovesIsAnsweredInItsSession(t *testing.T) {
	t.Parallel()
	const before, now = conversation.Key("cli:group"), conversation.Key("cli:supergroup")
	for name, keys := range map[string][]conversation.Key{"moved after": {before, now}, "moved before": {now, before}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApprovalHarness(t, storetest.New(t), nil, nil)
			a.server.Reply(func(c llmtest.Call) llmtest.Answer {
				last := c.Messages[len(c.Messages)-1]
				if last.Role == "tool" {
					return llmtest.Answer{Text: "It says " + last.Text()}
				}
				sum := "1"
				if strings.Contains(last.Text(), "pay 2") {
					sum = "2"
				}
				return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call-" + sum, Name: "pay", Arguments: `{"sum": ` + sum + `}`}}}
			})
			for i, key := range keys {
				in := a.inbound(key, fmt.Sprintf("pay %d", i+1))
				in.Sender, in.Group = conversation.Sender{ID: "ann", Name: "Ann"}, true
				a.accept(in)
				if asked := a.reply(key); !strings.Contains(asked, "May I do this?") {
					t.Fatal(asked)
				}
			}
			moves := places.New(a.store)
			if _, err := moves.MovePlace(t.Context(), before, now, func(address string) string { return address }); err != nil {
				t.Fatal(err)
			}
			if err := a.router.Exclusively(t.Context(), now, func(ctx context.Context) error {
				_, err := moves.AdoptPlace(ctx, now)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			a.router.Wake(before)
			open, err := approvals.New(a.store).Open(t.Context(), before)
			if err != nil || len(open) != 2 {
				t.Fatalf("%d open questions, %v", len(open), err)
			}
			for _, q := range open {
				in := a.inbound(before, fmt.Sprintf("/approve %d", q.ID))
				in.Sender, in.Group, in.Origin = conversation.Sender{ID: "ann", Name: "Ann"}, true, now
				a.accept(in)
			}
			said := map[string]bool{}
			until(t, "both answers", func() bool {
				due, err := a.store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: before, Ready: true, Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range due {
					said[d.Text] = true
				}
				return said[`It says done: pay {"sum": 1}`] && said[`It says done: pay {"sum": 2}`]
			})
			if want := map[string]int{`pay {"sum": 1}`: 1, `pay {"sum": 2}`: 1}; !maps.Equal(a.calls(), want) {
				t.Errorf("the calls: %v", a.calls())
			}
		})
	}
}

// A call that was allowed is not made once its tool has changed: it is asked about again, also if the process is killed
// meanwhile. One that was under way is not repeated then, even if the server now says that it may be.
func TestCallOfAChangedToolIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	paid, killed := 0, ""
	with := func(tool tools.Tool, now string, pay func()) func(*Deps) {
		tool.Name, tool.Parameters, tool.Approve = "pay", json.RawMessage(`{"type":"object"}`), tools.ApproveAsk
		tool.Call = func(ctx context.Context, _ json.RawMessage) (tools.Result, error) {
			if !slices.Contains(tools.AllowedOf(ctx), now) {
				return tools.Result{}, &tools.ChangedError{Definition: now, Changes: "it is the " + now}
			}
			paid++
			pay()
			return tools.Result{Text: "done"}, nil
		}
		return func(d *Deps) {
			var err error
			if d.Tools, err = tools.NewRegistry(tool); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := newApprovalHarness(t, storetest.New(t), with(tools.Tool{Definition: "first"}, "second", func() {}), nil)
	first.accept(first.from("ann", "pay the bill"))
	first.reply(room)
	first.accept(first.from("ann", "yes"))
	first.reply(room)
	if got := first.reply(room); !strings.Contains(got, "changed this tool since it was allowed: it is the second.") || paid > 0 {
		t.Fatalf("the second question: %q, %d calls", got, paid)
	}
	first.end()

	var second *approvalHarness
	second = newApprovalHarness(t, storetest.Open(t, copyAsKilled(t, first.store)), with(tools.Tool{Definition: "second"}, "second", func() { killed = copyAsKilled(t, second.store) }), nil)
	second.said = 3
	second.accept(second.from("ann", "yes"))
	second.reply(room)
	if got := second.reply(room); got != "It says done" || paid != 1 {
		t.Errorf("the reply: %q, %d calls", got, paid)
	}
	second.end()

	third := newApprovalHarness(t, storetest.Open(t, killed), with(tools.Tool{Definition: "third", Repeatable: true}, "third", func() {}), nil)
	third.said = 4
	got := third.reply(room)
	for strings.HasPrefix(got, "✅") {
		got = third.reply(room)
	}
	if got != "It says "+outcomeUnknown || paid != 1 || len(third.open()) > 0 {
		t.Errorf("the reply: %q, %d calls, %d questions", got, paid, len(third.open()))
	}
}
