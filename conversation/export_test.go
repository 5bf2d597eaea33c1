package conversation_test

import (
	"context"
	"fmt"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
)

// AllMessages returns every message word for word, however long, with the state of those that are no
// longer shown.
func TestAllMessagesReturnsEveryStoredMessage(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "begin"))
	run := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "an answer that is replaced")
	for i := range 600 {
		run.Messages = append(run.Messages, conversation.Message{Role: conversation.RoleUser, Content: fmt.Sprint("line ", i), Tokens: 1})
	}
	storetest.Commit(t, s, run)
	c, _ := s.Active(t.Context(), storetest.Chat)
	if err := execute(s, `UPDATE messages SET state = CASE seq WHEN 2 THEN 'replaced' ELSE '' END, internal = CASE seq WHEN 500 THEN 1 ELSE 0 END`); err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for r, err := range s.AllMessages(t.Context(), conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; r.Seq != n {
			t.Fatalf("message %d follows message %d", r.Seq, n-1)
		}
		if r.Hidden() != (n == 2 || n == 500) {
			t.Errorf("message %d: state %q, internal %v", n, r.State, r.Internal)
		}
	}
	if n != c.Messages {
		t.Fatalf("%d of %d messages", n, c.Messages)
	}
}

func TestAllMessagesEndWithTheError(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	c, _ := s.Active(t.Context(), storetest.Chat)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.AllMessages(ctx, conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll}) {
		if err == nil {
			t.Fatal("the export continues after its error")
		}
	}
}
