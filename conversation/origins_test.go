package conversation_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/conversation/storetest"
	"parley/conversation/usage"
)

// alice is a session that spans a chat on Telegram and one on Discord.
const alice = conversation.Key("user:alice")

// from returns a message to Alice's session from one of her places.
func from(origin conversation.Key, id int, text string) conversation.Inbound {
	in := storetest.Say(origin, id, text)
	in.Key, in.Origin = alice, origin
	return in
}

// answersEach returns a run that answers every waiting message where it was written.
func answersEach(turn conversation.Snapshot) conversation.Run {
	run := storetest.Answered(alice, turn, "")
	run.Replies = nil
	for _, in := range turn.Waiting {
		to := in.Destination()
		run.Replies = append(run.Replies, conversation.Delivery{Channel: to.Channel, Address: to.Address, Text: "re " + in.Text})
	}
	return run
}

// Each message keeps its origin, to which its answer is sent.
func TestASharedSessionKnowsWhereEachMessageCameFrom(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, from("telegram:chat:42", 1, "from the phone"), from("discord:dm:99", 2, "from the desk"))
	turn := storetest.Begin(t, s, alice, 1000)
	var got []string
	for _, in := range turn.Waiting {
		got = append(got, fmt.Sprint(in.Key, " ", in.Origin, " ", in.Destination()))
	}
	want := []string{
		"user:alice telegram:chat:42 {telegram  to telegram:chat:42 1}",
		"user:alice discord:dm:99 {discord  to discord:dm:99 2}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A process works the messages and replies of its own channels only, since it can't fetch files or send
// replies on others.
func TestASharedSessionIsWorkedChannelByChannel(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, from("telegram:chat:42", 1, "one"), from("discord:dm:99", 2, "two"), from("telegram:chat:42", 3, "three"))
	scopes := []conversation.Scope{{Channel: "telegram"}, {Channel: "discord"}, {Channel: "cli"}, {Channel: "telegram", Key: "telegram:chat:42"}}
	expectKeys := func(what string, keys func(conversation.Scope) ([]conversation.Key, error), want ...int) {
		t.Helper()
		for i, scope := range scopes {
			if got, err := keys(scope); err != nil || len(got) != want[i] || len(got) > 0 && got[0] != alice {
				t.Errorf("%s in %+v: %q, %v", what, scope, got, err)
			}
		}
	}
	expectKeys("waiting", func(scope conversation.Scope) ([]conversation.Key, error) {
		list, err := s.Waiting(t.Context(), scope)
		return storetest.KeysOf(list), err
	}, 1, 1, 0, 0)
	turn, err := s.Begin(t.Context(), alice, 1000, conversation.Account{Channel: "discord"}, conversation.Account{Channel: "cli"})
	if err != nil || len(turn.Waiting) != 1 || turn.Waiting[0].Text != "two" {
		t.Fatalf("%+v, %v", turn.Waiting, err)
	}

	storetest.Commit(t, s, answersEach(storetest.Begin(t, s, alice, 1000)))
	expectKeys("due", func(scope conversation.Scope) ([]conversation.Key, error) { return s.Due(t.Context(), scope) }, 1, 1, 0, 0)
	var got []string
	for _, channel := range []string{"telegram", "discord", "cli"} {
		due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: alice, Ready: true, Limit: 10, Accounts: []conversation.Account{{Channel: channel}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range due {
			got = append(got, channel+": "+d.Text+" by "+d.Channel)
		}
		if queue := queueOf(t, s, conversation.Scope{Channel: channel}); queue.Due != int64(len(due)) || queue.Waiting != 0 {
			t.Errorf("the queue of %s is %+v", channel, queue)
		}
	}
	if diff := cmp.Diff([]string{"telegram: re one by telegram", "telegram: re three by telegram", "discord: re two by discord"}, got); diff != "" {
		t.Error(diff)
	}
	queues, err := bots.New(s).Queues(t.Context())
	if err != nil || len(queues) != 2 || queues[0].Channel != "discord" || queues[0].Due != 1 || queues[1].Channel != "telegram" || queues[1].Due != 2 {
		t.Errorf("queues: %+v, %v", queues, err)
	}
}

// The costs of a shared session are counted for the channels of its messages.
func TestSumsOfASharedSessionAreByChannel(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i, place := range []conversation.Key{"telegram:chat:42", "discord:dm:99", "discord:dm:99"} {
		storetest.Accept(t, s, from(place, i, "hello"))
		storetest.Commit(t, s, answersEach(storetest.Begin(t, s, alice, 1000)))
	}
	stats, err := usage.New(s).Stats(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, u := range stats.Models {
		got[u.Channel] = u.Runs
	}
	if diff := cmp.Diff(map[string]int64{"telegram": 1, "discord": 2}, got); diff != "" {
		t.Error(diff)
	}
}

// The note of an edit names the place of the edited message.
func TestAnEditInASharedSessionKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, from("discord:dm:99", 1, "five apples"))
	storetest.Commit(t, s, answersEach(storetest.Begin(t, s, alice, 1000)))
	if key, err := s.Edit(t.Context(), conversation.Account{Channel: "discord"}, "discord:dm:99/1", "six apples", time.UnixMilli(2)); err != nil || key != alice {
		t.Fatalf("%q, %v", key, err)
	}
	storetest.Accept(t, s, from("telegram:chat:42", 3, "how many?"))
	turn := storetest.Begin(t, s, alice, 1000)
	if len(turn.Notes) != 1 || turn.Notes[0].Origin != "discord:dm:99" || turn.Notes[0].Text != "six apples" {
		t.Errorf("%+v", turn.Notes)
	}
}

// When accounts are linked or unlinked, waiting messages are answered in the session that has them, and a
// redelivered message is recognized in either session.
func TestChangesOfSessionScopeKeepMessagesInTheirSession(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 2, "waits"))
	again := from(storetest.Chat, 2, "waits")
	again.SourceID = storetest.Say(storetest.Chat, 2, "").SourceID
	storetest.Accept(t, s, again, from(storetest.Chat, 3, "shared"))
	list, err := s.Waiting(t.Context(), conversation.Scope{Channel: "telegram"})
	if err != nil || cmp.Diff([]conversation.Key{storetest.Chat, alice}, storetest.KeysOf(list)) != "" {
		t.Fatalf("waiting: %+v, %v", list, err)
	}
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Waiting) != 1 || len(turn.History) != 2 {
		t.Errorf("the old session: %+v", turn)
	}
	if turn := storetest.Begin(t, s, alice, 1000); len(turn.Waiting) != 1 || turn.Waiting[0].Text != "shared" || len(turn.History) != 0 {
		t.Errorf("the shared session: %+v", turn)
	}
}

// Replies that an earlier version has not sent are sent.
func TestRepliesOfAnEarlierDatabaseKeepTheirChannel(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 8,
		`INSERT INTO sessions (id, key, channel, created_at) VALUES (1, 'telegram:chat:42', 'telegram', 0)`,
		`INSERT INTO inbox (session_id, channel, source_id, address, sender, text, sent_at) VALUES (1, 'telegram', '42:2', 'to', '{}', 'hi', 0)`,
		`INSERT INTO outbox (session_id, run_id, address, text, created_at) VALUES (1, 1, 'to', 'hello', 0)`)
	s := storetest.Open(t, path)
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 10, Accounts: []conversation.Account{{Channel: "telegram"}}})
	if err != nil || len(due) != 1 || due[0].Text != "hello" || due[0].Channel != "telegram" {
		t.Fatalf("%+v, %v", due, err)
	}
	if turn := storetest.Begin(t, s, storetest.Chat, 100); len(turn.Waiting) != 1 || turn.Waiting[0].Origin != storetest.Chat {
		t.Errorf("%+v", turn.Waiting)
	}
}

// migratedTo makes a database with the schema of an earlier version.
func migratedTo(t *testing.T, path string, version int64, rows ...string) {
	t.Helper()
	if err := db.MakeSchema(t.Context(), path, version); err != nil {
		t.Fatal(err)
	}
	file, err := sqlite.Open(path, sqlite.Options{ForeignKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, row := range rows {
		if _, err := file.Exec(row); err != nil {
			t.Fatal(err)
		}
	}
}
