package files

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/uploads"
	"parley/conversation/media"
	"parley/conversation/retention"
	"parley/conversation/storetest"
)

const kitchen = conversation.Key("web:kitchen")

const day = 24 * time.Hour

// aged opens a store with a clock that the test sets, and returns a function that cleans the store up.
func aged(t *testing.T) (s *conversation.Store, clock *storetest.Clock, clean func()) {
	t.Helper()
	s, clock = storetest.NewAged(t)
	kept := retention.New(s)
	return s, clock, func() {
		t.Helper()
		if _, err := kept.Clean(t.Context(), retention.Rules{}, func(retention.Outdated) {}); err != nil {
			t.Fatal(err)
		}
	}
}

func mustUpload(t testing.TB, s *conversation.Store, size int) (ref string, data []byte) {
	t.Helper()
	data = make([]byte, size)
	rand.Read(data)
	ref, stored, err := New(s).Put(t.Context(), Upload{Key: kitchen, Name: "bridge.png", MediaType: "image/png", Body: bytes.NewReader(data), Most: int64(size)})
	if err != nil || stored != int64(size) {
		t.Fatal(stored, err)
	}
	return ref, data
}

func readUpload(t testing.TB, s *conversation.Store, ref string) ([]byte, error) {
	t.Helper()
	u, err := New(s).OpenUpload(t.Context(), ref)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	return io.ReadAll(u)
}

// An uploaded picture reaches its run completely, also after a restart. The upload is deleted with the
// run's commit.
func TestUploadIsKeptUntilItsRun(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, uploads.Piece, 5*uploads.Piece + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := storetest.New(t)
			ref, data := mustUpload(t, s, size)
			in := storetest.Ask(kitchen, 1, "What is this?")
			in.Attachments = []media.Attachment{{Name: "bridge.png", MediaType: "image/png", Size: int64(size), Ref: ref}}
			storetest.Accept(t, s, in)
			s = storetest.Open(t, s.Path())
			turn := storetest.Begin(t, s, kitchen, 1000)
			if got, err := readUpload(t, s, turn.Waiting[0].Attachments[0].Ref); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			storetest.Commit(t, s, storetest.Replied(turn, conversation.KindAgent, conversation.StatusDone, "A bridge.", conversation.Message{Role: conversation.RoleUser, Content: in.Text, SourceID: in.SourceID,
				Images: []media.Image{{Name: "bridge.png", MediaType: "image/png", Size: size, Data: data}}}))
			if _, err := readUpload(t, s, ref); !errors.Is(err, ErrNotFound) {
				t.Errorf("after its run: %v", err)
			}
			image, err := New(s).ImageAt(t.Context(), turn.Conversation.ID, 1, 0)
			if err != nil || image.Name != "bridge.png" || !bytes.Equal(image.Data, data) {
				t.Errorf("the page shows %d bytes of %s, %v", len(image.Data), image.Name, err)
			}
			storetest.Exec(t, s, `UPDATE messages SET parts = replace(parts, 'image/png', 'text/html')`)
			if _, err := New(s).ImageAt(t.Context(), turn.Conversation.ID, 1, 0); !errors.Is(err, conversation.ErrNotFound) {
				t.Errorf("a page instead of a picture: %v", err)
			}
			storetest.Chores(t, s)
			if n := storetest.Count(t, s, `SELECT count(*) FROM upload_pieces`) + storetest.Count(t, s, `SELECT count(*) FROM uploads`); n != 0 {
				t.Errorf("%d rows are left", n)
			}
		})
	}
}

// An upload without a message is deleted after a day. An upload that waits for its run is kept, however
// long that takes.
func TestUploadsWithoutAMessageArePruned(t *testing.T) {
	t.Parallel()
	s, clock, clean := aged(t)
	forgotten, _ := mustUpload(t, s, 10)
	waits, _ := mustUpload(t, s, 10)
	withdrawn, _ := mustUpload(t, s, 10)
	for id, ref := range []string{waits, withdrawn} {
		in := storetest.Ask(kitchen, id, "look")
		in.Attachments = []media.Attachment{{Name: "bridge.png", Ref: ref}}
		storetest.Accept(t, s, in)
	}
	if _, err := s.Withdraw(t.Context(), conversation.Account{Channel: "web"}, storetest.Say(kitchen, 1, "").SourceID); err != nil {
		t.Fatal(err)
	}
	clock.Pass(day / 2)
	clean()
	if _, err := readUpload(t, s, forgotten); err != nil {
		t.Errorf("after half a day: %v", err)
	}
	clock.Pass(day)
	fresh, _ := mustUpload(t, s, 10)
	clean()
	for name, ref := range map[string]string{"forgotten": forgotten, "withdrawn": withdrawn} {
		if _, err := readUpload(t, s, ref); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, ref := range map[string]string{"waits": waits, "fresh": fresh} {
		if _, err := readUpload(t, s, ref); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	storetest.Chores(t, s)
	if n := storetest.Count(t, s, `SELECT count(*) FROM upload_pieces`); n != 2 {
		t.Errorf("%d pieces are left", n)
	}
}

// A message can't name another session's upload, and the uploads of a session are limited.
func TestUploadsAreBounded(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for size, want := range map[int]error{0: conversation.ErrInvalid, 2*uploads.Piece + 1: ErrTooLarge} {
		if _, _, err := New(s).Put(t.Context(), Upload{Key: kitchen, Body: bytes.NewReader(make([]byte, size)), Most: 2 * uploads.Piece}); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	storetest.Chores(t, s)
	if n := storetest.Count(t, s, `SELECT count(*) FROM upload_pieces`); n != 0 {
		t.Errorf("%d pieces of what was refused are left", n)
	}
	ref, _ := mustUpload(t, s, 10)
	in := storetest.Ask("web:cellar", 1, "mine")
	in.Attachments = []media.Attachment{{Name: "bridge.png", Ref: ref}}
	storetest.Accept(t, s, in)
	storetest.Commit(t, s, storetest.Replied(storetest.Begin(t, s, "web:cellar", 1000), conversation.KindAgent, conversation.StatusDone, "answer"))
	if _, err := readUpload(t, s, ref); err != nil {
		t.Errorf("another session's run has taken it: %v", err)
	}
	if _, err := readUpload(t, s, "guessed"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a guess gave %v", err)
	}
	if _, err := New(s).ImageAt(t.Context(), "unknown", 1, 0); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("no picture: %v", err)
	}
}

// An upload that was interrupted can't be sent with a message.
func TestInterruptedUploadCannotBeSent(t *testing.T) {
	t.Parallel()
	s, clock, clean := aged(t)
	storetest.FailInserts(t, s, "upload_pieces", "NEW.n = 2")
	if _, _, err := New(s).Put(t.Context(), Upload{Key: kitchen, Body: bytes.NewReader(make([]byte, 3*uploads.Piece)), Most: 10 * uploads.Piece}); err == nil {
		t.Fatal("it did not fail")
	}
	var ref string
	if err := s.DB().QueryRowContext(t.Context(), `SELECT ref FROM uploads`).Scan(&ref); err != nil {
		t.Fatal(err)
	}
	if _, err := readUpload(t, s, ref); !errors.Is(err, ErrNotFound) {
		t.Errorf("half a file: %v", err)
	}
	clock.Pass(2 * day)
	clean()
	storetest.Chores(t, s)
	if n := storetest.Count(t, s, `SELECT count(*) FROM upload_pieces`); n != 0 {
		t.Errorf("%d pieces are left", n)
	}
}
