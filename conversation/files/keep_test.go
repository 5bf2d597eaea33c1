package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/blobs"
	"parley/conversation/media"
	"parley/conversation/storetest"
)

// limits keep 1 KiB in the database.
var limits = Limits{Inline: 1 << 10, MaxFile: 3 << 20, MaxSession: 5 << 20, MaxTotal: 8 << 20}

func randomBytes(n int) []byte {
	data := make([]byte, n)
	rand.Read(data)
	return data
}

// opened returns an Open function for the bytes that counts its calls.
func opened(data []byte, calls *int) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		if calls != nil {
			*calls++
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}
}

// incoming accepts a message with a file, and returns the file as the argument of Keep.
func incoming(t testing.TB, s *conversation.Store, key conversation.Key, id int, name string, data []byte) Incoming {
	t.Helper()
	in := storetest.Ask(key, id, "look")
	in.Attachments = []media.Attachment{{Name: name, MediaType: "text/plain", Ref: "there"}}
	storetest.Accept(t, s, in)
	waiting, err := s.Inbox(t.Context(), key, 100)
	if err != nil {
		t.Fatal(err)
	}
	return Incoming{Session: key, Inbound: waiting[len(waiting)-1].ID, Attachment: in.Attachments[0], Open: opened(data, nil)}
}

func mustKeep(t testing.TB, s *conversation.Store, in Incoming) File {
	t.Helper()
	kept, err := New(s).Keep(t.Context(), in, limits)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func bytesOf(t testing.TB, s *conversation.Store, file File) []byte {
	t.Helper()
	reader, err := New(s).Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	data, err := io.ReadAll(reader.Whole())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// answer commits the run that answers the waiting message, with kept files in it.
func answer(t testing.TB, s *conversation.Store, key conversation.Key, list ...File) conversation.Committed {
	t.Helper()
	run := storetest.Answered(key, storetest.Begin(t, s, key, 1000), "Seen.")
	for _, file := range list {
		run.Messages[0].Files = append(run.Messages[0].Files, media.File{ID: file.ID, Name: file.Name})
	}
	return storetest.Commit(t, s, run)
}

func foldersFiles(t testing.TB, s *conversation.Store) int {
	t.Helper()
	entries, err := os.ReadDir(blobs.Folder(s.Path()))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(entries)
}

// Files are kept unchanged until their conversation is deleted: small ones in the database, large ones
// beside a SQLite file.
func TestAFileIsKeptUntilItsConversationIsDeleted(t *testing.T) {
	for name, size := range map[string]int{"small": 1000, "large": 2*blobs.Piece + 7} {
		t.Run(name, func(t *testing.T) {
			s, _, clean := aged(t)
			data := randomBytes(size)
			kept := mustKeep(t, s, incoming(t, s, kitchen, 1, "a.bin", data))
			if got := foldersFiles(t, s); (got == 1) != (name == "large" && !storetest.OnPostgres()) {
				t.Errorf("the folder has %d files", got)
			}
			s = storetest.Open(t, s.Path())
			if !bytes.Equal(bytesOf(t, s, kept), data) {
				t.Error("before the commit it reads otherwise")
			}
			done := answer(t, s, kitchen, kept)
			list, err := New(s).OfSession(t.Context(), kitchen, 10)
			if err != nil || len(list) != 1 || list[0].Seq != 1 || list[0].Conversation != done.Conversation.ID || !bytes.Equal(bytesOf(t, s, list[0]), data) {
				t.Fatalf("%+v, %v", list, err)
			}
			storetest.Accept(t, s, storetest.Ask(kitchen, 2, "/clear"))
			clear := storetest.Replied(storetest.Begin(t, s, kitchen, 1000), conversation.KindCommand, conversation.StatusDone, "Cleared.")
			clear.Effect.Delete = true
			storetest.Commit(t, s, clear)
			if _, err := New(s).File(t.Context(), kitchen, kept.ID); !errors.Is(err, ErrNotFound) {
				t.Errorf("of a deleted conversation: %v", err)
			}
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			clean()
			if n := storetest.Count(t, s, `SELECT (SELECT count(*) FROM blobs) + (SELECT count(*) FROM blob_pieces) + (SELECT count(*) FROM files) + (SELECT count(*) FROM unused_paths)`); int(n)+foldersFiles(t, s) != 0 {
				t.Errorf("%d rows and %d files are left", n, foldersFiles(t, s))
			}
		})
	}
}

// A file that was stored before a crash is not fetched again. Equal files are stored once, until the last
// message with them is deleted.
func TestAFileIsStoredOnce(t *testing.T) {
	s := storetest.New(t)
	data, calls := randomBytes(5000), 0
	in := incoming(t, s, kitchen, 1, "a.bin", data)
	in.Open = opened(data, &calls)
	first := mustKeep(t, s, in)
	if again := mustKeep(t, s, in); again.ID != first.ID || calls != 1 {
		t.Errorf("file %d and %d, fetched %d times", first.ID, again.ID, calls)
	}
	other := mustKeep(t, s, incoming(t, s, "web:cellar", 2, "b.bin", data))
	if n := storetest.Count(t, s, `SELECT count(*) FROM blobs`); n != 1 || foldersFiles(t, s) > 1 {
		t.Errorf("%d blobs, %d files", n, foldersFiles(t, s))
	}
	if _, err := s.Withdraw(t.Context(), conversation.Account{Channel: "web"}, storetest.Say(kitchen, 1, "").SourceID); err != nil {
		t.Fatal(err)
	}
	storetest.Chores(t, s)
	if !bytes.Equal(bytesOf(t, s, other), data) {
		t.Error("the file was deleted with the other session's message")
	}
}

// A session can't read or use another session's file.
func TestFileIsReadInItsOwnSessionOnly(t *testing.T) {
	s := storetest.New(t)
	kept := mustKeep(t, s, incoming(t, s, kitchen, 1, "a.bin", randomBytes(10)))
	if _, err := New(s).File(t.Context(), "web:cellar", kept.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("another session got %v", err)
	}
	if list, err := New(s).OfSession(t.Context(), "web:cellar", 10); err != nil || len(list) != 0 {
		t.Errorf("another session is listed %+v, %v", list, err)
	}
	storetest.Accept(t, s, storetest.Ask("web:cellar", 2, "mine"))
	answer(t, s, "web:cellar", kept)
	if got, err := New(s).File(t.Context(), kitchen, kept.ID); err != nil || got.Conversation != "" {
		t.Errorf("another session's message took it: %+v, %v", got, err)
	}
}

// endless is a file that never ends.
type endless struct{ read *int64 }

func (e endless) Read(p []byte) (int, error) {
	*e.read += int64(len(p))
	return len(p), nil
}
func (endless) Close() error { return nil }

// A file beyond a limit is refused with an explanation, read no further than the limit, and leaves nothing
// on the disk.
func TestFilesAreBounded(t *testing.T) {
	s := storetest.New(t)
	in := incoming(t, s, kitchen, 1, "film.mp4", nil)
	var read int64
	in.Open = func(context.Context) (io.ReadCloser, error) { return endless{&read}, nil }
	check := func(want string) {
		t.Helper()
		_, err := New(s).Keep(t.Context(), in, limits)
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Words, want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	check("it has more than 3.0 MiB, the most of a file that is kept")
	if read > limits.MaxFile+1<<20 {
		t.Errorf("%d bytes were read", read)
	}
	in.Attachment.Size = 2 << 30
	read = 0
	check("it has 2.0 GiB, and at most 3.0 MiB of a file are kept")
	if read != 0 {
		t.Errorf("%d bytes were read of a file that is known to be too large", read)
	}
	if n := foldersFiles(t, s); n != 0 {
		t.Errorf("%d files are left", n)
	}

	mustKeep(t, s, incoming(t, s, kitchen, 2, "a", randomBytes(3<<20)))
	in = incoming(t, s, kitchen, 3, "b", randomBytes(3<<20))
	check("the files of this chat have 3.0 MiB, and at most 5.0 MiB are kept")
	mustKeep(t, s, incoming(t, s, "web:cellar", 4, "c", randomBytes(3<<20)))
	in = incoming(t, s, "web:attic", 5, "d", randomBytes(3<<20))
	check("the files of all chats have 6.0 MiB, and at most 8.0 MiB are kept")
}

// broken fails after some bytes.
func broken(data []byte) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(data), failing{})), nil
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the connection failed") }

// Nothing is kept of a download that breaks off or meets a full disk.
func TestInterruptedDownloadIsNotKept(t *testing.T) {
	s := storetest.New(t)
	in := incoming(t, s, kitchen, 1, "a.bin", nil)
	in.Open = broken(randomBytes(5000))
	if _, err := New(s).Keep(t.Context(), in, limits); err == nil || err.Error() != "the connection failed" {
		t.Errorf("got %v", err)
	}
	if n := storetest.Count(t, s, `SELECT (SELECT count(*) FROM blobs) + (SELECT count(*) FROM files)`); int(n)+foldersFiles(t, s) != 0 {
		t.Errorf("%d rows, %d files", n, foldersFiles(t, s))
	}
	repair := storetest.FailInserts(t, s, "blob_pieces", "true")
	in.Open = opened(randomBytes(500), nil)
	var stored *StoreError
	if _, err := New(s).Keep(t.Context(), in, limits); !errors.As(err, &stored) || err.Error() != "the gateway could not store it" {
		t.Errorf("on a full disk: %v", err)
	}
	repair()
	if kept := mustKeep(t, s, in); len(bytesOf(t, s, kept)) != 500 {
		t.Error("the next attempt did not store it")
	}
}

// Unfinished files of dead processes are removed, those of running processes are not.
func TestLeftoversAreRemoved(t *testing.T) {
	storetest.NeedsSQLite(t)
	s, clock, clean := aged(t)
	kept := mustKeep(t, s, incoming(t, s, kitchen, 1, "a.bin", randomBytes(5000)))
	dead := blobs.Folder(s.Path()) + "/dead.unfinished"
	if err := os.WriteFile(dead, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	writing := blobs.NewDraft(s.Path(), 0)
	if _, err := writing.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	defer writing.Close(false)
	clock.Time = time.Now().Add(time.Minute)
	clean()
	if n := foldersFiles(t, s); n != 3 {
		t.Errorf("fresh files were removed: %d are left", n)
	}
	clock.Pass(2 * time.Hour)
	clean()
	if n := foldersFiles(t, s); n != 2 {
		t.Errorf("%d files are left", n)
	}
	if len(bytesOf(t, s, kept)) != 5000 {
		t.Error("a kept file was removed")
	}
}

// A large file that is missing in the folder is restored when the same file is sent again.
func TestLostFileIsRestoredFromItsCopy(t *testing.T) {
	storetest.NeedsSQLite(t)
	s := storetest.New(t)
	data := randomBytes(5000)
	kept := mustKeep(t, s, incoming(t, s, kitchen, 1, "a.bin", data))
	if err := os.RemoveAll(blobs.Folder(s.Path())); err != nil { // not all of the disk came back
		t.Fatal(err)
	}
	if _, err := New(s).Open(t.Context(), kept); !errors.Is(err, blobs.ErrMissing) {
		t.Errorf("a file that is gone: %v", err)
	}
	mustKeep(t, s, incoming(t, s, kitchen, 2, "b.bin", data))
	again, err := New(s).File(t.Context(), kitchen, kept.ID)
	if err != nil || !bytes.Equal(bytesOf(t, s, again), data) {
		t.Errorf("it is not restored: %v", err)
	}
}
