package conversation_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/dbfile"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/conversation/internal/wordindex"
	"parley/conversation/storetest"
)

// killed copies the files of an open store to another folder, as kill -9 would leave them now.
func killed(t *testing.T, s *conversation.Store) (path string) {
	t.Helper()
	storetest.NeedsSQLite(t)
	path = filepath.Join(t.TempDir(), filepath.Base(s.Path()))
	err := s.DB().Read(t.Context(), func(context.Context, *sql.Conn) error { // no chore writes meanwhile
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			copyFile(t, s.Path()+suffix, path+suffix)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	bytes, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyOnline copies a database as `sqlite3 FILE ".backup copy.db"` does.
func copyOnline(t *testing.T, from, to string) {
	t.Helper()
	db, err := dbfile.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	source, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if err := sqlite.CopyPages(t.Context(), source, to, func(int, int) {}); err != nil {
		t.Fatal(err)
	}
}

// copyCompact copies a database as VACUUM INTO does.
func copyCompact(t *testing.T, from, to string) {
	t.Helper()
	db, err := dbfile.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`VACUUM INTO ?`, to); err != nil {
		t.Fatal(err)
	}
}

// addLongTurns stores turns with a number of bytes of text each.
func addLongTurns(t *testing.T, s *conversation.Store, from, turns, bytes int) {
	t.Helper()
	for i := range turns {
		storetest.Accept(t, s, storetest.Say(storetest.Chat, from+i, strings.Repeat("x", bytes)))
		turn := storetest.Begin(t, s, storetest.Chat, 100)
		storetest.Commit(t, s, conversation.Run{
			Key: storetest.Chat, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
			Messages: []conversation.Message{
				{Role: conversation.RoleUser, Content: turn.Waiting[0].Text, Tokens: 1},
				{Role: conversation.RoleAssistant, Content: "answer", Tokens: 1},
			},
		})
	}
}

// manyGenerations is far more bytes than one generation of the log holds.
const manyGenerations = 6 << 20

func TestOpenRefusesTheLogOfAReplacedFile(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	for name, tt := range map[string]struct {
		copy  func(t *testing.T, from, to string)
		later int // bytes that are written after the copy
	}{
		"online copy, same generation":    {copyOnline, 1000},
		"online copy, older generation":   {copyOnline, manyGenerations},
		"compacted copy, same generation": {copyCompact, 1000},
		"compacted copy, older":           {copyCompact, manyGenerations},
		"copy of the file alone":          {copyFile, manyGenerations},
		"another database": {func(t *testing.T, _, to string) {
			other := storetest.Open(t, to)
			addLongTurns(t, other, 0, 5, 100)
			other.Close()
		}, 1000},
		"empty file": {func(t *testing.T, _, to string) {
			if err := os.WriteFile(to, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for attempt := range 3 {
				s := storetest.New(t)
				addLongTurns(t, s, 0, 3+attempt, 1000)
				copied := filepath.Join(t.TempDir(), "copy.db")
				tt.copy(t, s.Path(), copied)
				addLongTurns(t, s, 100, 8, tt.later/8)
				path := killed(t, s)
				copyFile(t, copied, path)
				expectForeign(t, path)
			}
		})
	}
}

// A log without its database file is refused and kept, since it contains messages.
func TestOpenRefusesALogWithoutItsFile(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	addLongTurns(t, s, 0, 3, 100)
	path := killed(t, s)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expectForeign(t, path)
	if _, err := os.Stat(path); err == nil {
		t.Error("a new database was made in its place")
	}
}

// expectForeign checks that the database is refused, and that its files do not change.
func expectForeign(t *testing.T, path string) {
	t.Helper()
	read := func() (all [2]string) {
		for i, suffix := range []string{"", "-wal"} {
			bytes, err := os.ReadFile(path + suffix)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			all[i] = string(bytes)
		}
		return all
	}
	before := read()
	s, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err == nil {
		s.Close()
	}
	var foreign *db.ForeignLogError
	if !errors.As(err, &foreign) || !strings.Contains(err.Error(), "gateway restore") {
		t.Errorf("the start says %v", err)
	}
	if read() != before {
		t.Error("the files were changed")
	}
}

// The files of a killed process are opened, whatever the generation of its log, however often it was
// killed, and wherever the files were moved.
func TestOpenAcceptsTheLogOfAKilledProcess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: it writes many generations of a log")
	}
	s := storetest.New(t)
	said := 0
	for round := range 10 {
		s.DB().StopChores(wordindex.ChoreName, wordindex.RanksChoreName) // indexing takes longer than all the rest
		n := 1 + rand.IntN(12)
		addLongTurns(t, s, said, n, rand.IntN(400_000))
		said += n
		path := killed(t, s)
		if round%3 == 0 {
			for _, suffix := range []string{"-shm", ".lock"} {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
		}
		next := storetest.Open(t, path)
		if !next.DB().Unclean() {
			t.Error("the store does not say that it was not closed")
		}
		var stored int
		if err := next.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM messages WHERE role = 'user'`).Scan(&stored); err != nil || stored != said {
			t.Fatalf("%d of %d messages are there, %v", stored, said, err)
		}
		if round%2 == 0 { // killed again, and again before anything is written
			path = killed(t, next)
			next.Close()
			next = storetest.Open(t, path)
		}
		s.Close()
		s = next
	}
	path := s.Path()
	s.Close()
	if s = storetest.Open(t, path); s.DB().Unclean() {
		t.Error("after an orderly end the store says that it was not closed")
	}
}

// A log of an earlier version or another program names no file. It is accepted if the database is not
// damaged.
func TestOpenChecksALogWithoutEpochs(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "old.db")
	migratedTo(t, path, 9, `INSERT INTO sessions (key, channel, created_at) VALUES ('cli:a', 'cli', 1)`)
	db, err := sqlite.Open(path, sqlite.Options{Journal: sqlite.WAL})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 3 {
		if _, err := db.Exec(`INSERT INTO sessions (key, channel, created_at) VALUES (?, 'cli', 1)`, fmt.Sprint("cli:", i)); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(t.TempDir(), "old.db")
	copyFile(t, path, left)
	copyFile(t, path+"-wal", left+"-wal")
	storetest.Open(t, left).Close()

	// The table of sessions is the log's, and all else another's.
	broken := filepath.Join(t.TempDir(), "broken.db")
	other := storetest.New(t)
	for i := range 30 {
		storetest.Accept(t, other, storetest.Say(conversation.Key(fmt.Sprint("cli:other", i)), i, "hello"))
	}
	copyOnline(t, other.Path(), broken)
	copyFile(t, path+"-wal", broken+"-wal")
	expectForeign(t, broken)
}

// Opening a database without writing to it does not change its epoch.
func TestOpeningAloneWritesNoEpoch(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	s := storetest.New(t)
	addLongTurns(t, s, 0, 1, 100)
	path := s.Path()
	s.Close()
	epoch := func() (e string) {
		db, err := dbfile.OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.QueryRow(`SELECT epoch FROM wal_epoch`).Scan(&e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	before := epoch()
	storetest.Open(t, path).Close()
	if epoch() != before {
		t.Error("opening and closing a database gave it a new epoch")
	}
}

// A checkpoint during a read copies a part of the log to the file. The log is accepted afterwards.
func TestOpenAcceptsAPartlyCheckpointedLog(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	s := storetest.New(t)
	addLongTurns(t, s, 0, 1, 100)
	path := s.Path()
	s.Close()
	s = storetest.Open(t, path)
	addLongTurns(t, s, 10, 1, 100)
	reader, err := s.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.ExecContext(t.Context(), `BEGIN`); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRowContext(t.Context(), `SELECT count(*) FROM messages`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	touched := time.Now().Add(time.Second) // the next transaction gives the database another epoch, as after a restart
	if err := os.Chtimes(path, touched, touched); err != nil {
		t.Fatal(err)
	}
	addLongTurns(t, s, 20, 1, 100)
	var busy, frames, written int
	err = s.DB().Read(t.Context(), func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &frames, &written)
	})
	if err != nil {
		t.Fatal(err)
	}
	if written == 0 || written == frames {
		t.Fatalf("%d of %d frames are written", written, frames)
	}
	next, err := conversation.Open(t.Context(), conversation.Config{Path: killed(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
}
