package agentloop

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	versions "parley/conversation/branches"
	"parley/conversation/storetest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// editNewest returns an edit of the newest user message of the room.
func (h *harness) editNewest(text string) conversation.Inbound {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), room)
	if err != nil {
		h.t.Fatal(err)
	}
	page, err := h.store.Messages(h.t.Context(), conversation.MessageQuery{Conversation: c.ID, Turns: 1})
	if err != nil {
		h.t.Fatal(err)
	}
	in := h.inbound(room, text)
	for _, m := range page.Messages {
		if m.Role == conversation.RoleUser {
			in.Replaces = conversation.MessageID{Conversation: c.ID, Seq: m.Seq}
		}
	}
	return in
}

// shownLast returns the messages of the newest model call.
func (h *harness) shownLast() (list []string) {
	h.t.Helper()
	calls := h.server.Calls()
	for _, m := range calls[len(calls)-1].Messages[1:] {
		list = append(list, m.Role+": "+m.Content)
	}
	return list
}

func (h *harness) expect(what string, want, got []string) {
	h.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("%s: %s", what, diff)
	}
}

// An edit removes the turn that it replaces from the window and the conversation, in the same run that
// answers it.
func TestEditReplacesTheTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "one")
	h.ask(room, "tow")
	h.accept(h.editNewest("two"))
	h.reply(room)
	want := []string{"user: one", "assistant: echo: one", "user: two"}
	h.expect("the model is shown", want, h.shownLast())
	want = append(want, "assistant: echo: two")
	h.expect("the conversation", want, h.history(room))
	h.ask(room, "three")
	h.expect("later the model is shown", append(want, "user: three"), h.shownLast())
	if got := h.ask(room, "/undo"); !strings.Contains(got, "three") {
		t.Errorf("/undo: %s", got)
	}
	c, err := h.store.Active(t.Context(), room)
	if err != nil || c.State.Turns != 2 || c.State.Asked {
		t.Errorf("%d turns, asked %t, %v", c.State.Turns, c.State.Asked, err)
	}
}

// A gateway that dies before it has answered an edit has changed nothing, and answers it
// after its start.
func TestEditSurvivesACrash(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "one")
	h.ask(room, "tow")
	h.end()
	if _, err := h.store.Accept(t.Context(), nil, h.editNewest("two")); err != nil {
		t.Fatal(err)
	}
	h.expect("before the start", []string{"user: one", "assistant: echo: one", "user: tow", "assistant: echo: tow"}, h.history(room))
	h.start()
	h.reply(room)
	want := []string{"user: one", "assistant: echo: one", "user: two"}
	h.expect("the model is shown", want, h.shownLast())
	h.expect("the conversation", append(want, "assistant: echo: two"), h.history(room))
}

// A gateway that is killed while the model answers an edit answers it after its start, on
// one branch beside the earlier version.
func TestEditRepeatedAfterAKillBeginsOneBranch(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "one")
	h.ask(room, "tow")
	copied := ""
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		copied = copyAsKilled(t, h.store)
		return llmtest.Echo(c)
	})
	h.accept(h.editNewest("two"))
	h.reply(room)
	h.end()

	h = newHarnessOn(t, storetest.Open(t, copied), nil)
	h.reply(room)
	h.expect("the conversation", []string{"user: one", "assistant: echo: one", "user: two", "assistant: echo: two"}, h.history(room))
	c, err := h.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	forks, err := versions.New(h.store).Forks(t.Context(), c)
	if diff := cmp.Diff([]versions.Fork{{Versions: []int64{3, 5}, Chosen: 1}}, forks); diff != "" || err != nil {
		t.Errorf("versions: %s, %v", diff, err)
	}
}

// An edit that the model fails on, or that somebody stops, has replaced the turn: /retry
// answers what the person says now.
func TestEditWithoutAnAnswerReplacesTheTurn(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"fails", "/stop"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			h.ask(room, "one")
			h.ask(room, "tow")
			batch := []conversation.Inbound{h.editNewest("two")}
			if how == "/stop" {
				batch = append(batch, h.inbound(room, how))
			} else {
				down := llmtest.Answer{Status: http.StatusInternalServerError}
				h.server.Script(down, down, llmtest.Answer{Text: "echo: two"})
			}
			h.accept(batch...)
			h.reply(room)
			want := []string{"user: one", "assistant: echo: one", "user: two"}
			h.expect("without an answer", want, h.history(room))
			h.ask(room, "/retry")
			h.expect("answered", append(want, "assistant: echo: two"), h.history(room))
		})
	}
}

// An edit of an earlier message begins a branch there, however old that message is: what followed is
// set aside, and the model is not shown it. An edit of another conversation's message is an ordinary
// message.
func TestEditOfAnEarlierMessageBeginsABranch(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) { d.Budget = 1500 })
	h.ask(room, "one")
	edit := h.editNewest("first")
	for range 12 { // more than the window holds
		h.ask(room, strings.Repeat("and more of it ", 40))
	}
	if c, err := h.store.Active(t.Context(), room); err != nil || c.Window.Start < 3 {
		t.Fatalf("the window begins at %d, %v", c.Window.Start, err)
	}
	h.accept(edit)
	h.reply(room)
	h.expect("the model is shown", []string{"user: first"}, h.shownLast())
	h.expect("the conversation", []string{"user: first", "assistant: echo: first"}, h.history(room))
	h.ask(room, "second")
	h.expect("then the model is shown", []string{"user: first", "assistant: echo: first", "user: second"}, h.shownLast())
	c, err := h.store.Active(t.Context(), room)
	if err != nil || c.State.Turns != 2 {
		t.Errorf("%d turns, %v", c.State.Turns, err)
	}

	again := h.editNewest("elsewhere")
	h.ask(room, "/new")
	h.accept(again)
	h.reply(room)
	h.expect("a new conversation", []string{"user: elsewhere", "assistant: echo: elsewhere"}, h.history(room))
}

// An edit does not begin a new conversation, even if the conversation would have expired.
func TestEditOfAnOldMessageGoesOnInItsConversation(t *testing.T) {
	t.Parallel()
	h, pass := newAgingHarness(t)
	h.ask(room, "tow")
	pass(h.deps.Limits.Idle + time.Hour)
	h.accept(h.editNewest("two"))
	h.reply(room)
	h.expect("the conversation", []string{"user: two", "assistant: echo: two"}, h.history(room))
}

// When the newest turn alone filled the window, the run that replaces it after a /retry or an edit is
// shown the turns before it.
func TestWindowShowsOlderTurnsInPlaceOfAHugeOne(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(h *harness){
		"retry": func(h *harness) { h.ask(room, "/retry") },
		"edit":  func(h *harness) { h.accept(h.editNewest("never mind")); h.reply(room) },
		"undo":  func(h *harness) { h.ask(room, "/undo"); h.ask(room, "never mind") },
	} {
		for _, strategy := range []string{SlidingWindow, Summarization} {
			t.Run(name+" "+strategy, func(t *testing.T) {
				t.Parallel()
				h := newHarness(t, func(d *Deps) {
					d.Budget, d.Strategy = 1500, strategy
					var err error
					d.Tools, err = tools.NewRegistry(tools.Tool{Name: "look", Parameters: json.RawMessage(`{"type":"object"}`), Call: tools.Text(func(context.Context, json.RawMessage) (string, error) {
						return strings.Repeat("the river is deep ", 2000), nil
					})})
					if err != nil {
						t.Fatal(err)
					}
				})
				h.ask(room, "my boat is blue")
				for range 3 {
					h.ask(room, "and there is more to say about it")
				}
				h.server.Script(
					llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "c", Name: "look", Arguments: "{}"}}},
					llmtest.Answer{Text: "They spoke of a blue boat."}, // or the answer, where nothing is summarized
					llmtest.Answer{Text: "It is deep."})
				h.ask(room, "look at the river")
				h.server.Reply(llmtest.Echo)
				if c, err := h.store.Active(t.Context(), room); err != nil || c.Window.Start < 9 {
					t.Fatalf("the window begins at %d of %d, %v", c.Window.Start, c.Messages, err)
				}
				again(h)
				calls := h.server.Calls()
				if sent := callBytes(t, calls[len(calls)-1]); !strings.Contains(sent, "blue") || !strings.Contains(sent, "more to say about it") || strings.Contains(sent, "It is deep.") {
					t.Errorf("the model is sent %s", sent)
				}
				if refused := h.server.Refusals(); len(refused) > 0 {
					t.Errorf("refused: %v", refused)
				}
			})
		}
	}
}
