package maintenance

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/conversation/files"
	"parley/conversation/internal/blobs"
	"parley/conversation/media"
	"parley/conversation/storetest"
)

// withFiles makes a database with a small and a large file in one session, and returns
// their bytes.
func withFiles(t *testing.T, path string) (contents [][]byte) {
	t.Helper()
	s := storetest.Open(t, path)
	limits := files.DefaultLimits()
	limits.Inline = 1 << 10
	for id, size := range []int{500, 3 << 20} {
		in := storetest.Say(storetest.Chat, id, "look")
		in.Attachments = []media.Attachment{{Name: "a.bin", Ref: "there"}}
		storetest.Accept(t, s, in)
		data := make([]byte, size)
		rand.Read(data)
		turn := storetest.Begin(t, s, storetest.Chat, 1000)
		kept, err := files.New(s).Keep(t.Context(), files.Incoming{Session: storetest.Chat, Inbound: turn.Waiting[0].ID, Attachment: in.Attachments[0],
			Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}, limits)
		if err != nil {
			t.Fatal(err)
		}
		run := storetest.Answered(storetest.Chat, turn, "Seen.")
		run.Messages[0].Files = []media.File{{ID: kept.ID, Name: "a.bin"}}
		storetest.Commit(t, s, run)
		contents = append(contents, data)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return contents
}

// readFiles returns the bytes of the files of a database, the oldest first.
func readFiles(t *testing.T, path string) (contents [][]byte) {
	t.Helper()
	s := storetest.Open(t, path)
	defer s.Close()
	list, err := files.New(s).OfSession(t.Context(), storetest.Chat, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		reader, err := files.New(s).Open(t.Context(), list[len(list)-1-i])
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader.Whole())
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, data)
		reader.Close()
	}
	return contents
}

func equal(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, []byte("|")), bytes.Join(b, []byte("|")))
}

// A backup is one file that contains large files, too. A restore sets the earlier database aside together
// with its large files.
func TestBackupAndRestoreHoldTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	database, target := filepath.Join(dir, "conversations.db"), filepath.Join(t.TempDir(), "copy.db")
	want := withFiles(t, database)
	c, err := Backup(t.Context(), database, target, BackupOptions{})
	if err != nil || c.Files != 2 || c.LostFiles != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	if v, err := Verify(t.Context(), target, nil); err != nil || len(v.Findings) != 0 {
		t.Errorf("the copy: %+v, %v", v.Findings, err)
	}
	r, err := Restore(t.Context(), target, database, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !equal(readFiles(t, database), want) {
		t.Error("the restored files differ")
	}
	var aside string
	for _, path := range r.SetAside {
		if strings.HasSuffix(path, ".files") {
			aside = strings.TrimSuffix(path, ".files")
		}
	}
	if aside == "" || !equal(readFiles(t, aside), want) {
		t.Errorf("the files of the database before were not kept with it: %v", r.SetAside)
	}
	again, err := Restore(t.Context(), aside, database, nil)
	if err != nil || again.Files != 2 || !equal(readFiles(t, database), want) {
		t.Errorf("putting it back: %+v, %v", again, err)
	}
}

// Large files that are missing or changed are named, and the others are copied all the same.
func TestVerifyNamesDamagedFiles(t *testing.T) {
	t.Parallel()
	for want, damage := range map[string]func(path string) error{
		"is missing in the folder":          os.Remove,
		"does not have as many bytes":       func(path string) error { return os.Truncate(path, 100) },
		"its bytes are not what they were.": func(path string) error { return os.WriteFile(path, make([]byte, 3<<20), 0o600) },
	} {
		database := filepath.Join(t.TempDir(), "conversations.db")
		withFiles(t, database)
		folder := blobs.Folder(database)
		if err := damage(filepath.Join(folder, names(t, folder)[0])); err != nil {
			t.Fatal(err)
		}
		v, err := Verify(t.Context(), database, nil)
		if err != nil || len(v.Findings) != 1 || !v.Findings[0].Lost || !strings.Contains(v.Findings[0].Text, want) || !strings.Contains(v.Findings[0].Text, `telegram:chat:42: the file "a.bin"`) {
			t.Errorf("%s: %+v, %v", want, v.Findings, err)
		}
		c, err := Backup(t.Context(), database, filepath.Join(t.TempDir(), "copy.db"), BackupOptions{})
		if err != nil || c.Files != 2 || c.LostFiles != 1 {
			t.Errorf("%s: the backup says %+v, %v", want, c, err)
		}
	}
	database := filepath.Join(t.TempDir(), "conversations.db")
	withFiles(t, database)
	s := storetest.Open(t, database)
	storetest.Exec(t, s, `UPDATE blob_pieces SET data = zeroblob(500)`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if v, err := Verify(t.Context(), database, nil); err != nil || len(v.Findings) != 1 || !strings.Contains(v.Findings[0].Text, "its bytes are not what they were") {
		t.Errorf("in the database: %+v, %v", v.Findings, err)
	}
}

// A repaired database has its large files.
func TestRepairKeepsTheFiles(t *testing.T) {
	t.Parallel()
	database, target := filepath.Join(t.TempDir(), "conversations.db"), filepath.Join(t.TempDir(), "repaired.db")
	want := withFiles(t, database)
	r, err := Repair(t.Context(), database, target, RepairOptions{})
	if err != nil || r.Files != 2 || len(r.Losses) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if !equal(readFiles(t, target), want) {
		t.Error("the saved files differ")
	}
}
