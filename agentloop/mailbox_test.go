package agentloop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// stored returns the user messages of the session's active conversation, in order.
func (h *harness) stored(key conversation.Key) []string {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	page, err := h.store.Messages(h.t.Context(), conversation.MessageQuery{Conversation: c.ID, Turns: 10_000})
	if err != nil {
		h.t.Fatal(err)
	}
	var texts []string
	for _, m := range page.Messages {
		if m.Role == conversation.RoleUser {
			texts = append(texts, m.Content)
		}
	}
	return texts
}

func (h *harness) waitStored(key conversation.Key, want []string) {
	h.t.Helper()
	until(h.t, "every message in the history", func() bool { return len(h.stored(key)) >= len(want) })
	for i, text := range h.stored(key) {
		if i >= len(want) || text != want[i] {
			h.t.Fatalf("message %d is %q of %d", i, text, len(want))
		}
	}
}

// No message is lost, doubled or out of order when more arrive at once than a mailbox and a snapshot
// hold.
func TestManyMessagesAtOnceAreAllStoredInOrder(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	var want []string
	for i := range 3 * mailboxSize {
		want = append(want, fmt.Sprintf("line %d", i))
		if i%7 == 6 {
			h.say(room, want[i-6:]...)
		}
	}
	h.say(room, want[len(want)-len(want)%7:]...)
	h.waitStored(room, want)
}

// A channel may report messages in another order than it has stored them.
func TestMessagesReportedOutOfOrderAreAllAnswered(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Config.LoopIdleTimeout = time.Minute })
	h.ask(room, "zero") // now the loop knows its session
	var mail [][]conversation.Inbound
	for _, text := range []string{"one", "two"} {
		stored, err := h.store.Accept(t.Context(), nil, h.inbound(room, text))
		if err != nil {
			t.Fatal(err)
		}
		mail = append(mail, stored)
	}
	h.router.Accepted(mail[1]...)
	h.router.Accepted(mail[0]...)
	until(t, "both messages in the history", func() bool { return len(h.stored(room)) == 3 })
}

// A message that is reported twice is answered once.
func TestMessageReportedTwiceIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Config.LoopIdleTimeout = time.Minute })
	h.ask(room, "zero")
	stored, err := h.store.Accept(t.Context(), nil, h.inbound(room, "one"))
	if err != nil {
		t.Fatal(err)
	}
	h.router.Accepted(stored...)
	h.router.Accepted(stored...)
	h.reply(room)
	h.ask(room, "two")
	h.waitStored(room, []string{"zero", "one", "two"})
}

// A loop reads the store again after the conversation was changed from outside.
func TestAWithdrawnMessageIsNotAnswered(t *testing.T) {
	t.Parallel()
	end, answer := waittest.Gate(t)
	h := newHarness(t, func(p *Deps) { p.Config.MaxConcurrentRuns = 1; p.Config.LoopIdleTimeout = time.Minute })
	h.server.Reply(func(c llmtest.Call) llmtest.Answer { <-end; return llmtest.Echo(c) })
	h.say("cli:other", "busy") // takes the only run slot
	until(t, "the call", func() bool { return len(h.server.Calls()) > 0 })
	wrong := h.inbound(room, "wrong chat")
	h.accept(wrong)
	h.say(room, "right chat")
	key, err := h.store.Withdraw(t.Context(), conversation.Account{Channel: "cli"}, wrong.SourceID)
	if err != nil {
		t.Fatal(err)
	}
	h.router.Edited(key)
	h.ask("cli:third", "/status") // what comes later was heard, so the edit was too
	answer()
	h.reply(room)
	h.waitStored(room, []string{"right chat"})
}

// Nobody wants the answer any more if its message was withdrawn while it is written: it ends, and nothing of it is sent
// or kept. Other messages of the same run are answered.
func TestAnswerEndsWhenItsMessagesAreWithdrawn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	end, finish := waittest.Gate(t)
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if strings.HasSuffix(c.LastUser(), "tale") {
			return llmtest.Answer{Text: "once upon a time there was a mill", Pieces: 5, HoldAt: 4, Hold: end}
		}
		return llmtest.Echo(c)
	})
	withdraw := func(in conversation.Inbound) {
		t.Helper()
		key, err := h.store.Withdraw(t.Context(), conversation.Account{Channel: "cli"}, in.SourceID)
		if err != nil {
			t.Fatal(err)
		}
		h.router.Withdrawn(key, in.SourceID)
	}
	one, two := h.inbound(room, "a tale"), h.inbound(room, "another tale")
	h.accept(one)
	until(t, "the first words", func() bool { return strings.HasPrefix(h.preview(room), "once") })
	withdraw(one)
	if got := h.ask(room, "hello"); got != "echo: hello" {
		t.Fatalf("reply %q", got)
	}
	if history := h.history(room); len(history) != 2 {
		t.Errorf("history %q", history)
	}
	h.accept(two, h.inbound(room, "a third tale"))
	until(t, "the third call", func() bool { return len(h.server.Calls()) == 3 })
	withdraw(two)
	h.ask("cli:other", "/status") // what comes later was heard, so the withdrawal was too
	finish()
	if got := h.reply(room); got != "once upon a time there was a mill" {
		t.Errorf("reply %q", got)
	}
}

// A /stop gets one reply, even if the message that it stops was deleted meanwhile.
func TestStopAfterADeletionIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "a tale" {
			return llmtest.Answer{Text: "once upon a time", Silence: true, NoFinish: true}
		}
		return llmtest.Echo(c)
	})
	in := h.inbound(room, "a tale")
	h.accept(in)
	until(t, "the first words", func() bool { return strings.HasPrefix(h.preview(room), "once upon") })
	key, err := h.store.Withdraw(t.Context(), conversation.Account{Channel: "cli"}, in.SourceID)
	if err != nil {
		t.Fatal(err)
	}
	h.router.Edited(key)
	h.say(room, "/stop")
	h.reply(room)
	if got := h.ask(room, "hello"); got != "echo: hello" {
		t.Fatalf("reply %q", got)
	}
}

// Every second, a sweep finds the messages that wait. It does not disturb a loop that works on them. A loop that has missed
// a message or its edit, or has ended meanwhile, reads the store.
func TestSweepDoesNotDisturbALoopThatKnowsWhatWaits(t *testing.T) {
	t.Parallel()
	m := newMailbox()
	m.works([]conversation.Inbound{{ID: 5, Revision: 1}, {ID: 6}})
	m.put(signal{inbound: []conversation.Inbound{{ID: 8, Revision: 2}}})
	<-m.ready
	for _, c := range []struct {
		what  string
		found []conversation.Revision
		news  bool
	}{
		{"all that it works on", []conversation.Revision{{Inbound: 5, Edits: 1}, {Inbound: 6}}, false},
		{"a part of that, and its mail", []conversation.Revision{{Inbound: 6}, {Inbound: 8, Edits: 2}}, false},
		{"an edited message", []conversation.Revision{{Inbound: 5, Edits: 2}}, true},
		{"another message", []conversation.Revision{{Inbound: 6}, {Inbound: 9}}, true},
		{"an edit of its mail", []conversation.Revision{{Inbound: 8, Edits: 3}}, true},
	} {
		if news := m.take(signal{found: c.found}); news != c.news {
			t.Errorf("a sweep that finds %s has news: %t", c.what, news)
		}
		if c.news {
			m.inbound, m.stale = []conversation.Inbound{{ID: 8, Revision: 2}}, false
		}
	}
	m.works(nil)
	m.put(signal{found: []conversation.Revision{{Inbound: 5, Edits: 1}}})
	<-m.ready
	if _, stale := m.empty(); !stale {
		t.Error("a message that waits when the loop has ended its work is not looked for")
	}
}

// The log says how long a message has waited that a sweep has found. A sweep that has read the store before the message was answered
// tells of it when nothing waits any more.
func TestMessageFoundByASweepIsCountedWhereItIsWorkedOn(t *testing.T) {
	t.Parallel()
	m := newMailbox()
	found := func(sweeps int) {
		m.put(signal{found: []conversation.Revision{{Inbound: 5}}, waited: waited{inbound: 5, sweeps: sweeps}})
	}
	found(2)
	found(3) // before the loop begins
	if got := m.works([]conversation.Inbound{{ID: 5}, {ID: 6}}); got.sweeps != 2 {
		t.Errorf("a message that is taken after two sweeps has waited for %d", got.sweeps)
	}
	m.works(nil)
	found(4) // the message was answered meanwhile
	for _, waiting := range [][]conversation.Inbound{nil, {{ID: 7}}} {
		if got := m.works(waiting); got.sweeps != 0 {
			t.Errorf("of %v, a message has waited for %d sweeps", waiting, got.sweeps)
		}
	}
}
