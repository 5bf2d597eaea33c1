package files

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/uploads"
	"parley/conversation/retention"
	"parley/conversation/storetest"
)

const page = conversation.Key("web:kitchen")

// ask is a message whose reply is kept.
func ask(key conversation.Key, id int, text string) conversation.Inbound {
	in := storetest.Say(key, id, text)
	in.Keep = true
	return in
}

// replied ends a turn of which only the first message is taken.
func replied(turn conversation.Snapshot, kind conversation.Kind, status conversation.Status, text string, messages ...conversation.Message) conversation.Run {
	return conversation.Run{Key: turn.Waiting[0].Key, Kind: kind, Status: status, Took: turn.Waiting[:1], Conversation: turn.Conversation,
		Messages: messages, Replies: []conversation.Delivery{{Text: text, Keep: turn.Waiting[0].Keep}}}
}

const day = 24 * time.Hour

// aged opens a store whose time is that of the clock, with what cleans it up.
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
	ref, err := New(s).Put(t.Context(), Upload{Key: page, Name: "bridge.png", MediaType: "image/png", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return ref, data
}

// A picture that somebody pastes reaches the run whole, also after a restart, and
// its copy leaves the disk with the run.
func TestAnUploadLivesUntilItsRun(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, uploads.Piece, 5*uploads.Piece + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := storetest.New(t)
			ref, data := mustUpload(t, s, size)
			in := ask(page, 1, "What is this?")
			in.Attachments = []conversation.Attachment{{Name: "bridge.png", MediaType: "image/png", Size: int64(size), Ref: ref}}
			storetest.Accept(t, s, in)
			s = storetest.Open(t, s.Path())
			turn := storetest.Begin(t, s, page, 1000)
			u, err := New(s).Get(t.Context(), turn.Waiting[0].Attachments[0].Ref)
			if err != nil || u.Key != page || u.Name != "bridge.png" || u.MediaType != "image/png" || !bytes.Equal(u.Data, data) {
				t.Fatalf("%d bytes of %s %s %s, %v", len(u.Data), u.Key, u.Name, u.MediaType, err)
			}
			storetest.Commit(t, s, replied(turn, conversation.KindAgent, conversation.StatusDone, "A bridge.", conversation.Message{Role: conversation.RoleUser, Content: in.Text, SourceID: in.SourceID,
				Images: []conversation.Image{{Name: u.Name, MediaType: u.MediaType, Size: size, Data: u.Data}}}))
			if _, err := New(s).Get(t.Context(), ref); !errors.Is(err, ErrNotFound) {
				t.Errorf("after its run: %v", err)
			}
			image, err := s.ImageAt(t.Context(), turn.Conversation.ID, 1, 0)
			if err != nil || image.Name != "bridge.png" || !bytes.Equal(image.Data, data) {
				t.Errorf("the page shows %d bytes of %s, %v", len(image.Data), image.Name, err)
			}
			storetest.Chores(t, s)
			if n := storetest.Count(t, s, `SELECT count(*) FROM upload_pieces`) + storetest.Count(t, s, `SELECT count(*) FROM uploads`); n != 0 {
				t.Errorf("%d rows are left", n)
			}
		})
	}
}

// What nobody sends off is deleted after a day; what waits for its run stays,
// however long that takes.
func TestUploadsWithoutAMessageArePruned(t *testing.T) {
	t.Parallel()
	s, clock, clean := aged(t)
	forgotten, _ := mustUpload(t, s, 10)
	waits, _ := mustUpload(t, s, 10)
	withdrawn, _ := mustUpload(t, s, 10)
	for id, ref := range []string{waits, withdrawn} {
		in := ask(page, id, "look")
		in.Attachments = []conversation.Attachment{{Name: "bridge.png", Ref: ref}}
		storetest.Accept(t, s, in)
	}
	if _, err := s.Withdraw(t.Context(), conversation.Account{Channel: "web"}, storetest.Say(page, 1, "").SourceID); err != nil {
		t.Fatal(err)
	}
	clock.Pass(day / 2)
	clean()
	if _, err := New(s).Get(t.Context(), forgotten); err != nil {
		t.Errorf("after half a day: %v", err)
	}
	clock.Pass(day)
	fresh, _ := mustUpload(t, s, 10)
	clean()
	for name, ref := range map[string]string{"forgotten": forgotten, "withdrawn": withdrawn} {
		if _, err := New(s).Get(t.Context(), ref); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, ref := range map[string]string{"waits": waits, "fresh": fresh} {
		if _, err := New(s).Get(t.Context(), ref); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	storetest.Chores(t, s)
	if n := storetest.Count(t, s, `SELECT count(*) FROM upload_pieces`); n != 2 {
		t.Errorf("%d pieces are left", n)
	}
}

// Nobody reaches another session's file by naming it in a message of one's own,
// nor fills the disk at once.
func TestUploadsAreBounded(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, size := range []int{0, MaxSize + 1} {
		if _, err := New(s).Put(t.Context(), Upload{Key: page, Data: make([]byte, size)}); !errors.Is(err, conversation.ErrInvalid) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	ref, _ := mustUpload(t, s, 10)
	in := ask("web:cellar", 1, "mine")
	in.Attachments = []conversation.Attachment{{Name: "bridge.png", Ref: ref}}
	storetest.Accept(t, s, in)
	storetest.Commit(t, s, replied(storetest.Begin(t, s, "web:cellar", 1000), conversation.KindAgent, conversation.StatusDone, "answer"))
	if u, err := New(s).Get(t.Context(), ref); err != nil || u.Key != page {
		t.Errorf("another session's run has taken it: %v", err)
	}
	if _, err := New(s).Get(t.Context(), "guessed"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a guess gave %v", err)
	}
	if _, err := s.ImageAt(t.Context(), "unknown", 1, 0); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("no picture: %v", err)
	}
}

// A gateway that dies in the middle of an upload leaves nothing that could be
// sent off half.
func TestHalfAnUploadIsNone(t *testing.T) {
	t.Parallel()
	s, clock, clean := aged(t)
	storetest.Exec(t, s, `CREATE TRIGGER full BEFORE INSERT ON upload_pieces WHEN new.n = 2
		BEGIN SELECT RAISE(ABORT, 'disk full'); END`)
	if _, err := New(s).Put(t.Context(), Upload{Key: page, Data: make([]byte, 3*uploads.Piece)}); err == nil {
		t.Fatal("it did not fail")
	}
	var ref string
	if err := s.DB().QueryRowContext(t.Context(), `SELECT ref FROM uploads`).Scan(&ref); err != nil {
		t.Fatal(err)
	}
	if _, err := New(s).Get(t.Context(), ref); !errors.Is(err, ErrNotFound) {
		t.Errorf("half a file: %v", err)
	}
	clock.Pass(2 * day)
	clean()
	storetest.Chores(t, s)
	if n := storetest.Count(t, s, `SELECT count(*) FROM upload_pieces`); n != 0 {
		t.Errorf("%d pieces are left", n)
	}
}
