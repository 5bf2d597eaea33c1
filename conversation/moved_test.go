package conversation_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/storetest"
	"parley/internal/waittest"
)

// movableDatabase is a database with one turn, whose files the tests move, replace or delete.
type movableDatabase struct {
	*conversation.Store
	t    *testing.T
	path string
	log  *waittest.Buffer
	said int
}

func newMovableDatabase(t *testing.T) *movableDatabase {
	t.Helper()
	return newMovableDatabaseAt(t, filepath.Join(t.TempDir(), "test.db"))
}

func newMovableDatabaseAt(t *testing.T, path string) *movableDatabase {
	t.Helper()
	p := &movableDatabase{t: t, path: path, log: &waittest.Buffer{}}
	p.Store = p.open(p.path)
	t.Cleanup(func() { p.Close() })
	p.accept()
	return p
}

func (p *movableDatabase) open(path string) *conversation.Store {
	p.t.Helper()
	s, err := conversation.Open(p.t.Context(), conversation.Config{Path: path, Log: slog.New(slog.NewTextHandler(p.log, nil))})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *movableDatabase) tryAccept() error {
	_, err := p.Accept(p.t.Context(), nil, storetest.Say(storetest.Chat, p.said+1, "hello"))
	if err == nil {
		p.said++
	}
	return err
}

func (p *movableDatabase) accept() {
	p.t.Helper()
	if err := p.tryAccept(); err != nil {
		p.t.Fatal(err)
	}
}

// expectRefused checks that nothing is stored, that the error tells the operator what to do, and that it is
// logged once.
func (p *movableDatabase) expectRefused(words ...string) {
	p.t.Helper()
	for range 3 {
		err := p.tryAccept()
		if !errors.Is(err, conversation.ErrMoved) {
			p.t.Fatalf("a message was accepted although the database was taken away: %v", err)
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				p.t.Errorf("the error does not say %q: %v", word, err)
			}
		}
	}
	if _, err := p.Begin(p.t.Context(), storetest.Chat, 1000); !errors.Is(err, conversation.ErrMoved) {
		p.t.Errorf("a run begins although the database was taken away: %v", err)
	}
	if _, err := p.Accept(p.t.Context(), []conversation.Cursor{{Name: "probe"}}); !errors.Is(err, conversation.ErrMoved) {
		p.t.Errorf("the probe gave %v", err)
	}
	if p.DB().Moved() == nil {
		p.t.Error("the store does not report that its database was taken away")
	}
	if n := strings.Count(p.log.String(), "database taken away"); n != 1 {
		p.t.Errorf("the log tells %d times:\n%s", n, p.log)
	}
}

// expectWhole opens the database at a path, which must have every message that was acknowledged.
func (p *movableDatabase) expectWhole(path string) {
	p.t.Helper()
	s := p.open(path)
	defer s.Close()
	held := map[string]bool{}
	for _, in := range storetest.Begin(p.t, s, storetest.Chat, 1000).Waiting {
		held[in.SourceID] = true
	}
	for id := range p.said {
		if !held[storetest.Say(storetest.Chat, id+1, "").SourceID] {
			p.t.Errorf("%s does not hold message %d of the %d that were acknowledged", path, id+1, p.said)
		}
	}
	var ok string
	if err := s.DB().QueryRowContext(p.t.Context(), "PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
		p.t.Errorf("integrity_check of %s: %s, %v", path, ok, err)
	}
}

func (p *movableDatabase) rename(from, to string) {
	p.t.Helper()
	if err := os.Rename(from, to); err != nil {
		p.t.Fatal(err)
	}
}

func (p *movableDatabase) remove(suffixes ...string) {
	p.t.Helper()
	for _, suffix := range suffixes {
		if err := os.Remove(p.path + suffix); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *movableDatabase) copyFile(from, to string) {
	p.t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestNothingIsAcknowledgedAfterTheDatabaseWasMoved(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	away := p.path + ".away"
	p.rename(p.path, away)
	p.expectRefused(p.path, away, "Move it back")
	p.rename(away, p.path)
	p.accept()
	if p.DB().Moved() != nil || !strings.Contains(p.log.String(), "back in its place") {
		t.Errorf("the return was not noticed: %v\n%s", p.DB().Moved(), p.log)
	}
	p.Close()
	p.expectWhole(p.path)
}

// A database that was moved without its log has all messages.
func TestMovedDatabaseIsWholeWithoutItsLog(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	away := filepath.Join(t.TempDir(), "away.db")
	p.rename(p.path, away)
	p.expectRefused()
	p.Close()
	p.expectWhole(away)
}

func TestDatabaseMovedWithItsFolderGoesOnWhenItIsBack(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	p := newMovableDatabaseAt(t, filepath.Join(folder, "test.db"))
	p.rename(folder, folder+".away")
	p.expectRefused(p.path, folder+".away")
	p.rename(folder+".away", folder)
	p.accept()
	p.Close()
	p.expectWhole(p.path)
}

// The gateway saves a copy of a deleted database, which otherwise is lost when the gateway ends.
func TestDeletedDatabaseIsSavedAsACopy(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	p.accept()
	p.remove("", "-wal", "-shm")
	p.expectRefused("All that it held was saved as " + p.path + ".saved-")
	saved, err := filepath.Glob(p.path + ".saved-*")
	if err != nil || len(saved) != 1 {
		t.Fatalf("the copies are %q, %v", saved, err)
	}
	if info, err := os.Stat(saved[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the copy: %v, %v", info.Mode(), err)
	}
	p.Close()
	p.expectWhole(saved[0])
}

func TestDeletedDatabaseStoresNothing(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	p.remove("")
	p.expectRefused(p.path, "was deleted", "gateway restore")
	p.copyFile(os.DevNull, p.path)
	if err := p.tryAccept(); !errors.Is(err, conversation.ErrMoved) {
		t.Errorf("a message was accepted into a file that is deleted: %v", err)
	}
}

func TestReplacedDatabaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	other := newMovableDatabase(t)
	other.Close()
	away := p.path + ".away"
	p.rename(p.path, away)
	p.copyFile(other.path, p.path)
	p.expectRefused(p.path, away, "start it again")
	p.Close()
	p.expectWhole(away)
	p.expectWhole(p.path) // the other file's messages are there, and this database's log was not replayed into it
}

func TestReplacedDatabaseGoesOnWhenTheFirstIsBack(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	away := p.path + ".away"
	p.rename(p.path, away)
	p.copyFile(away, p.path)
	p.expectRefused(p.path)
	p.rename(away, p.path)
	p.accept()
	p.Close()
	p.expectWhole(p.path)
}

// A database that another program has changed while it was away is refused: the open connections do not see
// the changes, and would damage them.
func TestDatabaseThatWasWrittenWhileItWasAwayIsRefused(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	away := filepath.Join(t.TempDir(), "away.db")
	p.rename(p.path, away)
	p.expectRefused()
	if err := os.Chtimes(away, time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	p.rename(away, p.path)
	if err := p.tryAccept(); !errors.Is(err, conversation.ErrMoved) || !strings.Contains(err.Error(), "start it again") {
		t.Errorf("a message was accepted into a file that somebody else has written: %v", err)
	}
	p.Close()
	p.expectWhole(p.path)
}

func TestDeletedLogIsReplacedWithoutLoss(t *testing.T) {
	t.Parallel()
	for what, suffixes := range map[string][]string{
		"the log": {"-wal"}, "its index": {"-shm"}, "the locks": {".lock"}, "all of them": {"-wal", "-shm", ".lock"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newMovableDatabase(t)
			release, err := p.Lock(storetest.Chat)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			p.remove(suffixes...)
			p.accept()
			p.accept()
			if waiting := storetest.Begin(t, p.Store, storetest.Chat, 1000).Waiting; len(waiting) != p.said {
				t.Errorf("%d messages wait, want %d", len(waiting), p.said)
			}
			if _, err := p.Active(t.Context(), storetest.Chat); err != nil {
				t.Errorf("the database can't be read: %v", err)
			}
			if got := p.DB().Moved(); got != nil {
				t.Error(got)
			}
			if !strings.Contains(p.log.String(), "made anew") {
				t.Errorf("the log does not say so:\n%s", p.log)
			}
			other := startOther(t, otherProcess{database: p.path, lock: string(storetest.Chat)})
			other.expect("in use by process")
			p.crash()
			p.expectWhole(p.path)
		})
	}
}

func TestReplacedLogIsReplacedWithoutLoss(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	p.copyFile(p.path+"-wal", p.path+"-wal"+".old")
	p.accept()
	p.rename(p.path+"-wal"+".old", p.path+"-wal")
	p.accept()
	p.crash()
	p.expectWhole(p.path)
}

// crash copies the files as a kill would leave them. The test continues with the copy.
func (p *movableDatabase) crash() {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), "test.db")
	p.copyFile(p.path, path)
	p.copyFile(p.path+"-wal", path+"-wal")
	p.path = path
}

// The old log is not replaced while another process uses it, which would go on writing to it.
func TestDeletedLogIsNotReplacedWhileAnotherProcessUsesIt(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	other := startOther(t, otherProcess{database: p.path})
	other.expect("open")
	p.remove("-wal")
	p.expectRefused(p.path+"-wal", "another process")
	other.end()
	p.accept()
	p.Close()
	p.expectWhole(p.path)
}

func TestDatabaseIsNotOpenedInPlaceOfTheOneThatRuns(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(p *movableDatabase){
		"moved":    func(*movableDatabase) {},
		"replaced": func(p *movableDatabase) { p.copyFile(p.path+".away", p.path) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newMovableDatabase(t)
			p.rename(p.path, p.path+".away")
			replace(p)
			startOther(t, otherProcess{database: p.path}).expect(conversation.ErrMoved.Error(), "another process has it open", p.path)
			p.rename(p.path+".away", p.path)
			startOther(t, otherProcess{database: p.path}).expect("open")
			p.accept()
			p.Close()
			p.expectWhole(p.path)
		})
	}
}

// A program that copies or checks the file has it open without a log, and does not keep a gateway from
// opening it.
func TestDatabaseIsOpenedWhileItsFileIsOnlyRead(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	p.Close()
	p.copyFile(p.path, p.path+".copy")
	p.rename(p.path+".copy", p.path) // another file than the one that was open last
	held, err := db.Share(p.path)
	if err != nil || !held.Alone {
		t.Fatalf("a database that nobody has open can't be read: %v", err)
	}
	startOther(t, otherProcess{database: p.path}).expect("open")
	if err := held.Close(); err != nil {
		t.Error(err)
	}
}

func TestMovedDatabaseIsNotRead(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	p.rename(p.path, p.path+".away")
	p.copyFile(p.path+".away", p.path)
	if held, err := db.Share(p.path); !errors.Is(err, conversation.ErrMoved) {
		t.Errorf("a file in the place of the one that is open was taken for it: %v, %v", held, err)
	}
}

func TestLinkThatLeadsElsewhereStoresNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(filepath.Join(dir, "real.db"), link); err != nil {
		t.Fatal(err)
	}
	p := newMovableDatabaseAt(t, link)
	p.remove("")
	if err := os.Symlink(filepath.Join(dir, "other.db"), link); err != nil {
		t.Fatal(err)
	}
	p.expectRefused(link)
	p.remove("")
	if err := os.Symlink(filepath.Join(dir, "real.db"), link); err != nil {
		t.Fatal(err)
	}
	p.accept()
}

// A write is not confirmed if the file goes away between its commit and the confirmation.
func TestWriteIsNotConfirmedWhenTheFileGoesAtItsCommit(t *testing.T) {
	t.Parallel()
	p := newMovableDatabase(t)
	err := p.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
		p.rename(p.path, p.path+".away")
		_, err := tx.ExecContext(ctx, `INSERT INTO cursors (name, value, updated_at) VALUES ('late', '1', 1)`)
		return err
	})
	if !errors.Is(err, conversation.ErrMoved) {
		t.Errorf("a write into a file that is gone was reported as stored: %v", err)
	}
	p.rename(p.path+".away", p.path)
	p.accept()
	p.Close()
	p.expectWhole(p.path)
}
