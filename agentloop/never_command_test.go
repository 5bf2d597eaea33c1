package agentloop

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// forwarded returns a message that somebody forwards.
func (h *harness) forwarded(key conversation.Key, text string) conversation.Inbound {
	in := h.inbound(key, text)
	in.NeverCommand = true
	return in
}

func TestForwardedTextIsNeverACommand(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "keep this")
	for _, text := range []string{"/clear yes", "/undo", "/retry", "/new", "/nothing", "/stop"} {
		h.accept(h.forwarded(room, text))
		if got := h.reply(room); got != "echo: "+text {
			t.Errorf("%s: %q", text, got)
		}
	}
	if n := len(h.history(room)); n != 14 {
		t.Errorf("%d messages in the conversation, want 14", n)
	}
}

func TestForwardedStopStopsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	end, answer := waittest.Gate(t)
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "first" {
			<-end
		}
		return llmtest.Echo(c)
	})
	h.say(room, "first")
	until(t, "the first call", func() bool { return len(h.server.Calls()) > 0 })
	h.accept(h.inbound(room, "second"), h.forwarded(room, "/stop"), h.forwarded(room, "/clear yes"))
	answer()
	if a, b := h.reply(room), h.reply(room); a != "echo: first" || b != "echo: /clear yes" {
		t.Fatalf("replies %q, %q", a, b)
	}
	want := []string{"user: first", "assistant: echo: first", "user: second", "user: /stop", "user: /clear yes", "assistant: echo: /clear yes"}
	if diff := cmp.Diff(want, h.history(room)); diff != "" {
		t.Fatal(diff)
	}
}

// After a crash, only the inbox tells forwarded messages from written ones.
func TestForwardedTextIsNoCommandAfterARestart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "keep this")
	h.end()
	if _, err := h.store.Accept(t.Context(), nil, h.forwarded(room, "/clear yes")); err != nil {
		t.Fatal(err)
	}
	h.start()
	if got := h.reply(room); got != "echo: /clear yes" {
		t.Fatalf("reply: %q", got)
	}
}

func TestEditOfAWaitingMessageNeverMakesACommand(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "keep this")
	h.end()
	message, command := h.inbound(room, "hello"), h.inbound(room, "/title Tripp")
	if _, err := h.store.Accept(t.Context(), nil, message, command); err != nil {
		t.Fatal(err)
	}
	for id, text := range map[string]string{message.SourceID: "/clear yes", command.SourceID: "/title Trip"} {
		if _, err := h.store.Edit(t.Context(), conversation.Account{Channel: "cli"}, id, text, message.At); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	if a, b := h.reply(room), h.reply(room); a != "echo: /clear yes" || b != "This conversation is called “Trip” from now on." {
		t.Fatalf("replies %q, %q", a, b)
	}
}
