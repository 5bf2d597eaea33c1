package move

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/metadata"
	"parley/conversation/search"
	"parley/conversation/storetest"
	"parley/conversation/transcript"
	"parley/conversation/usage"
	"parley/internal/postgrestest"
)

// newDatabase returns a copy of the example database, with many more messages, a text with NUL, and a large file in the
// folder beside it.
func newDatabase(t *testing.T, sessions int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conversations.db")
	data, err := os.ReadFile("../../conversations.db.example")
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err == nil {
		err = storetest.Fill(t.Context(), path, storetest.Filling{First: 5000, Sessions: sessions, Messages: 40})
	}
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 160_000)
	hash := sha256.Sum256(large)
	folder := path + ".files"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	store := mustOpen(t, path)
	defer store.Close()
	storetest.Exec(t, store, `DELETE FROM blob_pieces WHERE blob_id = (SELECT min(id) FROM blobs)`)
	storetest.Exec(t, store, `UPDATE blobs SET path = 'large', size = ?, hash = ? WHERE id = (SELECT min(id) FROM blobs)`, len(large), hex.EncodeToString(hash[:]))
	storetest.Exec(t, store, `UPDATE messages SET content = content || char(0) || 'behind' WHERE id = (SELECT min(id) FROM messages)`)
	return path
}

func mustOpen(t *testing.T, path string) *conversation.Store {
	t.Helper()
	store, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// said returns the exports of all sessions with their files, and the hits of searches.
func said(t *testing.T, path string) (text, found string) {
	t.Helper()
	store := mustOpen(t, path)
	defer store.Close()
	if err := store.Sweep(t.Context()); err != nil { // brings the search index up to date
		t.Fatal(err)
	}
	sessions, _, err := catalog.New(store).Sessions(t.Context(), catalog.SessionQuery{})
	if err != nil || len(sessions) == 0 {
		t.Fatal(len(sessions), err)
	}
	var out bytes.Buffer
	for _, session := range sessions {
		list, _, err := catalog.New(store).Conversations(t.Context(), catalog.ConversationQuery{Key: session.Key})
		if err == nil {
			err = transcript.Export(t.Context(), &out, transcript.JSONL, store, session, list, true, func() {})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, words := range []string{"oven", "the", "train"} {
		hits, err := search.New(store).Find(t.Context(), search.Query{Words: words, Limit: 30})
		if err != nil {
			t.Fatal(err)
		}
		for _, hit := range hits {
			found += fmt.Sprintln(words, hit.Key, hit.Conversation, hit.Seq)
		}
	}
	return out.String(), found
}

func mustMove(t *testing.T, from, to string) Result {
	t.Helper()
	r, err := Move(t.Context(), Config{From: from, To: to})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantSame(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s differ: %.300s\nwanted %.300s", what, a[i], b[i])
		}
	}
	t.Fatalf("%s: %d lines, wanted %d", what, len(a), len(b))
}

// A database that is moved to PostgreSQL and back has the same conversations, files and search results.
func TestMovesThereAndBack(t *testing.T) {
	t.Parallel()
	file, url := newDatabase(t, 20), postgrestest.Database(t)
	text, found := said(t, file)
	text = strings.ReplaceAll(text, `\u0000`, "\uFFFD") // PostgreSQL has no NUL
	r := mustMove(t, file, url)
	if r.Replaced != 1 || r.LostFiles != 0 || r.Messages < 800 {
		t.Errorf("moved %+v", r)
	}
	serverText, serverFound := said(t, url)
	wantSame(t, "exports", serverText, text)
	wantSame(t, "searches", serverFound, found)

	back := filepath.Join(t.TempDir(), "back.db")
	mustMove(t, url, back)
	fileText, fileFound := said(t, back)
	wantSame(t, "exports", fileText, text)
	wantSame(t, "searches", fileFound, found)

	// New messages get higher ids than all before.
	for _, path := range []string{url, back} {
		store := mustOpen(t, path)
		storetest.Turn(t, store, "telegram:chat:new", 1)
		store.Close()
	}
}

const (
	moveFrom = "PARLEY_TEST_MOVE_FROM"
	moveTo   = "PARLEY_TEST_MOVE_TO"
)

// TestMover is not a test: other tests run it as the process that they kill.
func TestMover(t *testing.T) {
	t.Parallel()
	if os.Getenv(moveFrom) == "" {
		t.Skip("runs as a process of another test")
	}
	mustMove(t, os.Getenv(moveFrom), os.Getenv(moveTo))
}

// killedMove moves in a process that is killed after a while, and reports whether it was still at work.
func killedMove(t *testing.T, from, to string, after time.Duration) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMover$")
	cmd.Env = append(os.Environ(), moveFrom+"="+from, moveTo+"="+to)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	return cmd.Wait() != nil
}

// A move that is killed repeatedly continues where it was. Meanwhile no gateway starts on its target, and no other database is moved into it.
func TestKilledMoveIsFinishedByTheNextOne(t *testing.T) {
	t.Parallel()
	file, url := newDatabase(t, 300), postgrestest.Database(t)
	text, _ := said(t, file)
	text = strings.ReplaceAll(text, `\u0000`, "\uFFFD")
	back := filepath.Join(t.TempDir(), "back.db")
	for _, way := range []struct{ from, to string }{{file, url}, {url, back}} {
		kills := 0
		for kills < 4 && killedMove(t, way.from, way.to, time.Duration(200+rand.IntN(1200))*time.Millisecond) {
			kills++
		}
		t.Logf("killed %d times", kills)
		if kills < 4 { // it was finished before
			_, err := Move(t.Context(), Config{From: way.from, To: way.to})
			if err == nil || !strings.Contains(err.Error(), "not empty") && !strings.Contains(err.Error(), "exists already") {
				t.Fatalf("a finished move that is repeated ends with %v", err)
			}
			continue
		}
		r, err := Move(t.Context(), Config{From: way.from, To: way.to})
		if err != nil && !strings.Contains(err.Error(), "not empty") && !strings.Contains(err.Error(), "exists already") {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
	}
	got, _ := said(t, back)
	wantSame(t, "exports", got, text)
}

// A move that was killed before it had made the tables of its file is begun anew.
func TestMoveIsRepeatedAfterAKillAtItsBeginning(t *testing.T) {
	t.Parallel()
	file, url := newDatabase(t, 1), postgrestest.Database(t)
	want := mustMove(t, file, url)
	back := filepath.Join(t.TempDir(), "back.db")
	if err := os.WriteFile(filepath.Join(filepath.Dir(back), ".back.db.moving"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := mustMove(t, url, back); got.Sessions != want.Sessions || got.Messages != want.Messages {
		t.Errorf("moved %+v, want %+v", got, want)
	}
}

// Until a move is finished, a gateway refuses its target, and another database is not moved into it.
func TestHalfMovedDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	file, other, url := newDatabase(t, 1), newDatabase(t, 1), postgrestest.Database(t)
	m := &mover{Config: Config{From: file, To: url, Log: slog.New(slog.DiscardHandler)}}
	if err := m.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.copy(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.close()
	wantError(t, "is not finished", func() error {
		_, err := conversation.Open(t.Context(), conversation.Config{Path: url})
		return err
	})
	wantError(t, "whose move was interrupted", move(t, other, url))

	store := mustOpen(t, file) // the source is used meanwhile
	storetest.Turn(t, store, "telegram:chat:7", 1)
	store.Close()
	if r := mustMove(t, file, url); !r.Restarted {
		t.Errorf("rows of an older state were kept: %+v", r)
	}
}

func move(t *testing.T, from, to string) func() error {
	return func() error {
		_, err := Move(t.Context(), Config{From: from, To: to})
		return err
	}
}

func wantError(t *testing.T, words string, do func() error) {
	t.Helper()
	if err := do(); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, wanted %q", err, words)
	}
}

// A move that is not possible is refused with an explanation, before anything is written.
func TestMoveRefuses(t *testing.T) {
	t.Parallel()
	file, url := newDatabase(t, 1), postgrestest.Database(t)
	wantError(t, "one database must be a SQLite file", move(t, file, file+".copy"))
	wantError(t, "there is no database", move(t, file+".missing", url))
	wantError(t, "it is a folder", move(t, filepath.Dir(file), url))
	wantError(t, "the server can't be reached", move(t, file, "postgres://parley@127.0.0.1:1/parley"))
	store := mustOpen(t, file)
	wantError(t, "stop it first", move(t, file, url))
	store.Close()
	mustMove(t, file, url)
	wantError(t, "is not empty", move(t, file, url))
	wantError(t, "exists already", move(t, url, file))
	wantError(t, "it is a folder", move(t, url, filepath.Dir(file)))
	if _, err := os.Stat(filepath.Dir(file) + ".lock"); err == nil {
		t.Error("a lock file was made for a folder")
	}
	store = mustOpen(t, url)
	wantError(t, "is in use by", move(t, url, file+".new"))
	store.Close()
}

// An earlier gateway has stored JSON with a NUL, which PostgreSQL can't parse. Sessions are found by metadata after the move, too, and
// the tools of a conversation are counted.
func TestOddJSONIsMoved(t *testing.T) {
	t.Parallel()
	file, url := filepath.Join(t.TempDir(), "test.db"), postgrestest.Database(t)
	store := mustOpen(t, file)
	storetest.Turn(t, store, "api:1", 1)
	storetest.Turn(t, store, "api:2", 2)
	storetest.Exec(t, store, `UPDATE sessions SET metadata = '{"agent":"planner","odd":"\u0000"}'`)
	storetest.Exec(t, store, `UPDATE runs SET steps = '[{"tool":true,"name":"clock","error":"odd\u0000"}]' WHERE id = 1`)
	store.Close()
	if r := mustMove(t, file, url); r.Replaced != 3 {
		t.Errorf("%+v", r)
	}
	moved := mustOpen(t, url)
	defer moved.Close()
	list, _, err := catalog.New(moved).Sessions(t.Context(), catalog.SessionQuery{Metadata: metadata.Filter{"agent": "planner"}})
	if err != nil || len(list) != 2 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
	talks, _, err := catalog.New(moved).Conversations(t.Context(), catalog.ConversationQuery{Key: "api:1"})
	if err != nil || len(talks) != 1 {
		t.Fatalf("%+v, %v", talks, err)
	}
	if trace, err := usage.New(moved).Trace(t.Context(), usage.TraceQuery{Conversation: talks[0].ID}); err != nil || len(trace.Tools) != 1 {
		t.Errorf("%+v, %v", trace, err)
	}
}
