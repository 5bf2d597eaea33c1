package conversation_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"parley/cluster"
	"parley/conversation"
	"parley/internal/postgrestest"
)

// When a node that reads a platform under a role is declared dead, and another one has taken the role, the first one's
// batches are refused, also after it has joined anew: the cursor does not go back, and no message is stored that the
// other node has already handled.
func TestOnlyTheHolderOfTheRoleMovesTheCursor(t *testing.T) {
	t.Parallel()
	const role, cursor = "telegram:1:poll", "telegram:1"
	url := postgrestest.Database(t)
	former, next := openNode(t, url), openNode(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	read := func(ctx context.Context, store *conversation.Store, offset string) error {
		_, err := store.Accept(ctx, []conversation.Cursor{{Name: cursor, Value: offset}},
			conversation.Inbound{Key: "telegram:chat:1", SourceID: "of " + offset, Text: "hello"})
		return err
	}
	held := make(chan context.Context, 2)
	hold := func(store *conversation.Store) { // once: a node that has lost the role must not take it again before the other one
		ctx, leave := context.WithCancel(ctx)
		store.Node().Hold(ctx, role, func(ctx context.Context, _ *cluster.Role) error {
			defer leave()
			held <- context.WithoutCancel(ctx) // as of a write that is queued already
			<-ctx.Done()
			return ctx.Err()
		})
	}
	go hold(former)
	holding := func() context.Context {
		t.Helper()
		select {
		case holding := <-held:
			return holding
		case <-ctx.Done():
			t.Fatal("nobody holds the role")
			return nil
		}
	}
	stale := holding()
	if err := read(stale, former, "10"); err != nil {
		t.Fatal(err)
	}
	go hold(next)
	dead := former.Node().ID()
	declareDead(t, url, dead)
	if err := read(holding(), next, "20"); err != nil {
		t.Fatal(err)
	}
	if err := read(stale, former, "11"); !errors.Is(err, cluster.ErrFenced) && !errors.Is(err, cluster.ErrLost) {
		t.Errorf("before it joined anew: %v", err)
	}
	for former.Node().ID() == dead && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if err := read(stale, former, "11"); !errors.Is(err, cluster.ErrLost) {
		t.Errorf("after it joined anew: %v", err)
	}
	if value, err := next.Cursor(ctx, cursor); value != "20" || err != nil {
		t.Errorf("the cursor is %q, %v", value, err)
	}
	if _, err := former.Accept(ctx, []conversation.Cursor{{Name: cursor}}); err != nil { // which is the work of no role
		t.Error(err)
	}
	if value, err := next.Cursor(ctx, cursor); value != "" || err != nil {
		t.Errorf("the deleted cursor is %q, %v", value, err)
	}
}
