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

// When a node is declared dead during a run, and another one has taken over the session, the run's commit is refused,
// also after the node has joined anew.
func TestRunOfADeadNodeStoresNothing(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	dying, other := openNode(t, url), openNode(t, url)
	const key = conversation.Key("api:1")
	if _, err := dying.Accept(t.Context(), nil, conversation.Inbound{Key: key, SourceID: "1", Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	release, err := dying.Lock(key)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	member, cancel := dying.Node().While(context.Background())
	defer cancel()
	stale := context.WithoutCancel(member) // like the context of a queued write
	snapshot, err := dying.Begin(stale, key, 1000)
	if err != nil {
		t.Fatal(err)
	}
	run := conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: snapshot.Waiting, Conversation: snapshot.Conversation,
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: "hello"}, {Role: conversation.RoleAssistant, Content: "hi"}},
	}
	former := dying.Node().ID()
	declareDead(t, url, former)
	if _, err := dying.Commit(stale, run); !errors.Is(err, cluster.ErrFenced) && !errors.Is(err, cluster.ErrLost) {
		t.Errorf("before it joined anew: %v", err)
	}
	for dying.Node().ID() == former && t.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := dying.Commit(stale, run); !errors.Is(err, cluster.ErrLost) {
		t.Errorf("after it joined anew: %v", err)
	}
	take, err := other.Lock(key)
	if err != nil {
		t.Fatal(err)
	}
	defer take()
	if _, err := dying.Commit(stale, run); !errors.Is(err, cluster.ErrLost) {
		t.Errorf("after the takeover: %v", err)
	}
	working, end := other.Node().While(t.Context())
	defer end()
	if _, err := other.Commit(working, run); err != nil {
		t.Errorf("the new owner: %v", err)
	}
}

// openNode opens a database on a server as another node of it.
func openNode(t *testing.T, url string) *conversation.Store {
	t.Helper()
	store, err := conversation.Open(t.Context(), conversation.Config{Path: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// declareDead declares a node dead, as another node does when it has not renewed its membership.
func declareDead(t *testing.T, url string, id int64) {
	t.Helper()
	conn := postgrestest.Connect(t, url)
	for _, statement := range []string{`UPDATE nodes SET dead_at = 1 WHERE id = $1`, `DELETE FROM lanes WHERE node_id = $1`} {
		if _, err := conn.Exec(t.Context(), statement, id); err != nil {
			t.Fatal(err)
		}
	}
}
