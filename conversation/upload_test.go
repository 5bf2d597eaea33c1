package conversation

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
)

func mustUpload(t testing.TB, s *Store, size int) (ref string, data []byte) {
	t.Helper()
	data = make([]byte, size)
	rand.Read(data)
	ref, err := s.Upload(t.Context(), Upload{Key: page, Name: "bridge.png", MediaType: "image/png", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return ref, data
}

// A picture that somebody pastes reaches the run whole, also after a restart, and
// its copy leaves the disk with the run.
func TestAnUploadLivesUntilItsRun(t *testing.T) {
	for _, size := range []int{1, uploadPiece, 5*uploadPiece + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := mustOpen(t)
			ref, data := mustUpload(t, s, size)
			in := ask(page, 1, "What is this?")
			in.Attachments = []Attachment{{Name: "bridge.png", MediaType: "image/png", Size: int64(size), Ref: ref}}
			mustAccept(t, s, in)
			s = mustOpenAt(t, s.Path())
			turn := mustBegin(t, s, page, 1000)
			u, err := s.Uploaded(t.Context(), turn.Waiting[0].Attachments[0].Ref)
			if err != nil || u.Key != page || u.Name != "bridge.png" || u.MediaType != "image/png" || !bytes.Equal(u.Data, data) {
				t.Fatalf("%d bytes of %s %s %s, %v", len(u.Data), u.Key, u.Name, u.MediaType, err)
			}
			mustCommit(t, s, replied(turn, KindAgent, StatusDone, "A bridge.", Message{Role: RoleUser, Content: in.Text, SourceID: in.SourceID,
				Images: []Image{{Name: u.Name, MediaType: u.MediaType, Size: size, Data: u.Data}}}))
			if _, err := s.Uploaded(t.Context(), ref); !errors.Is(err, ErrNoUpload) {
				t.Errorf("after its run: %v", err)
			}
			image, err := s.ImageAt(t.Context(), turn.Conversation.ID, 1, 0)
			if err != nil || image.Name != "bridge.png" || !bytes.Equal(image.Data, data) {
				t.Errorf("the page shows %d bytes of %s, %v", len(image.Data), image.Name, err)
			}
			chores(t, s)
			if n := count(t, s, "upload_pieces") + count(t, s, "uploads"); n != 0 {
				t.Errorf("%d rows are left", n)
			}
		})
	}
}

// What nobody sends off is deleted after a day; what waits for its run stays,
// however long that takes.
func TestUploadsWithoutAMessageArePruned(t *testing.T) {
	s, clock := mustOpenAged(t)
	forgotten, _ := mustUpload(t, s, 10)
	waits, _ := mustUpload(t, s, 10)
	withdrawn, _ := mustUpload(t, s, 10)
	for id, ref := range []string{waits, withdrawn} {
		in := ask(page, id, "look")
		in.Attachments = []Attachment{{Name: "bridge.png", Ref: ref}}
		mustAccept(t, s, in)
	}
	if _, err := s.Withdraw(t.Context(), Account{Channel: "web"}, say(page, 1, "").SourceID); err != nil {
		t.Fatal(err)
	}
	clock.pass(day / 2)
	mustClean(t, s, 0, 0)
	if _, err := s.Uploaded(t.Context(), forgotten); err != nil {
		t.Errorf("after half a day: %v", err)
	}
	clock.pass(day)
	fresh, _ := mustUpload(t, s, 10)
	mustClean(t, s, 0, 0)
	for name, ref := range map[string]string{"forgotten": forgotten, "withdrawn": withdrawn} {
		if _, err := s.Uploaded(t.Context(), ref); !errors.Is(err, ErrNoUpload) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, ref := range map[string]string{"waits": waits, "fresh": fresh} {
		if _, err := s.Uploaded(t.Context(), ref); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	chores(t, s)
	if n := count(t, s, "upload_pieces"); n != 2 {
		t.Errorf("%d pieces are left", n)
	}
}

// Nobody reaches another session's file by naming it in a message of one's own,
// nor fills the disk at once.
func TestUploadsAreBounded(t *testing.T) {
	s := mustOpen(t)
	for _, size := range []int{0, MaxUpload + 1} {
		if _, err := s.Upload(t.Context(), Upload{Key: page, Data: make([]byte, size)}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	ref, _ := mustUpload(t, s, 10)
	in := ask("web:cellar", 1, "mine")
	in.Attachments = []Attachment{{Name: "bridge.png", Ref: ref}}
	mustAccept(t, s, in)
	mustCommit(t, s, replied(mustBegin(t, s, "web:cellar", 1000), KindAgent, StatusDone, "answer"))
	if u, err := s.Uploaded(t.Context(), ref); err != nil || u.Key != page {
		t.Errorf("another session's run has taken it: %v", err)
	}
	if _, err := s.Uploaded(t.Context(), "guessed"); !errors.Is(err, ErrNoUpload) {
		t.Errorf("a guess gave %v", err)
	}
	if _, err := s.ImageAt(t.Context(), "unknown", 1, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("no picture: %v", err)
	}
}

// A gateway that dies in the middle of an upload leaves nothing that could be
// sent off half.
func TestHalfAnUploadIsNone(t *testing.T) {
	s, clock := mustOpenAged(t)
	if err := execute(s, `CREATE TRIGGER full BEFORE INSERT ON upload_pieces WHEN new.n = 2
		BEGIN SELECT RAISE(ABORT, 'disk full'); END`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Upload(t.Context(), Upload{Key: page, Data: make([]byte, 3*uploadPiece)}); err == nil {
		t.Fatal("it did not fail")
	}
	var ref string
	if err := s.db.QueryRowContext(t.Context(), `SELECT ref FROM uploads`).Scan(&ref); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Uploaded(t.Context(), ref); !errors.Is(err, ErrNoUpload) {
		t.Errorf("half a file: %v", err)
	}
	clock.pass(2 * day)
	mustClean(t, s, 0, 0)
	chores(t, s)
	if n := count(t, s, "upload_pieces"); n != 0 {
		t.Errorf("%d pieces are left", n)
	}
}
