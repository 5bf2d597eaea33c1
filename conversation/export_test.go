package conversation

import (
	"context"
	"fmt"
	"testing"
)

// An export must hold what was said word for word, however long it is, and say
// what is no longer shown and why.
func TestAllMessagesAreAllThatIsStored(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, say(chat, 1, "begin"))
	run := answered(chat, mustBegin(t, s, chat, 1000), "an answer that is replaced")
	for i := range 3 * pageMessages {
		run.Messages = append(run.Messages, Message{Role: RoleUser, Content: fmt.Sprint("line ", i), Tokens: 1})
	}
	mustCommit(t, s, run)
	c, _ := s.Active(t.Context(), chat)
	if err := execute(s, `UPDATE messages SET state = iif(seq = 2, 'replaced', ''), internal = (seq = 500)`); err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for r, err := range s.AllMessages(t.Context(), MessageQuery{Conversation: c.ID, View: ViewAll}) {
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
	s := mustOpen(t)
	exchange(t, s, chat, 1)
	c, _ := s.Active(t.Context(), chat)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.AllMessages(ctx, MessageQuery{Conversation: c.ID, View: ViewAll}) {
		if err == nil {
			t.Fatal("an interrupted export goes on")
		}
	}
}
