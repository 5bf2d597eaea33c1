package conversation_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/storetest"
)

// When a store is closed during writes, each of them returns whether it was stored.
func TestCloseReportsTheOutcomeOfEveryWrite(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := storetest.New(t)
		storetest.Turn(t, s, storetest.Chat, 1)
		due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 1})
		if err != nil || len(due) != 1 {
			t.Fatalf("due: %+v, %v", due, err)
		}
		var writing sync.WaitGroup
		begun := make(chan struct{}, 32)
		for i := range 16 {
			writing.Go(func() {
				begun <- struct{}{}
				if _, err := s.Accept(context.Background(), nil, storetest.Say(storetest.Chat, 100+i, "late")); err != nil && !errors.Is(err, db.ErrClosed) {
					t.Errorf("accept: %v", err)
				}
			})
			writing.Go(func() {
				begun <- struct{}{}
				if err := s.Mark(context.Background(), due[0], conversation.MarkSent, ""); err != nil && !errors.Is(err, db.ErrClosed) {
					t.Errorf("mark: %v", err)
				}
			})
		}
		<-begun
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		writing.Wait()
		if _, err := s.Accept(context.Background(), nil, storetest.Say(storetest.Chat, 999, "too late")); !errors.Is(err, db.ErrClosed) {
			t.Fatalf("a write after the end gave %v", err)
		}
	}
}

// A mark that waits to share a transaction is written even if no other write comes.
func TestMarkIsWrittenWithoutAnyOtherWrite(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 1})
	if err != nil || len(due) != 1 {
		t.Fatalf("due: %+v, %v", due, err)
	}
	if err := s.Mark(t.Context(), due[0], conversation.MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	if due, _ := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 1}); len(due) != 0 {
		t.Fatal("the reply is still due")
	}
}
