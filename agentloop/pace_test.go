package agentloop

import (
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/budgets"
	"parley/conversation/storetest"
	"parley/llm/llmtest"
)

func TestMessagesOfAPersonWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	store := storetest.New(t, conversation.Config{Now: func() time.Time { return fourHoursBeforeMidnight }}) // a minute never passes
	h := newHarnessOn(t, store, func(d *Deps) { d.Budgets.Paces = budgets.OpenPaces(store, budgets.Config{MessagesPerMinute: 1}) })
	h.server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "Yes."} })
	say := func(id, text string) {
		in := h.inbound(room, text)
		in.Sender = conversation.Sender{ID: id, Name: id}
		h.accept(in)
	}
	say("ann", "Are you there?")
	if got := h.reply(room); got != "Yes." {
		t.Fatalf("answered with %q", got)
	}
	say("ann", "And now?")
	until(t, "the chat is told that it waits", func() bool {
		return strings.HasPrefix(h.preview(room), "⏳ I answer 1 message of yours in a minute. The next answer comes in ")
	})
	say("ann", "Hello?")
	say("ann", "/stop")
	if got := h.reply(room); got != stopped {
		t.Errorf("/stop is answered with %q", got)
	}
	h.Preview(room, conversation.Destination{}, "")
	say("ann", "/retry")
	until(t, "another try waits as well", func() bool { return strings.HasPrefix(h.preview(room), "⏳ I answer 1 message") })
	say("ann", "/stop")
	if got := h.reply(room); got != stopped {
		t.Errorf("/stop is answered with %q", got)
	}
	if calls := len(h.server.Calls()); calls != 1 {
		t.Errorf("the model was called %d times", calls)
	}
	say("bob", "Are you there, too?")
	if got := h.reply(room); got != "Yes." {
		t.Errorf("another person is answered with %q", got)
	}
}
