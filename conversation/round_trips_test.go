package conversation_test

import (
	"math"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
)

// When the connection breaks at any COMMIT, before or after the server has executed it, a message and its reply are stored
// once, and returned with their ids.
func TestMessageIsStoredOnceWhenTheAnswerToItsCommitIsLost(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, postgrestest.Database(t))
	store := openNode(t, proxy.URL())
	const key = conversation.Key("api:1")
	for n, received := range []bool{false, true, true, false} {
		proxy.LoseCommit(received)
		source := string('a' + rune(n))
		taken, err := store.Accept(t.Context(), nil, conversation.Inbound{Key: key, SourceID: source, Address: "{}", Text: "hello"})
		if err != nil || len(taken) != 1 || taken[0].ID == 0 {
			t.Fatalf("accepted %+v, %v", taken, err)
		}
		turn, err := store.Begin(t.Context(), key, 1000)
		if err != nil || len(turn.Waiting) != 1 || turn.Waiting[0].ID != taken[0].ID {
			t.Fatalf("waiting %+v, %v", turn.Waiting, err)
		}
		proxy.LoseCommit(received)
		done, err := store.Commit(t.Context(), conversation.Run{
			Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
			Messages: []conversation.Message{{Role: conversation.RoleUser, Content: "hello"}, {Role: conversation.RoleAssistant, Content: "hi"}},
			Replies:  []conversation.Delivery{{Address: "{}", Text: "hi"}, {Address: "{}", Text: "kept", Keep: true}, {Address: "{}", Text: "bye"}},
		})
		if err != nil || len(done.Replies) != 2 {
			t.Fatalf("committed %+v, %v", done.Replies, err)
		}
		due, err := store.Deliveries(t.Context(), conversation.DeliveryQuery{Limit: 10})
		if err != nil || len(due) != 2 || due[0].ID != done.Replies[0].ID || due[1].ID != done.Replies[1].ID || due[1].Text != "bye" {
			t.Fatalf("due are %+v, %v; the run knows %+v", due, err, done.Replies)
		}
		for _, reply := range done.Replies {
			proxy.LoseCommit(received)
			if err := store.Mark(t.Context(), reply, conversation.MarkSent, ""); err != nil {
				t.Fatal(err)
			}
		}
		if due, err := store.Deliveries(t.Context(), conversation.DeliveryQuery{Limit: 10}); err != nil || len(due) != 0 {
			t.Fatalf("still due are %+v, %v", due, err)
		}
	}
}

// A chat waits mostly for round trips to the server, so that there are few of them: one to store a message, and one to commit
// the run that answers it.
func TestMessageTakesFewRoundTrips(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, postgrestest.Database(t))
	store := openNode(t, proxy.URL())
	const key = conversation.Key("api:1")
	count := func(least *int64, do func() error) {
		before := proxy.RoundTrips()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		*least = min(*least, proxy.RoundTrips()-before) // others are those of work in the background
	}
	accept, commit := int64(math.MaxInt64), int64(math.MaxInt64)
	for n := range 20 {
		count(&accept, func() error {
			_, err := store.Accept(t.Context(), nil, conversation.Inbound{Key: key, SourceID: string('a' + rune(n)), Address: "{}", Text: "hello"})
			return err
		})
		turn, err := store.Begin(t.Context(), key, 1000)
		if err != nil {
			t.Fatal(err)
		}
		count(&commit, func() error {
			_, err := store.Commit(t.Context(), storetest.Answered(key, turn, "hi"))
			return err
		})
	}
	if accept > 1 || commit > 1 {
		t.Errorf("Accept takes %d round trips, and Commit %d", accept, commit)
	}
}

// What a run reads of a long conversation on a server grows with its window, and what a person reads with the page: a server sends
// all rows of a statement, whatever the gateway does with them.
func TestServerSendsNoMoreThanWindowsAndPagesNeed(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, postgrestest.Database(t))
	store := openNode(t, proxy.URL())
	const key, turns, size = conversation.Key("api:1"), 3000, 500
	storetest.Accept(t, store, storetest.Say(key, 1, "hello"))
	begun := storetest.Begin(t, store, key, 1000)
	run := storetest.Answered(key, begun, "hi")
	for range turns {
		for _, role := range []conversation.Role{conversation.RoleUser, conversation.RoleAssistant} {
			run.Messages = append(run.Messages, conversation.Message{Role: role, Content: strings.Repeat("x", size), Tokens: 50})
		}
	}
	storetest.Commit(t, store, run)
	storetest.Chores(t, store)
	storetest.Accept(t, store, storetest.Say(key, 2, "hello again"))
	for what, read := range map[string]func() (messages int, err error){
		"a window of 20 turns": func() (int, error) {
			turn, err := store.Begin(t.Context(), key, 2000)
			return len(turn.History), err
		},
		"a page of 20 turns": func() (int, error) {
			page, err := store.Messages(t.Context(), conversation.MessageQuery{Conversation: begun.Conversation.ID, Turns: 20})
			return len(page.Messages), err
		},
	} {
		sent := int64(math.MaxInt64)
		for range 5 { // background work reads messages, too
			before := proxy.Received()
			messages, err := read()
			if err != nil || messages != 40 {
				t.Fatalf("%s has %d messages, %v", what, messages, err)
			}
			sent = min(sent, proxy.Received()-before)
		}
		if sent > 300*size {
			t.Errorf("the server sends %d bytes for %s", sent, what)
		}
	}
}
