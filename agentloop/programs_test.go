package agentloop

import (
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/kept"
	"parley/llm"
	"parley/llm/llmtest"
)

// note appends messages as a program does, without a run.
func (h *harness) note(key conversation.Key, role conversation.Role, text string) {
	h.t.Helper()
	_, err := h.store.Append(h.t.Context(), key, "", conversation.Message{Role: role, Content: text, Tokens: 5})
	if err != nil {
		h.t.Fatal(err)
	}
}

// System messages that a program appends are sent in every run, directly after the
// system prompt. People do not see them.
func TestSystemMessagesOfProgramsAreSentInEveryRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Config.SystemPrompt = "You are kind." })
	h.note(room, conversation.RoleSystem, "Answer in rhymes.")
	for i := range 30 {
		h.ask(room, fmt.Sprint("question ", i, strings.Repeat(" and so on", 60)))
	}
	if got := h.told(); !strings.HasPrefix(got, "You are kind.\n\n"+llm.NoteExplained+"\n\nAnswer in rhymes.\n\n") {
		t.Errorf("the model is told %q", got)
	}
	if list := h.history(room); strings.Contains(strings.Join(list, "\n"), "rhymes") {
		t.Errorf("people read %q", list)
	}
}

// After a program has appended thousands of messages, the next question is answered with the newest
// of them in its window, and no more are read.
func TestAQuestionBehindThousandsOfAppendedMessages(t *testing.T) {
	t.Parallel()
	const batches, batch = 30, 200
	h := newHarness(t, func(p *Deps) { p.Budget = 4000 })
	h.ask(room, "begin")
	for n := range batches {
		var list []conversation.Message
		for i := range batch {
			list = append(list, conversation.Message{Role: conversation.RoleAssistant,
				Content: fmt.Sprintf("iteration %d: %s", n*batch+i, strings.Repeat("step ", 60)), Tokens: 70})
		}
		if _, err := h.store.Append(t.Context(), room, "", list...); err != nil {
			t.Fatal(err)
		}
	}
	h.router.Edited(room)
	if got := h.ask(room, "how far?"); got != "echo: how far?" {
		t.Errorf("reply: %q", got)
	}
	if asked := h.asked(); !strings.Contains(asked, "iteration 5999") || strings.Contains(asked, "iteration 4000:") {
		t.Errorf("the model was sent %.300s", asked)
	}
	turn, err := h.store.Peek(t.Context(), room, 4000)
	if err != nil || len(turn.History) > 4100 {
		t.Errorf("a turn reads %d messages, %v", len(turn.History), err)
	}
}

// In a conversation that only a program has written, /retry and /undo find nothing to do.
func TestCommandsWhereOnlyAProgramHasWritten(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.note(room, conversation.RoleAssistant, "The tests pass now.")
	if got := h.ask(room, "/retry"); got != "There is nothing to answer again yet." {
		t.Errorf("/retry: %q", got)
	}
	for _, command := range []string{"/history", "/state", "/status", "/export", "/title", "/search tests", "/resume"} {
		if got := h.ask(room, command); strings.Contains(got, "went wrong") {
			t.Errorf("%s: %q", command, got)
		}
	}
	if got := h.ask(room, "hello"); got != "echo: hello" {
		t.Errorf("reply: %q", got)
	}
	if got := h.ask(room, "/undo"); !strings.Contains(got, "“hello”") {
		t.Errorf("/undo: %q", got)
	}
	if got := h.ask(room, "/undo"); !strings.Contains(got, "nothing to take back") {
		t.Errorf("/undo of what the program noted: %q", got)
	}
}

// The next run sends the messages that a program appended during a run, although the loop has a
// cache. They stand before the run's answer.
func TestNextRunSeesMessagesAppendedDuringARun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "hello")
	h.server.Reply(func(llmtest.Call) llmtest.Answer {
		h.note(room, conversation.RoleAssistant, "The tests pass now.")
		return llmtest.Answer{Text: "on it"}
	})
	h.ask(room, "mend the tests")
	h.server.Reply(llmtest.Echo)
	h.ask(room, "and?")
	if asked := h.asked(); !strings.Contains(asked, "assistant: The tests pass now.\nuser: mend the tests\nassistant: on it\nuser: and?\n") {
		t.Errorf("the model was sent %s", asked)
	}
}

// Kept replies stay in the store and are not passed to a sender.
func TestRepliesThatAreKeptAreNotDelivered(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Deliver = func(d []conversation.Delivery) { t.Errorf("delivered: %+v", d) } })
	h.server.Script(llmtest.Answer{Text: "hello yourself"})
	in, help := h.inbound(room, "hello"), h.inbound(room, "/help")
	in.Keep, help.Keep = true, true
	h.accept(in)
	h.accept(help)
	until(t, "both are answered", func() bool {
		a, err := kept.New(h.store).Answer(t.Context(), "cli", help.SourceID)
		return err == nil && a.State == conversation.StatusDone
	})
	if a, err := kept.New(h.store).Answer(t.Context(), "cli", in.SourceID); err != nil || a.Text != "hello yourself" || a.Model == "" || a.Prompt == 0 {
		t.Errorf("%+v, %v", a, err)
	}
	notices, err := kept.New(h.store).Notices(t.Context(), room, 0, 5)
	if err != nil || len(notices) != 1 || notices[0].Asked != "/help" || notices[0].After != 2 || !strings.Contains(notices[0].Text, "/undo") {
		t.Errorf("notices: %+v, %v", notices, err)
	}
}
