package conversation

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	botA = Account{Channel: "telegram", ID: "7000001"}
	botB = Account{Channel: "telegram", ID: "7000002"}
)

// toBot is a message of a private chat as one bot numbers it.
func toBot(bot Account, id int, text string) Inbound {
	return Inbound{
		Key: chat, Account: bot.ID, SourceID: fmt.Sprint("42:", id), Address: "to 42", Sender: Sender{ID: "42"},
		Text: text, At: time.UnixMilli(1_700_000_000_000),
	}
}

// stored gives the texts of what Accept has taken.
func stored(t *testing.T, s *Store, batch ...Inbound) (texts []string) {
	t.Helper()
	list, err := s.Accept(t.Context(), nil, batch...)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range list {
		texts = append(texts, in.Text)
	}
	return texts
}

func TestAcceptTellsTheMessagesOfTwoBotsApart(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	batch := []Inbound{toBot(botA, 1, "to A"), toBot(botB, 1, "to B"), toBot(botA, 2, "more to A")}
	if diff := cmp.Diff([]string{"to A", "to B", "more to A"}, stored(t, s, batch...)); diff != "" {
		t.Error(diff)
	}
	if again := stored(t, s, batch...); again != nil {
		t.Errorf("taken twice: %q", again)
	}
}

// In a group both bots are told of one message, which has one session and one
// number: "/undo" must not be done twice.
func TestAcceptTakesAMessageOfAGroupOnce(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	toGroup := func(bot Account, id int, at int64) Inbound {
		in := toBot(bot, id, bot.ID)
		in.Group, in.At = true, time.UnixMilli(at)
		return in
	}
	if got := stored(t, s, toGroup(botA, 1, 1000), toGroup(botB, 1, 1000)); len(got) != 1 {
		t.Errorf("taken: %q", got)
	}
	if got := stored(t, s, toGroup(botB, 1, 5000)); len(got) != 1 {
		t.Error("a message of another time with the same number was dropped")
	}
}

func TestWorkWaitsForItsBot(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, toBot(botA, 1, "one"), toBot(botB, 1, "two"))
	for _, bot := range []Account{botA, botB} {
		scope := Scope{Channel: bot.Channel, Account: bot.ID}
		turn, err := s.Begin(t.Context(), chat, 1000, scope.By())
		if err != nil || len(turn.Waiting) != 1 || turn.Waiting[0].Account != bot.ID {
			t.Fatalf("bot %s begins with %+v, %v", bot, turn.Waiting, err)
		}
		run := answered(chat, turn, "from "+bot.ID)
		done, err := s.Commit(t.Context(), run)
		if err != nil || len(done.Replies) != 1 || done.Replies[0].Account != bot.ID || done.Replies[0].Channel != "telegram" {
			t.Fatalf("bot %s answers with %+v, %v", bot, done.Replies, err)
		}
		if keys, err := s.Waiting(t.Context(), scope); err != nil || len(keys) != 0 {
			t.Errorf("bot %s has %q waiting, %v", bot, keys, err)
		}
	}
	for _, bot := range []Account{botA, botB} {
		scope := Scope{Channel: bot.Channel, Account: bot.ID}
		due, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 10, Accounts: []Account{scope.By()}})
		if err != nil || len(due) != 1 || due[0].Text != "from "+bot.ID || due[0].Account != bot.ID {
			t.Errorf("bot %s sends %+v, %v", bot, due, err)
		}
		if queue := queueOf(t, s, scope); queue.Due != 1 {
			t.Errorf("the queue of bot %s is %+v", bot, queue)
		}
		if err := s.Mark(t.Context(), due[0], MarkSent, ""); err != nil {
			t.Fatal(err)
		}
		if keys, err := s.Due(t.Context(), scope); err != nil || len(keys) != 0 {
			t.Errorf("bot %s has %q due, %v", bot, keys, err)
		}
	}
}

// queueOf returns what waits in a scope.
func queueOf(t *testing.T, s *Store, scope Scope) (all Queue) {
	t.Helper()
	queues, err := Queues(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		if q.Channel == scope.Channel && (scope.Account == "" || q.Account == scope.Account) {
			all.Waiting += q.Waiting
			all.Due += q.Due
		}
	}
	return all
}

// An edit names the message by its number, which another bot's message has too.
func TestEditsAndDeletionsAreOfTheirBotsMessage(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, toBot(botA, 1, "one"), toBot(botB, 1, "two"), toBot(botA, 2, "three"), toBot(botB, 2, "four"))
	if key, err := s.Edit(t.Context(), botB, "42:1", "zwei", time.UnixMilli(2)); err != nil || key != chat {
		t.Fatal(key, err)
	}
	if key, err := s.Withdraw(t.Context(), botA, "42:2"); err != nil || key != chat {
		t.Fatal(key, err)
	}
	if key, err := s.Edit(t.Context(), Account{"telegram", "7000003"}, "42:1", "drei", time.UnixMilli(2)); err != nil || key != "" {
		t.Errorf("a third bot edited a message in %q, %v", key, err)
	}
	var got []string
	for _, in := range mustBegin(t, s, chat, 1000).Waiting {
		got = append(got, in.Text)
	}
	if diff := cmp.Diff([]string{"one", "zwei", "four"}, got); diff != "" {
		t.Error(diff)
	}
}

// earlierRows are of a Telegram channel before accounts were known: two messages
// that were settled, one that waits, a reply that is due, one that was let in and
// one who asks.
var earlierRows = []string{
	`INSERT INTO sessions (id, key, channel, created_at) VALUES (1, 'telegram:chat:42', 'telegram', 0), (2, 'cli:work', 'cli', 0)`,
	`INSERT INTO runs (id, session_id, kind, status, started_at, ended_at) VALUES (1, 1, 'agent', 'done', 0, 0)`,
	`INSERT INTO inbox (session_id, channel, source_id, address, sender, text, sent_at, run_id) VALUES
		(1, 'telegram', '42:1', '', '{"id":"42"}', '', 1700000000000, 1), (1, 'telegram', '42:2', '', '{"id":"42"}', '', 1700000000000, 1)`,
	`INSERT INTO inbox (session_id, channel, source_id, address, sender, text, sent_at) VALUES
		(1, 'telegram', '42:3', 'to 42', '{"id":"42"}', 'waits', 1700000000000), (2, 'cli', 'x', 'to cli', '{}', 'typed', 1700000000000)`,
	`INSERT INTO outbox (session_id, run_id, channel, address, text, created_at) VALUES (1, 1, 'telegram', 'to 42', 'due', 0)`,
	`INSERT INTO pairings (channel, user_id, name, code, asked_at, expires_at, approved_at) VALUES
		('telegram', '42', 'Ada', NULL, 1, 2, 3), ('telegram', '43', 'Bob', 'K7QM-2XWD', 1, 99999999999999, NULL)`,
	`INSERT INTO channel_health (channel, state, detail, changed_at) VALUES ('telegram', 'serving', '', 5), ('web', 'serving', '', 6)`,
}

const cursorOfA = `INSERT INTO cursors (name, value, updated_at) VALUES ('telegram:7000001', '1003', 10)`

// accounts are the bots that the rows of a database belong to.
func accounts(t *testing.T, s *Store, query string) (list []string) {
	t.Helper()
	rows, err := s.db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		list = append(list, one)
	}
	return list
}

func TestRowsOfAnEarlierDatabaseAreOfItsOnlyBot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 9, append(earlierRows, cursorOfA,
		`INSERT INTO cursors (name, value, updated_at) VALUES ('discord:55:900', '1', 10), ('discord:55:901', '1', 20)`,
		`INSERT INTO sessions (id, key, channel, created_at) VALUES (3, 'discord:dm:9', 'discord', 0)`,
		`INSERT INTO inbox (session_id, channel, source_id, address, sender, text, sent_at) VALUES (3, 'discord', '77', 'to 9', '{}', 'hi', 1)`)...)
	s := mustOpenAt(t, path)
	want := []string{"telegram 42:1 7000001", "telegram 42:2 7000001", "telegram 42:3 7000001", "cli x ", "discord 77 55"}
	if diff := cmp.Diff(want, accounts(t, s, `SELECT channel || ' ' || source_id || ' ' || account FROM inbox ORDER BY id`)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"7000001"}, accounts(t, s, `SELECT account FROM outbox`)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"42 7000001", "43 7000001"}, accounts(t, s, `SELECT user_id || ' ' || account FROM pairings ORDER BY id`)); diff != "" {
		t.Error(diff)
	}
	want = []string{"discord 55", "telegram 7000001", "web "}
	if diff := cmp.Diff(want, accounts(t, s, `SELECT channel || ' ' || account FROM channel_health ORDER BY 1`)); diff != "" {
		t.Error(diff)
	}
	if got := stored(t, s, toBot(botA, 1, "again"), toBot(botA, 3, "again"), toBot(botB, 1, "B's first"), toBot(botB, 3, "B's third")); !slices.Equal(got, []string{"B's first", "B's third"}) {
		t.Errorf("taken: %q", got)
	}
	if former, left, err := BeginService(t.Context(), s, botB); err != nil || former != botA.ID || len(left) != 1 || left[0].Due != 1 {
		t.Errorf("bot B finds %q, %+v, %v", former, left, err)
	}
	wantPairedWith(t, s, botA, true)
	wantPairedWith(t, s, botB, false)
}

func wantPairedWith(t *testing.T, s *Store, bot Account, want bool) {
	t.Helper()
	if in, err := IsPaired(t.Context(), s, bot, "42"); err != nil || in != want {
		t.Errorf("%s lets 42 in: %v, %v; want %v", bot, in, err, want)
	}
}

// Behind a webhook there is no cursor: nobody knows the bot, until one begins.
func TestRowsOfAnEarlierDatabaseWithoutCursorsAreAnyBots(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 9, earlierRows...)
	s := mustOpenAt(t, path)
	later := toBot(botA, 2, "another message")
	later.At = later.At.Add(time.Minute)
	if got := stored(t, s, toBot(botA, 1, "again"), toBot(botA, 3, "again"), later); !slices.Equal(got, []string{"another message"}) {
		t.Errorf("taken: %q", got)
	}
	if turn, err := s.Begin(t.Context(), chat, 1000, botA); err != nil || len(turn.Waiting) != 2 {
		t.Errorf("waiting: %+v, %v", turn.Waiting, err)
	}
	if due, err := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 9, Accounts: []Account{botA}}); err != nil || len(due) != 1 {
		t.Errorf("due: %+v, %v", due, err)
	}
	if former, left, err := BeginService(t.Context(), s, botA); err != nil || former != "" || len(left) != 0 {
		t.Errorf("bot A finds %q, %+v, %v", former, left, err)
	}
	if err := SetServing(t.Context(), s, botA); err != nil {
		t.Fatal(err)
	}
	if former, left, err := BeginService(t.Context(), s, botB); err != nil || former != botA.ID {
		t.Errorf("bot B finds %q, %+v, %v", former, left, err)
	}
	wantPairedWith(t, s, botA, true)
	wantPairedWith(t, s, botB, false)
}

// With every bot that there was, whoever was let in could talk.
func TestRowsOfAnEarlierDatabaseOfTwoBots(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 9, append(earlierRows, cursorOfA, `INSERT INTO cursors (name, value, updated_at) VALUES ('telegram:7000002', '5', 20)`)...)
	s := mustOpenAt(t, path)
	wantPairedWith(t, s, botA, true)
	wantPairedWith(t, s, botB, true)
	if diff := cmp.Diff([]string{"43 7000002"}, accounts(t, s, `SELECT user_id || ' ' || account FROM pairings WHERE code IS NOT NULL`)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"7000002"}, accounts(t, s, `SELECT account FROM channel_health WHERE channel = 'telegram'`)); diff != "" {
		t.Error(diff)
	}
	later := toBot(botB, 2, "another message")
	later.At = later.At.Add(time.Minute)
	if got := stored(t, s, toBot(botB, 1, "again"), later); !slices.Equal(got, []string{"another message"}) {
		t.Errorf("taken: %q", got)
	}
}
