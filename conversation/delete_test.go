package conversation_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/branches"
	"parley/conversation/catalog"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sweep"
	"parley/conversation/media"
	"parley/conversation/metadata"
	"parley/conversation/search"
	"parley/conversation/state"
	"parley/conversation/steps"
	"parley/conversation/storetest"
	"parley/conversation/summary"
	"parley/conversation/usage"
)

// clearConversation commits what /clear commits.
func clearConversation(t testing.TB, s *conversation.Store, id int) {
	t.Helper()
	storetest.Accept(t, s, storetest.Say(storetest.Chat, id, "/clear yes"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	storetest.Commit(t, s, conversation.Run{Key: storetest.Chat, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: turn.Waiting,
		Conversation: turn.Conversation, Effect: conversation.Effect{Delete: true}})
}

func TestClearLeavesNoCopyOfAText(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	secret := storetest.Say(storetest.Chat, 1, "the xylophone secret")
	secret.Title, secret.Sender = "xylophones", conversation.Sender{ID: "7", Name: "Xylophone Bob"}
	storetest.Accept(t, s, secret)
	failed := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "a xylophone answer")
	failed.Error = "xylophone"
	failed.Steps = []steps.Step{{Kind: steps.Tool, Name: "play", Error: "no xylophone"}}
	storetest.Commit(t, s, failed)
	due, _ := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 1})
	if err := s.Mark(t.Context(), due[0], conversation.MarkFailed, "the chat is gone"); err != nil {
		t.Fatal(err)
	}
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 4, "the xylophone, edited")) // the replaced version is set aside
	edited := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "another xylophone answer")
	edited.Effect.Undo, edited.Events = 1, []state.Event{{Kind: state.Decided, Text: "no xylophone"}}
	done := storetest.Commit(t, s, edited)
	if due, _ := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 1}); len(due) != 1 || s.Mark(t.Context(), due[0], conversation.MarkSent, "") != nil {
		t.Fatalf("to be sent: %+v", due)
	}
	if err := branches.New(s).Choose(t.Context(), done.Conversation, 1); err != nil {
		t.Fatal(err)
	}
	storetest.Chores(t, s)
	storetest.Turn(t, s, "telegram:chat:7", 1) // gets a segment of the index of its own
	clearConversation(t, s, 2)

	storetest.Accept(t, s, storetest.Say(storetest.Chat, 3, "hello"))
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.History) != 0 {
		t.Fatalf("the model still sees %q", storetest.Texts(turn.History))
	}
	if list, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: storetest.Chat, Limit: 10}); err != nil || len(list) != 0 {
		t.Fatalf("still listed: %+v, %v", list, err)
	}
	storetest.Chores(t, s)
	for _, q := range []string{
		`SELECT count(*) FROM inbox WHERE text LIKE '%xylophone%' OR title LIKE '%xylophone%'`,
		`SELECT count(*) FROM outbox WHERE text LIKE '%xylophone%'`,
		`SELECT count(*) FROM runs WHERE error LIKE '%xylophone%' OR sender LIKE '%xylophone%' OR steps LIKE '%xylophone%'`,
		`SELECT count(*) FROM participants`,
		`SELECT count(*) FROM messages WHERE content LIKE '%xylophone%'`,
		`SELECT count(*) FROM conversations WHERE deleted = 1`,
		`SELECT count(*) FROM branches`,
		`SELECT count(*) FROM branch_states`,
		db.Either(`SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'xylophone'`,
			`SELECT count(*) FROM message_words WHERE strpos(said, 'xylophone') > 0`),
		db.Either(`SELECT count(*) FROM messages_fts_data WHERE instr(block, CAST('xylophone' AS BLOB))`,
			`SELECT count(*) FROM message_words WHERE strpos(CAST(words AS TEXT), 'xylophone') > 0`),
		db.Either(`SELECT count(*) FROM messages_ranks_data WHERE instr(block, CAST('xylophon' AS BLOB))`,
			`SELECT count(*) FROM message_ranks WHERE strpos(CAST(ranks AS TEXT), 'xylophon') > 0`),
		db.Either(`SELECT count(*) FROM messages_ranks_docsize WHERE id NOT IN (SELECT conversation_id << 24 | seq FROM messages)`,
			`SELECT count(*) FROM message_ranks WHERE id NOT IN (SELECT conversation_id << 24 | seq FROM messages)`),
	} {
		var n int
		if err := s.DB().QueryRowContext(t.Context(), q).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", q, n, err)
		}
	}
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "the xylophone secret")) // delivered again by the platform
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Waiting) != 1 {
		t.Error("a message of a deleted conversation is answered again")
	}
}

// wordsIn returns the columns of all tables of the database that contain a word.
func wordsIn(t testing.TB, s *conversation.Store, word string) (found []string) {
	t.Helper()
	rows, err := s.DB().QueryContext(t.Context(), db.Either(
		`SELECT t.name, c.name, format('instr(lower(CAST("%w" AS BLOB)), CAST(? AS BLOB)) > 0', c.name)
			FROM pragma_table_list t JOIN pragma_table_info(t.name) c WHERE t.schema = 'main' AND t.type IN ('table', 'shadow') ORDER BY 1, 2`,
		`SELECT table_name, column_name,
				format('strpos(lower(' || CASE data_type WHEN 'bytea' THEN 'encode(%I, ''escape'')' ELSE 'CAST(%I AS text)' END || '), CAST(? AS text)) > 0', column_name)
			FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2`))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var columns [][3]string
	for rows.Next() {
		var c [3]string // table, column, condition
		if err := rows.Scan(&c[0], &c[1], &c[2]); err != nil {
			t.Fatal(err)
		}
		columns = append(columns, c)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range columns {
		if n := storetest.Count(t, s, fmt.Sprintf(`SELECT count(*) FROM "%s" WHERE %s`, c[0], c[2]), word); n > 0 {
			found = append(found, c[0]+"."+c[1])
		}
	}
	return found
}

// No table keeps a text of a deleted session: of imported conversations and their runs, summaries, metadata,
// instructions, files, and calls in the background. Other sessions keep theirs.
func TestADeletedSessionLeavesNoWordInAnyTable(t *testing.T) {
	t.Parallel()
	for _, imported := range []bool{false, true} {
		s := storetest.New(t)
		c := fillWithWord(t, s, storetest.Chat, "xylophone")
		fillWithWord(t, s, "cli:other", "zebra")
		if imported {
			from := archive.New(s)
			session, err := from.Session(t.Context(), storetest.Chat)
			must(t, err)
			head, err := from.Head(t.Context(), c)
			must(t, err)
			to := storetest.New(t)
			im, err := archive.New(to).Import(t.Context(), storetest.Chat)
			must(t, err)
			must(t, im.Into(t.Context(), session))
			if added, err := im.Restore(t.Context(), head, from.Records(t.Context(), c, true)); err != nil || !added {
				t.Fatal(added, err)
			}
			must(t, im.Close(t.Context()))
			fillWithWord(t, to, "cli:other", "zebra")
			s = to
		}
		kept := wordsIn(t, s, "zebra")
		for _, column := range []string{"summaries.content", "run_instructions.list", "background_steps.step", "conversations.metadata", "sessions.metadata"} {
			if !slices.Contains(wordsIn(t, s, "xylophone"), column) {
				t.Errorf("imported %v: the word does not stand in %s before", imported, column)
			}
		}
		if n, err := s.Delete(t.Context(), storetest.Chat, ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		must(t, s.Sweep(t.Context()))
		found := slices.DeleteFunc(wordsIn(t, s, "xylophone"), func(column string) bool {
			return column == "run_people.name" || // the statistics by person stay
				column == "inbox.sender" // by which a redelivered message is known, for a week
		})
		if len(found) > 0 {
			t.Errorf("imported %v: the word still stands in %q", imported, found)
		}
		if diff := cmp.Diff(kept, wordsIn(t, s, "zebra")); diff != "" {
			t.Errorf("imported %v: of another session %s", imported, diff)
		}
	}
}

// fillWithWord stores a word in every field in which a session can have text.
func fillWithWord(t testing.TB, s *conversation.Store, key conversation.Key, word string) conversation.Conversation {
	t.Helper()
	noted := metadata.Object(fmt.Sprintf(`{"topic":%q}`, word))
	must(t, s.SetMetadata(t.Context(), key, "", noted))
	_, err := s.Append(t.Context(), key, "", conversation.Message{Role: conversation.RoleSystem, Content: "speak of the " + word, Tokens: 1})
	must(t, err)
	in := storetest.Say(key, 1, "the "+word)
	in.Title, in.Place, in.Sender = word, "the room of the "+word, conversation.Sender{ID: "7", Name: "Bob " + word}
	in.Options.Metadata = noted
	storetest.Accept(t, s, in)
	snapshot := storetest.Begin(t, s, key, 1000)
	run := storetest.Answered(key, snapshot, "about the "+word)
	run.Error, run.Instructions = word, snapshot.Conversation.State.Instructions
	run.Steps = []steps.Step{{Kind: steps.Tool, Name: "play", Error: "no " + word}}
	run.Events = []state.Event{{Kind: state.Decided, Text: "take the " + word}}
	run.Messages[0].Metadata = noted
	run.Messages[0].Images = []media.Image{{Name: word + ".png", MediaType: "image/png", Size: 20, Data: []byte("\x89PNG\r\n\x1a\n " + word)}}
	c := storetest.Commit(t, s, run).Conversation
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: key, Ready: true, Limit: 1})
	must(t, err)
	due[0].Sent = []string{"1"}
	must(t, s.Mark(t.Context(), due[0], conversation.MarkSent, ""))
	must(t, s.SetMetadata(t.Context(), key, c.ID, noted))
	c.Metadata = noted
	stretch, err := summary.New(s).Stretch(t.Context(), c.ID, c.Messages+1, 1000)
	must(t, err)
	_, err = summary.New(s).Add(t.Context(), stretch, "the "+word+" in short", 3)
	must(t, err)
	must(t, usage.New(s).AddBackground(t.Context(), usage.Background{
		Conversation: c.ID, Run: run.ID(), Channel: "telegram", Steps: []steps.Step{{Kind: steps.Model, Name: "m", Error: word}},
	}))
	storetest.Chores(t, s)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each step of a deletion changes a bounded number of rows, so that other chats do not wait for it.
func TestALongConversationIsDeletedInSmallSteps(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "long.db")
	s := storetest.Open(t, path)
	s.DB().StopChores()
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "begin"))
	run := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "begun")
	for i := range 3000 {
		run.Messages = append(run.Messages, conversation.Message{Role: conversation.RoleAssistant, Content: fmt.Sprintf("line %d %s", i, strings.Repeat("word ", 20)), Tokens: 1})
	}
	storetest.Commit(t, s, run)
	storetest.Chores(t, s)
	clearConversation(t, s, 2)
	if steps := storetest.Chores(t, s); steps < 3000/200 {
		t.Fatalf("3000 messages went in %d steps of at most %d", steps, 200)
	}
	var left int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM messages`).Scan(&left); err != nil || left != 0 {
		t.Fatalf("%d messages are left, %v", left, err)
	}
	checkIndex(t, s)
}

// checkIndex checks that the index of words contains exactly the messages.
func checkIndex(t testing.TB, s *conversation.Store) {
	t.Helper()
	if storetest.OnPostgres() {
		for _, table := range []string{"message_words", "message_ranks"} {
			if n := storetest.Count(t, s, `SELECT count(*) FROM messages m FULL JOIN `+table+` i ON i.id = m.conversation_id << 24 | m.seq
				WHERE m.id IS NULL OR (i.id IS NULL AND m.role IN ('user', 'assistant') AND m.content <> '')`); n != 0 {
				t.Fatalf("%s differs from the messages in %d rows", table, n)
			}
		}
		return
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
	s := storetest.Open(t, path)
	for i := range 5 {
		storetest.Turn(t, s, storetest.Chat, i)
	}
	clearConversation(t, s, 9)
	again := storetest.Open(t, path) // as the next process
	storetest.Chores(t, again)
	var left int
	if err := again.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM messages`).Scan(&left); err != nil || left != 0 {
		t.Fatalf("%d messages are left, %v", left, err)
	}
}

// Messages after a deletion are found, although SQLite gives their rows the ids of deleted
// ones.
func TestMessagesAfterADeletionAreFound(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for id, words := range []string{"zebra", "yak", "xerus"} {
		storetest.Accept(t, s, storetest.Say(storetest.Chat, 10*id, words))
		storetest.Commit(t, s, storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "about the "+words))
		storetest.Chores(t, s)
		if hits, err := search.New(s).Find(t.Context(), search.Query{Key: storetest.Chat, Words: words, Limit: 10}); err != nil || len(hits) != 2 {
			t.Errorf("%d of 2 messages with %q are found, %v", len(hits), words, err)
		}
		clearConversation(t, s, 10*id+1)
		storetest.Chores(t, s)
	}
}

func TestClearForgetsEditsToo(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	in := storetest.Say(storetest.Chat, 1, "my pin is 1234")
	storetest.Accept(t, s, in)
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "noted"))
	edit := func() {
		if _, err := s.Edit(t.Context(), conversation.Account{Channel: "telegram"}, in.SourceID, "my pin is 4321", in.At); err != nil {
			t.Fatal(err)
		}
	}
	edit()
	clearConversation(t, s, 2)
	edit() // the platform sends it again
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 3, "hello"))
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Notes) != 0 {
		t.Errorf("the model is told %q", turn.Notes[0].Text)
	}
}

// A reply that the platform refuses after its conversation was deleted does not stay in the database.
func TestARefusedReplyLeavesNoWords(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "play"))
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "the xylophone"))
	due, _ := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 1})
	clearConversation(t, s, 2)
	if err := s.Mark(t.Context(), due[0], conversation.MarkFailed, "blocked"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM outbox WHERE text LIKE '%xylophone%'`).Scan(&n); err != nil || n != 0 {
		t.Fatalf("%d rows hold the words, %v", n, err)
	}
}

// A run whose conversation is deleted meanwhile is stored in a new conversation.
func TestARunWhoseConversationWasDeletedIsStored(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, storetest.Chat, 1)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 2, "more"))
	run := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "more of it")
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 3, "/clear yes"))
	clear := storetest.Begin(t, s, storetest.Chat, 1000)
	storetest.Commit(t, s, conversation.Run{Key: storetest.Chat, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: clear.Waiting[1:],
		Conversation: clear.Conversation, Effect: conversation.Effect{Delete: true}})
	storetest.Commit(t, s, run)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 4, "and?"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	if turn.Conversation.ID == run.Conversation.ID || len(turn.History) != 2 {
		t.Fatalf("the run is in %s with %q", turn.Conversation.ID, storetest.Texts(turn.History))
	}
}

// sweepStep does one step of the sweep. It returns how many of the rows that a query counts were deleted
// and how many are left.
func sweepStep(t testing.TB, s *conversation.Store, query string) (gone, left int64, done bool) {
	t.Helper()
	err := s.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) (err error) {
		var before int64
		if err := tx.QueryRowContext(ctx, query).Scan(&before); err != nil {
			return err
		}
		if done, err = sweep.Step(ctx, tx, nil); err != nil {
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

// A step of the sweep deletes fewer messages if they have pictures, which are large.
func TestPicturesAreSweptAFewAtATime(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "look"))
	run := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "seen")
	for range 12 {
		run.Messages = append(run.Messages, conversation.Message{Role: conversation.RoleUser, Content: "look", Tokens: 1,
			Images: []media.Image{{Name: "p.png", MediaType: "image/png", Data: make([]byte, 2<<20)}}})
	}
	storetest.Commit(t, s, run)
	storetest.Chores(t, s)
	clearConversation(t, s, 2)
	for left := int64(1); left > 0; {
		var gone int64
		if gone, left, _ = sweepStep(t, s, `SELECT count(*) FROM images`); gone > 2 {
			t.Fatalf("one step deleted %d pictures of %d bytes", gone, 2<<20)
		}
	}
}

// A step of the purge writes few pages, and a deleted message costs about as many bytes as the index has for it. FTS5 once merged
// segments in the commits of deletions, which wrote several MiB at once.
func TestPurgeWritesLittleInEachStep(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "purge.db")
	const sessions, messages, page = 6, 300, 4096
	if err := storetest.Fill(t.Context(), path, storetest.Filling{First: 1, Sessions: sessions, Messages: messages}); err != nil {
		t.Fatal(err)
	}
	s := storetest.Open(t, path)
	s.DB().StopChores()
	storetest.Exec(t, s, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
		UPDATE messages SET content = (SELECT group_concat('w' || (messages.id * 7919 * i % 5003), ' ') FROM n)`)
	storetest.Chores(t, s)
	storetest.Exec(t, s, `PRAGMA wal_autocheckpoint = 0`) // the log grows by what is written
	storetest.Exec(t, s, `UPDATE conversations SET deleted = 1 WHERE id % 2 = 0`)
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	began, most := size(), int64(0)
	for done := false; !done; {
		before := size()
		err := s.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) (err error) {
			done, err = s.DB().StepChore(ctx, tx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, size()-before)
	}
	if left := storetest.Count(t, s, `SELECT count(*) FROM messages`); left != sessions*messages/2 {
		t.Fatalf("%d messages are left", left)
	}
	if each := (size() - began) / (sessions * messages / 2); most > 400*page || each > 25_000 {
		t.Errorf("a step wrote %d pages, and %d bytes are written for each deleted message", most/page, each)
	}
}

// Each step finds new messages that are missing in the index and new runs that are missing in the sums. They must not keep the chores
// behind them from running.
func TestPurgeGoesOnWhileMessagesArrive(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	s.DB().StopChores()
	for id := range 3 {
		storetest.Turn(t, s, storetest.Chat, 10+id)
	}
	clearConversation(t, s, 1)
	for id := range 10 {
		storetest.Turn(t, s, "telegram:chat:7", 1+id)
		err := s.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
			_, err := s.DB().StepChore(ctx, tx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if left := storetest.Count(t, s, `SELECT count(*) FROM conversations WHERE deleted = 1`); left != 0 {
		t.Errorf("%d deleted conversations are left", left)
	}
}
