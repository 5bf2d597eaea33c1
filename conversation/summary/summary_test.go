package summary

import (
	"fmt"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
)

// A summary is deleted with its conversation, and no other conversation has it.
func TestSummariesBelongToTheirConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	a := storetest.CommitTurn(t, s, "cli:a", "one", nil).Conversation
	storetest.CommitTurn(t, s, "cli:a", "two", nil)
	b := storetest.CommitTurn(t, s, "cli:b", "other", nil).Conversation
	stretch, err := New(s).Stretch(t.Context(), a.ID, 3, 1000)
	if err != nil || len(stretch.Messages) != 2 {
		t.Fatalf("%d messages, %v", len(stretch.Messages), err)
	}
	if stored, err := New(s).Add(t.Context(), stretch, "one was said", 4); !stored || err != nil {
		t.Fatal(stored, err)
	}
	if stored, err := New(s).Add(t.Context(), stretch, "again", 4); stored || err != nil {
		t.Errorf("a summary that is not the newest any more was stored: %v", err)
	}
	if sum, err := New(s).Newest(t.Context(), a.ID); err != nil || sum.Content != "one was said" || sum.Through != 2 {
		t.Errorf("%+v, %v", sum, err)
	}
	if sum, err := New(s).Newest(t.Context(), b.ID); err != nil || sum.Through != 0 {
		t.Errorf("another conversation has %+v, %v", sum, err)
	}
	storetest.CommitTurn(t, s, "cli:a", "/clear", func(r *conversation.Run) { r.Messages, r.Effect.Delete = nil, true })
	storetest.Chores(t, s)
	var left int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM summaries`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d summaries outlive their conversation, %v", left, err)
	}
}

// A summary of messages that were taken back while it was made is not stored.
func TestSummaryOfChangedMessagesIsRefused(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	c := storetest.CommitTurn(t, s, "cli:a", "one", nil).Conversation
	storetest.CommitTurn(t, s, "cli:a", "two", nil)
	stretch, err := New(s).Stretch(t.Context(), c.ID, 5, 1000)
	if err != nil || len(stretch.Messages) != 4 {
		t.Fatalf("%d messages, %v", len(stretch.Messages), err)
	}
	storetest.CommitTurn(t, s, "cli:a", "/undo", func(r *conversation.Run) { r.Messages, r.Effect.Undo = nil, 3 })
	if stored, err := New(s).Add(t.Context(), stretch, "one and two", 4); stored || err != nil {
		t.Errorf("stored %v, %v", stored, err)
	}
}

// Dropping the summaries that cover a message leaves those before it, and those of other conversations.
func TestDropDeletesTheSummariesThatCoverAMessage(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	summaries := New(s)
	var a, b conversation.Conversation
	for _, said := range []string{"one", "two", "three"} {
		a = storetest.CommitTurn(t, s, "cli:a", said, nil).Conversation
		b = storetest.CommitTurn(t, s, "cli:b", said, nil).Conversation
	}
	for _, id := range []string{a.ID, b.ID} {
		for _, before := range []int64{3, 5, 7} { // of two messages each
			stretch, err := summaries.Stretch(t.Context(), id, before, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if stored, err := summaries.Add(t.Context(), stretch, fmt.Sprint("before ", before), 4); !stored || err != nil {
				t.Fatal(stored, err)
			}
		}
	}
	for _, c := range []struct{ seq, left int64 }{{7, 6}, {4, 2}, {3, 2}, {1, 0}, {1, 0}} {
		if err := summaries.Drop(t.Context(), a.ID, c.seq); err != nil {
			t.Fatal(err)
		}
		if sum, err := summaries.Newest(t.Context(), a.ID); err != nil || sum.Through != c.left {
			t.Errorf("from message %d on: the newest summary covers %d messages, want %d, %v", c.seq, sum.Through, c.left, err)
		}
	}
	if sum, err := summaries.Newest(t.Context(), b.ID); err != nil || sum.Through != 6 {
		t.Errorf("another conversation: %+v, %v", sum, err)
	}
	stretch, err := summaries.Stretch(t.Context(), a.ID, 7, 1000)
	if err != nil || len(stretch.Messages) != 6 || stretch.After.Through != 0 {
		t.Errorf("%d messages are to be summarised after %+v, %v", len(stretch.Messages), stretch.After, err)
	}
}
