package conversation

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"parley/conversation/steps"
)

// chores does what the writer would do by and by.
func chores(t testing.TB, s *Store) (steps int) {
	t.Helper()
	for done := false; !done; steps++ {
		err := s.db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
			done, err = s.db.StepChore(ctx, tx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return steps
}

// clearConversation is what /clear commits.
func clearConversation(t testing.TB, s *Store, id int) {
	t.Helper()
	mustAccept(t, s, say(chat, id, "/clear yes"))
	turn := mustBegin(t, s, chat, 1000)
	mustCommit(t, s, Run{Key: chat, Kind: KindCommand, Status: StatusDone, Took: turn.Waiting,
		Conversation: turn.Conversation, Effect: Effect{Delete: true}})
}

func TestClearLeavesNoCopyOfTheWords(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	secret := say(chat, 1, "the xylophone secret")
	secret.Title, secret.Sender = "xylophones", Sender{ID: "7", Name: "Xylophone Bob"}
	mustAccept(t, s, secret)
	failed := answered(chat, mustBegin(t, s, chat, 1000), "a xylophone answer")
	failed.Error = "xylophone"
	failed.Steps = []steps.Step{{Kind: steps.Tool, Name: "play", Error: "no xylophone"}}
	mustCommit(t, s, failed)
	due, _ := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 1})
	if err := s.Mark(t.Context(), due[0], MarkFailed, "the chat is gone"); err != nil {
		t.Fatal(err)
	}
	chores(t, s)
	exchange(t, s, "telegram:chat:7", 1) // in a segment of the index of its own
	clearConversation(t, s, 2)

	mustAccept(t, s, say(chat, 3, "hello"))
	if turn := mustBegin(t, s, chat, 1000); len(turn.History) != 0 {
		t.Fatalf("the model still sees %q", texts(turn.History))
	}
	if list, _, err := s.Conversations(t.Context(), ConversationQuery{Key: chat, Limit: 10}); err != nil || len(list) != 0 {
		t.Fatalf("still listed: %+v, %v", list, err)
	}
	chores(t, s)
	for _, q := range []string{
		`SELECT count(*) FROM inbox WHERE text LIKE '%xylophone%' OR title LIKE '%xylophone%'`,
		`SELECT count(*) FROM outbox WHERE text LIKE '%xylophone%'`,
		`SELECT count(*) FROM runs WHERE error LIKE '%xylophone%' OR sender LIKE '%xylophone%' OR steps LIKE '%xylophone%'`,
		`SELECT count(*) FROM participants`,
		`SELECT count(*) FROM messages WHERE content LIKE '%xylophone%'`,
		`SELECT count(*) FROM conversations WHERE deleted = 1`,
		`SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'xylophone'`,
		`SELECT count(*) FROM messages_fts_data WHERE instr(block, CAST('xylophone' AS BLOB))`,
		`SELECT count(*) FROM messages_ranks_data WHERE instr(block, CAST('xylophon' AS BLOB))`,
		`SELECT count(*) FROM messages_ranks_docsize WHERE id NOT IN (SELECT conversation_id << 24 | seq FROM messages)`,
	} {
		var n int
		if err := s.db.QueryRowContext(t.Context(), q).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", q, n, err)
		}
	}
	mustAccept(t, s, say(chat, 1, "the xylophone secret")) // delivered again by the platform
	if turn := mustBegin(t, s, chat, 1000); len(turn.Waiting) != 1 {
		t.Error("a message of a deleted conversation is answered again")
	}
}

// Other chats must not wait for the deletion of a long conversation: no step
// of it touches more than a bounded number of rows.
func TestALongConversationIsDeletedInSmallSteps(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "long.db")
	s := mustOpenAt(t, path)
	s.db.StopChores()
	mustAccept(t, s, say(chat, 1, "begin"))
	run := answered(chat, mustBegin(t, s, chat, 1000), "begun")
	for i := range 3000 {
		run.Messages = append(run.Messages, Message{Role: RoleAssistant, Content: fmt.Sprintf("line %d %s", i, strings.Repeat("word ", 20)), Tokens: 1})
	}
	mustCommit(t, s, run)
	chores(t, s)
	clearConversation(t, s, 2)
	if steps := chores(t, s); steps < 3000/sweepBatch {
		t.Fatalf("3000 messages went in %d steps of at most %d", steps, sweepBatch)
	}
	var left int
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM messages`).Scan(&left); err != nil || left != 0 {
		t.Fatalf("%d messages are left, %v", left, err)
	}
	for _, table := range []string{"messages_fts", "messages_ranks"} {
		if err := execute(s, `INSERT INTO `+table+` (`+table+`, rank) VALUES ('integrity-check', 1)`); err != nil {
			t.Fatalf("%s does not match the messages: %v", table, err)
		}
	}
}

// A deletion that a crash cut short is finished by the next process.
func TestADeletionGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "restart.db")
	s := mustOpenAt(t, path)
	for i := range 5 {
		exchange(t, s, chat, i)
	}
	clearConversation(t, s, 9)
	again := mustOpenAt(t, path) // as a process would find it
	chores(t, again)
	var left int
	if err := again.db.QueryRowContext(t.Context(), `SELECT count(*) FROM messages`).Scan(&left); err != nil || left != 0 {
		t.Fatalf("%d messages are left, %v", left, err)
	}
}

// What is said after a deletion is found, though SQLite gives its rows the ids
// of deleted ones.
func TestWhatIsSaidAfterADeletionIsFound(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for id, words := range []string{"zebra", "yak", "xerus"} {
		mustAccept(t, s, say(chat, 10*id, words))
		mustCommit(t, s, answered(chat, mustBegin(t, s, chat, 1000), "about the "+words))
		chores(t, s)
		if hits, err := Find(t.Context(), s, chat, words, 10); err != nil || len(hits) != 2 {
			t.Errorf("%d of 2 messages with %q are found, %v", len(hits), words, err)
		}
		clearConversation(t, s, 10*id+1)
		chores(t, s)
	}
}

func TestClearForgetsEditsToo(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	in := say(chat, 1, "my pin is 1234")
	mustAccept(t, s, in)
	mustCommit(t, s, answered(chat, mustBegin(t, s, chat, 1000), "noted"))
	edit := func() {
		if _, err := s.Edit(t.Context(), Account{Channel: "telegram"}, in.SourceID, "my pin is 4321", in.At); err != nil {
			t.Fatal(err)
		}
	}
	edit()
	clearConversation(t, s, 2)
	edit() // the platform tells of it again
	mustAccept(t, s, say(chat, 3, "hello"))
	if turn := mustBegin(t, s, chat, 1000); len(turn.Notes) != 0 {
		t.Errorf("the model is told %q", turn.Notes[0].Text)
	}
}

// A reply that was on its way when its conversation was deleted, and that the
// platform refused then, must not stay as the last copy of its words.
func TestARefusedReplyLeavesNoWords(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, say(chat, 1, "play"))
	mustCommit(t, s, answered(chat, mustBegin(t, s, chat, 1000), "the xylophone"))
	due, _ := s.Deliveries(t.Context(), DeliveryQuery{Key: chat, Ready: true, Limit: 1})
	clearConversation(t, s, 2)
	if err := s.Mark(t.Context(), due[0], MarkFailed, "blocked"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM outbox WHERE text LIKE '%xylophone%'`).Scan(&n); err != nil || n != 0 {
		t.Fatalf("%d rows hold the words, %v", n, err)
	}
}

// An operator may delete a conversation while a run answers in it: the answer
// begins another.
func TestARunWhoseConversationWasDeletedIsStored(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, chat, 1)
	mustAccept(t, s, say(chat, 2, "more"))
	run := answered(chat, mustBegin(t, s, chat, 1000), "more of it")
	mustAccept(t, s, say(chat, 3, "/clear yes"))
	clear := mustBegin(t, s, chat, 1000)
	mustCommit(t, s, Run{Key: chat, Kind: KindCommand, Status: StatusDone, Took: clear.Waiting[1:],
		Conversation: clear.Conversation, Effect: Effect{Delete: true}})
	mustCommit(t, s, run)
	mustAccept(t, s, say(chat, 4, "and?"))
	turn := mustBegin(t, s, chat, 1000)
	if turn.Conversation.ID == run.Conversation.ID || len(turn.History) != 2 {
		t.Fatalf("the run is in %s with %q", turn.Conversation.ID, texts(turn.History))
	}
}

// sweepStep does one step of the sweep. It says how many rows, by a query that
// counts them, are gone and how many are left.
func sweepStep(t testing.TB, s *Store, query string) (gone, left int64, done bool) {
	t.Helper()
	err := s.db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
		var before int64
		if err := tx.QueryRowContext(ctx, query).Scan(&before); err != nil {
			return err
		}
		if done, err = sweep(ctx, tx, nil); err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, query).Scan(&left)
		gone = before - left
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return gone, left, done
}

// Pictures are large: a step takes fewer messages that have some.
func TestPicturesAreSweptAFewAtATime(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, say(chat, 1, "look"))
	run := answered(chat, mustBegin(t, s, chat, 1000), "seen")
	for range 12 {
		run.Messages = append(run.Messages, Message{Role: RoleUser, Content: "look", Tokens: 1,
			Images: []Image{{Name: "p.png", MediaType: "image/png", Data: make([]byte, sweepBytes/2)}}})
	}
	mustCommit(t, s, run)
	chores(t, s)
	clearConversation(t, s, 2)
	for left := int64(1); left > 0; {
		var gone int64
		if gone, left, _ = sweepStep(t, s, `SELECT count(*) FROM images`); gone > 2 {
			t.Fatalf("one step deleted %d pictures of %d bytes", gone, sweepBytes/2)
		}
	}
}
