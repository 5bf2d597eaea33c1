package conversation_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/pairing"
	"parley/conversation/storetest"
)

// earlierRows are rows of a Telegram channel from before accounts were stored: two settled messages, a
// waiting one, a due reply, a person with access and one with a code.
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

// accounts returns the bots that rows of a database belong to.
func accounts(t *testing.T, s *conversation.Store, query string) (list []string) {
	t.Helper()
	rows, err := s.DB().QueryContext(t.Context(), query)
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
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 9, append(earlierRows, cursorOfA,
		`INSERT INTO cursors (name, value, updated_at) VALUES ('discord:55:900', '1', 10), ('discord:55:901', '1', 20)`,
		`INSERT INTO sessions (id, key, channel, created_at) VALUES (3, 'discord:dm:9', 'discord', 0)`,
		`INSERT INTO inbox (session_id, channel, source_id, address, sender, text, sent_at) VALUES (3, 'discord', '77', 'to 9', '{}', 'hi', 1)`)...)
	s := storetest.Open(t, path)
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
	if got := storetest.AcceptTexts(t, s, storetest.ToBot(botA, 1, "again"), storetest.ToBot(botA, 3, "again"), storetest.ToBot(botB, 1, "B's first"), storetest.ToBot(botB, 3, "B's third")); !slices.Equal(got, []string{"B's first", "B's third"}) {
		t.Errorf("taken: %q", got)
	}
	if found, err := bots.New(s).Begin(t.Context(), botB); err != nil || found.Former != botA.ID || len(found.Left) != 1 || found.Left[0].Due != 1 {
		t.Errorf("bot B finds %+v, %v", found, err)
	}
	wantPairedWith(t, s, botA, true)
	wantPairedWith(t, s, botB, false)
}

func wantPairedWith(t *testing.T, s *conversation.Store, bot conversation.Account, want bool) {
	t.Helper()
	if in, err := pairing.New(s).Has(t.Context(), bot, "42"); err != nil || in != want {
		t.Errorf("%s lets 42 in: %v, %v; want %v", bot, in, err, want)
	}
}

// With a webhook there is no cursor that names the bot: the rows belong to the first bot that begins.
func TestRowsOfAnEarlierDatabaseWithoutCursorsAreAnyBots(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 9, earlierRows...)
	s := storetest.Open(t, path)
	later := storetest.ToBot(botA, 2, "another message")
	later.At = later.At.Add(time.Minute)
	if got := storetest.AcceptTexts(t, s, storetest.ToBot(botA, 1, "again"), storetest.ToBot(botA, 3, "again"), later); !slices.Equal(got, []string{"another message"}) {
		t.Errorf("taken: %q", got)
	}
	if turn, err := s.Begin(t.Context(), storetest.Chat, 1000, botA); err != nil || len(turn.Waiting) != 2 {
		t.Errorf("waiting: %+v, %v", turn.Waiting, err)
	}
	if due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 9, Accounts: []conversation.Account{botA}}); err != nil || len(due) != 1 {
		t.Errorf("due: %+v, %v", due, err)
	}
	if found, err := bots.New(s).Begin(t.Context(), botA); err != nil || found.Former != "" || len(found.Left) != 0 {
		t.Errorf("bot A finds %+v, %v", found, err)
	}
	if err := bots.New(s).SetHealth(t.Context(), botA, bots.Serving, ""); err != nil {
		t.Fatal(err)
	}
	if found, err := bots.New(s).Begin(t.Context(), botB); err != nil || found.Former != botA.ID {
		t.Errorf("bot B finds %+v, %v", found, err)
	}
	wantPairedWith(t, s, botA, true)
	wantPairedWith(t, s, botB, false)
}

// If there were several bots, a person with access has access to each of them.
func TestRowsOfAnEarlierDatabaseOfTwoBots(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "earlier.db")
	migratedTo(t, path, 9, append(earlierRows, cursorOfA, `INSERT INTO cursors (name, value, updated_at) VALUES ('telegram:7000002', '5', 20)`)...)
	s := storetest.Open(t, path)
	wantPairedWith(t, s, botA, true)
	wantPairedWith(t, s, botB, true)
	if diff := cmp.Diff([]string{"43 7000002"}, accounts(t, s, `SELECT user_id || ' ' || account FROM pairings WHERE code IS NOT NULL`)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"7000002"}, accounts(t, s, `SELECT account FROM channel_health WHERE channel = 'telegram'`)); diff != "" {
		t.Error(diff)
	}
	later := storetest.ToBot(botB, 2, "another message")
	later.At = later.At.Add(time.Minute)
	if got := storetest.AcceptTexts(t, s, storetest.ToBot(botB, 1, "again"), later); !slices.Equal(got, []string{"another message"}) {
		t.Errorf("taken: %q", got)
	}
}
