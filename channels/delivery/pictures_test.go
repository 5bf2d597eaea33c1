package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/media"
)

// drawn returns a picture of this width, which is 10 pixels high.
func drawn(t *testing.T, width int) []byte {
	t.Helper()
	var data bytes.Buffer
	if err := png.Encode(&data, image.NewGray(image.Rect(0, 0, width, 10))); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// draw commits an answer with pictures of these widths.
func (p *outboxHarness) draw(fakeChat int64, text string, widths ...int) {
	p.t.Helper()
	var pictures [][]byte
	for _, width := range widths {
		pictures = append(pictures, drawn(p.t, width))
	}
	p.show(fakeChat, text, pictures...)
}

// show commits an answer with pictures.
func (p *outboxHarness) show(fakeChat int64, text string, pictures ...[]byte) {
	p.t.Helper()
	p.server.AddChat(telegramtest.Private(telegramtest.User{ID: fakeChat, FirstName: "Ada"}))
	p.source++
	in := conversation.Inbound{Key: chatKey(fakeChat), SourceID: fmt.Sprint(p.source), Address: fmt.Sprintf(`{"chat":%d}`, fakeChat), Text: "draw", At: time.Now()}
	if _, err := p.store.Accept(p.t.Context(), nil, in); err != nil {
		p.t.Fatal(err)
	}
	turn, err := p.store.Begin(p.t.Context(), in.Key, 100)
	if err != nil {
		p.t.Fatal(err)
	}
	answer := conversation.Message{Role: conversation.RoleAssistant, Content: text, Tokens: 5}
	for n, data := range pictures {
		mediaType := http.DetectContentType(data)
		name := fmt.Sprintf("picture-%d.%s", n+1, strings.TrimPrefix(mediaType, "image/"))
		answer.Images = append(answer.Images, media.Image{Name: name, MediaType: mediaType, Size: len(data), Data: data})
	}
	_, err = p.store.Commit(p.t.Context(), conversation.Run{
		Key: in.Key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting[:1], Conversation: turn.Conversation,
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: "draw", Tokens: 5}, answer},
		Replies:  []conversation.Delivery{{Key: chatKey(fakeChat), Address: in.Address, Text: text, WithPictures: true}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// described returns what a person sees of each message in the chat.
func described(sent []telegramtest.Message) []string {
	var list []string
	for _, m := range sent {
		switch {
		case m.Document == nil:
			list = append(list, m.Text)
		case !m.Document.IsPhoto:
			list = append(list, "file "+m.Document.Name)
		case m.Document.Album != "":
			list = append(list, "photo "+m.Document.Name+" of "+m.Document.Album)
		default:
			list = append(list, "photo "+m.Document.Name)
		}
	}
	return list
}

// expect waits until all replies are sent, and compares the messages in the chat.
func (p *outboxHarness) expect(want ...string) {
	p.t.Helper()
	p.waitNothingDue()
	if diff := cmp.Diff(want, described(p.server.Sent())); diff != "" {
		p.t.Error(diff)
	}
}

// The pictures of an answer follow its text as one album, also when the chat had to wait
// between them.
func TestPicturesFollowTheirAnswerAsAnAlbum(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.draw(1, "Here they are", 10, 20, 30)
	p.server.Fail("sendMediaGroup", telegramtest.TooMany(1), 1)
	p.start()
	p.expect("Here they are", "photo picture-1.png of album-2", "photo picture-2.png of album-2", "photo picture-3.png of album-2")
	if n := p.server.Calls("sendMediaGroup"); n != 2 {
		t.Errorf("%d albums were sent", n)
	}
}

// Telegram refuses an album for one picture that it can't show as a photo. The pictures
// then come one by one, that one as a file.
func TestPicturesOfARefusedAlbumComeOneByOne(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.draw(1, "Here they are", 10, 9999, 30)
	p.start()
	p.expect("Here they are", "photo picture-1.png", "file picture-2.png", "photo picture-3.png")
	if n := p.server.Calls("sendMediaGroup"); n != 1 {
		t.Errorf("%d albums were sent", n)
	}
}

// A picture of a format or size that photos can't have is sent as a file, and splits the album.
func TestFilesSplitAnAlbum(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	large := append(drawn(t, 10), make([]byte, 10<<20)...)
	p.show(1, "", drawn(t, 10), drawn(t, 20), []byte("GIF89a moving"), large, drawn(t, 30))
	p.start()
	p.expect("photo picture-1.png of album-1", "photo picture-2.png of album-1", "file picture-3.gif", "file picture-4.png", "photo picture-5.png")
}

// In place of a picture that the chat refuses, a text says so, and the next picture follows.
func TestChatIsToldOfAPictureThatItRefuses(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.show(1, "Here they are", drawn(t, 10), []byte("GIF89a moving"), drawn(t, 20))
	p.server.Fail("sendDocument", telegramtest.Verdict{Code: 400, Description: "not enough rights to send documents to the chat"}, 1)
	p.start()
	p.expect("Here they are", "photo picture-1.png", "⚠️ The picture picture-2.gif (13 bytes) can't be sent here.", "photo picture-3.png")
}

// unreadable is a store that can't read pictures of one name.
type unreadable struct {
	*conversation.Store
	name string
}

func (u unreadable) ImageData(ctx context.Context, picture media.Image) ([]byte, error) {
	if picture.Name == u.name {
		return nil, errors.New("the file is damaged")
	}
	return u.Store.ImageData(ctx, picture)
}

// A text names a picture that can't be read, and the others are sent.
func TestChatIsToldOfAPictureThatCannotBeRead(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.draw(1, "Here they are", 10, 20, 30)
	p.startWith(unreadable{p.store, "picture-2.png"})
	p.expect("Here they are", "photo picture-1.png", "⚠️ The picture picture-2.png can't be read. The details are in the gateway's log.", "photo picture-3.png")
}

// No empty message is sent before an answer that consists of a picture alone.
func TestAnswerWithoutTextIsThePictureAlone(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.draw(1, "", 10)
	p.start()
	p.waitNothingDue()
	if sent := p.server.Sent(); len(sent) != 1 || sent[0].Document == nil || !sent[0].Document.IsPhoto {
		t.Fatalf("sent %+v", sent)
	}
}
