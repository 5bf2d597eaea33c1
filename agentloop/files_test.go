package agentloop

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	imagepng "image/png"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/storetest"
	"parley/filecontent/picture"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// channelFiles is a channel that has these files, by their Ref.
type channelFiles map[string]string

func (s channelFiles) Fetch(_ context.Context, _ string, file media.Attachment) (io.ReadCloser, error) {
	data, found := s[file.Ref]
	if !found {
		return nil, &files.GoneError{Words: "it is gone"}
	}
	return io.NopCloser(strings.NewReader(data)), nil
}

// png is a picture of four pixels.
var png = noise(2, 2)

// noise returns a PNG that can't be compressed.
func noise(width, height int) string {
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	random := rand.NewChaCha8([32]byte{1})
	for i := range picture.Pix {
		if picture.Pix[i] = byte(random.Uint64()); i%4 == 3 {
			picture.Pix[i] = 0xFF
		}
	}
	var b bytes.Buffer
	if err := imagepng.Encode(&b, picture); err != nil {
		panic(err)
	}
	return b.String()
}

// padded returns a picture of few pixels that is larger than a model takes: it has a long comment. Large
// pictures of many pixels take seconds with the race detector.
func padded() string {
	comment := append([]byte("tEXtComment\x00"), bytes.Repeat([]byte("long "), picture.MaxBytes/5)...)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(comment)-len("tEXt")))
	chunk = binary.BigEndian.AppendUint32(append(chunk, comment...), crc32.ChecksumIEEE(comment))
	const end = 12 // bytes of the last chunk
	return png[:len(png)-end] + string(chunk) + png[len(png)-end:]
}

func withFiles(in conversation.Inbound, files ...media.Attachment) conversation.Inbound {
	in.Attachments = files
	return in
}

// asked returns what the model was sent last, as one text.
func (h *harness) asked() string {
	calls := h.server.Calls()
	var b strings.Builder
	for _, m := range calls[len(calls)-1].Messages {
		fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Text())
		for _, image := range m.Images {
			fmt.Fprintf(&b, "<%s>\n", image.MediaType)
		}
	}
	return b.String()
}

func TestTextFilesAreReadIntoTheirMessage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) {
		p.Files = channelFiles{"notes": "buy milk\n", "binary": "\x00\x01\x02", "huge": strings.Repeat("x", 2<<20+1), "empty": ""}
		p.FileLimits = files.DefaultLimits()
		p.FileLimits.MaxFile = 2 << 20
	})
	h.accept(withFiles(h.inbound(room, "see these"),
		media.Attachment{Name: "notes.txt", MediaType: "text/plain; charset=utf-8", Size: 9, Ref: "notes"},
		media.Attachment{Name: "tool.bin", MediaType: "application/octet-stream", Size: 3, Ref: "binary"},
		media.Attachment{Name: "log.txt", MediaType: "text/plain", Size: 2 << 30, Ref: "huge"},
		media.Attachment{Name: "empty.txt", MediaType: "text/plain", Ref: "empty"},
		media.Attachment{Name: "liar.txt", MediaType: "text/plain", Size: 5, Ref: "huge"},
		media.Attachment{Name: "lost.md", Ref: "lost"},
		media.Attachment{Name: "film.mp4", MediaType: "video/mp4", Size: 3 << 20, Ref: "film"},
		media.Attachment{Name: "unnamed.bin"},
	))
	reply := h.reply(room)
	for _, want := range []string{
		`[file notes.txt]`, "\nbuy milk\n[end of file notes.txt]",
		`[file tool.bin, 3 bytes, not shown]`,
		`[file log.txt could not be loaded: it has 2.0 GiB, and at most 2.0 MiB of a file are kept]`,
		`[file empty.txt, 0 bytes, can't be read: it is empty]`,
		`[file liar.txt could not be loaded: it has more than 2.0 MiB, the most of a file that is kept]`,
		`[file lost.md could not be loaded: it is gone]`,
		`[file film.mp4 could not be loaded: it has 3.0 MiB, and at most 2.0 MiB of a file are kept]`,
		`[file unnamed.bin]`,
	} {
		if !strings.Contains(h.asked(), want) {
			t.Errorf("the model was not told %s in\n%s", want, h.asked())
		}
	}
	for _, want := range []string{"📎 `log.txt`: it has 2.0 GiB", "📎 `lost.md`: it is gone"} {
		if !strings.Contains(reply, want) {
			t.Errorf("the user was not told %s in\n%s", want, reply)
		}
	}
}

func TestImagesAreSentOnlyToAModelWithVision(t *testing.T) {
	t.Parallel()
	picture := media.Attachment{Name: "cat.png", MediaType: "image/png", Size: int64(len(png)), Ref: "cat"}
	for _, sees := range []bool{true, false} {
		h := newHarness(t, func(p *Deps) { p.Files, p.Vision = channelFiles{"cat": png, "fake": "<html>"}, sees })
		h.accept(withFiles(h.inbound(room, "what is this?"), picture,
			media.Attachment{Name: "fake.png", MediaType: "image/png", Ref: "fake"}))
		h.reply(room)
		h.ask(room, "and what colour has it?")
		if got := strings.Count(h.asked(), "<image/png>"); (got == 1) != sees {
			t.Errorf("vision = %v: %d images were sent with the second question\n%s", sees, got, h.asked())
		}
		if sees && !strings.Contains(h.asked(), "[file fake.png, 6 bytes, can't be read: it is named or sent as a picture, but it is a text]") {
			t.Errorf("a file that is no image was not told:\n%s", h.asked())
		}
		if !sees && !strings.Contains(h.asked(), "[image cat.png") {
			t.Errorf("the image is not named to a model that does not see:\n%s", h.asked())
		}
	}
}

// All pictures of the window are shown, up to a limit. With one more, only the newest half is still
// shown, so that the next calls begin like this one.
func TestPicturesBeyondTheLimitAreNamedInsteadOfShown(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Files, p.Vision, p.Budget = channelFiles{"cat": png}, true, 40_000 })
	for n := range window.MaxPictures + 3 {
		h.accept(withFiles(h.inbound(room, "look"), media.Attachment{Name: "cat.png", MediaType: "image/png", Ref: "cat"}))
		h.reply(room)
		named := 0
		if n >= window.MaxPictures {
			named = window.MaxPictures/2 + 1
		}
		if got := strings.Count(h.asked(), "[image cat.png, not shown]"); got != named {
			t.Errorf("%d of %d pictures were named, want %d", got, n+1, named)
		}
		if got := strings.Count(h.asked(), "<image/png>"); got != n+1-named {
			t.Errorf("%d of %d pictures were sent", got, n+1)
		}
	}
}

func TestStopEndsTheWaitForAFile(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	h := newHarness(t, func(p *Deps) { p.Files = hangingFiles(begun) })
	h.accept(withFiles(h.inbound(room, "read this"), media.Attachment{Name: "a.txt", Ref: "a"}))
	waittest.Receive(t, begun, "the file is asked for")
	h.say(room, "/stop")
	if got := h.reply(room); !strings.Contains(got, "Stopped") {
		t.Fatalf("reply %q", got)
	}
}

// hangingFiles is a channel that never returns a file.
type hangingFiles chan struct{}

func (s hangingFiles) Fetch(ctx context.Context, _ string, _ media.Attachment) (io.ReadCloser, error) {
	close(s)
	<-ctx.Done()
	return nil, errors.New("it took too long")
}

func TestEditIsSentWithTheNextMessage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	first := h.inbound(room, "the meeting is on Monday")
	h.accept(first)
	h.reply(room)
	key, err := h.store.Edit(t.Context(), conversation.Account{Channel: "cli"}, first.SourceID, "the meeting is on Tuesday", first.At)
	if err != nil {
		t.Fatal(err)
	}
	h.router.Edited(key)
	h.ask(room, "so when is it?")
	if !strings.Contains(h.asked(), "now reads]\nthe meeting is on Tuesday") {
		t.Fatalf("the model was not told of the edit:\n%s", h.asked())
	}
	calls := len(h.server.Calls())
	if calls != 2 {
		t.Fatalf("%d model calls, want 2: an edit alone asks for no answer", calls)
	}
}

func TestTheModelKnowsThePlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	in := h.inbound(room, "hello")
	in.Place, in.Title = "the thread “Holiday” in #general of Our Server", "Holiday"
	h.accept(in)
	h.reply(room)
	if !strings.Contains(h.asked(), "takes place in the thread “Holiday” in #general of Our Server.") {
		t.Fatalf("the model was not told of the place:\n%s", h.asked())
	}
	h.ask(room, "again") // a message that says nothing of the place
	if !strings.Contains(h.asked(), "in #general of Our Server") {
		t.Fatal("the place was forgotten")
	}
	if got := h.ask(room, "/status"); !strings.Contains(got, "Holiday") {
		t.Fatalf("the conversation has not the thread's name:\n%s", got)
	}
}

func TestHistoryOffersButtons(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for range 4 {
		h.ask(room, "hello")
	}
	h.say(room, "/history 2 1")
	var actions []conversation.Action
	until(t, "the page", func() bool {
		due, err := h.store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: room, Ready: true, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(due) > 0 {
			actions = due[0].Actions
		}
		return len(due) > 0
	})
	want := []conversation.Action{{Label: "Older", Command: "/history 2 3"}, {Label: "Newer", Command: "/history 2 0"}}
	if len(actions) != 2 || actions[0] != want[0] || actions[1] != want[1] {
		t.Fatalf("buttons %+v, want %+v", actions, want)
	}
}

// /retry after a /stop has the question's files, even if the platform has deleted them since.
func TestStopKeepsTheFilesOfTheQuestion(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Files, p.Vision = channelFiles{"cat": png, "notes": "buy milk"}, true })
	h.server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "once upon a time", Silence: true, NoFinish: true}
	})
	h.accept(withFiles(h.inbound(room, "what are these?"),
		media.Attachment{Name: "cat.png", MediaType: "image/png", Ref: "cat"},
		media.Attachment{Name: "notes.txt", MediaType: "text/plain", Ref: "notes"}))
	until(t, "the first words", func() bool { return strings.HasPrefix(h.preview(room), "once upon") })
	h.say(room, "/stop")
	h.reply(room)
	h.server.Reply(llmtest.Echo)
	h.ask(room, "/retry")
	for _, want := range []string{"<image/png>", "buy milk"} {
		if !strings.Contains(h.asked(), want) {
			t.Errorf("no %q in\n%s", want, h.asked())
		}
	}
}

func TestRetryAnswersTheEditedText(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	in := h.inbound(room, "what is 2+2?")
	h.accept(in)
	h.reply(room)
	key, err := h.store.Edit(t.Context(), conversation.Account{Channel: "cli"}, in.SourceID, "what is 3+3?", in.At)
	if err != nil {
		t.Fatal(err)
	}
	h.router.Edited(key)
	h.ask(room, "/retry")
	if !strings.Contains(h.asked(), "3+3") {
		t.Fatalf("the model was asked\n%s", h.asked())
	}
}

// Forty messages with ten pictures each: all are kept, each once, and a run loads no
// more than it shows.
func TestAllPicturesAreKeptAndTheNewestShown(t *testing.T) {
	t.Parallel()
	read := make(chan struct{}, 1000)
	h := newHarness(t, func(p *Deps) { p.Files, p.Vision, p.Budget = countedFiles(read), true, 500_000 })
	var batch []conversation.Inbound
	for range 40 {
		var list []media.Attachment
		for range 10 {
			list = append(list, media.Attachment{Name: "cat.png", MediaType: "image/png", Ref: "cat"})
		}
		batch = append(batch, withFiles(h.inbound(room, "look"), list...))
	}
	h.accept(batch...)
	h.reply(room)
	if n := len(read); n != 400 {
		t.Errorf("%d pictures were fetched", n)
	}
	if n := strings.Count(h.asked(), "<image/png>"); n != window.MaxPictures {
		t.Errorf("%d pictures were shown", n)
	}
	if n := strings.Count(h.asked(), "[image cat.png, not shown]"); n != 400-window.MaxPictures {
		t.Errorf("%d pictures were named", n)
	}
	kept, err := files.New(h.store).OfSession(t.Context(), room, 1000)
	if err != nil || len(kept) != 400 {
		t.Errorf("%d files are kept, %v", len(kept), err)
	}
	if n := storetest.Count(t, h.store, `SELECT count(*) FROM blobs`); n != 1 {
		t.Errorf("the same picture is stored %d times", n)
	}
}

// countedFiles is a channel that counts the files that are read.
type countedFiles chan struct{}

func (s countedFiles) Fetch(context.Context, string, media.Attachment) (io.ReadCloser, error) {
	s <- struct{}{}
	return io.NopCloser(strings.NewReader(png)), nil
}

// failingFiles is a channel that fails as many times as fail has said, then has every file.
type failingFiles struct {
	channelFiles
	failures chan struct{}
}

func (s failingFiles) Fetch(ctx context.Context, channel string, file media.Attachment) (io.ReadCloser, error) {
	select {
	case <-s.failures:
		return nil, errors.New("the connection failed")
	default:
		return s.channelFiles.Fetch(ctx, channel, file)
	}
}

func (s failingFiles) fail(times int) {
	for range times {
		s.failures <- struct{}{}
	}
}

// A download that fails once is repeated at once. If it fails again, user and model are told, and a
// later run has the file.
func TestAFileThatCouldNotBeFetchedIsFetchedLater(t *testing.T) {
	t.Parallel()
	flaky := failingFiles{channelFiles{"notes": "buy milk"}, make(chan struct{}, 100)}
	h := newHarness(t, func(p *Deps) { p.Files = flaky })
	notes := media.Attachment{Name: "notes.txt", MediaType: "text/plain", Ref: "notes"}

	flaky.fail(1)
	h.accept(withFiles(h.inbound(room, "see this"), notes))
	if h.reply(room); !strings.Contains(h.asked(), "buy milk") {
		t.Fatalf("after one failure:\n%s", h.asked())
	}

	flaky.fail(len(fetchWaits) + 1)
	h.accept(withFiles(h.inbound(desk, "see this"), notes))
	if reply := h.reply(desk); !strings.Contains(reply, "📎 `notes.txt`: the connection failed") {
		t.Errorf("the user reads %q", reply)
	}
	if !strings.Contains(h.asked(), "[file notes.txt could not be loaded: the connection failed; it will be tried again]") {
		t.Errorf("the model reads\n%s", h.asked())
	}
	h.ask(desk, "and now?")
	if !strings.Contains(h.asked(), "[files of earlier messages, which could not be loaded or read then]\n[file notes.txt]\nbuy milk") {
		t.Errorf("the model was not told that the file is here:\n%s", h.asked())
	}
	h.ask(desk, "again")
	if n := strings.Count(h.asked(), "[files of earlier messages"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, h.asked())
	}
	if kept, err := files.New(h.store).OfSession(t.Context(), desk, 10); err != nil || len(kept) != 1 {
		t.Errorf("%d files are kept, %v", len(kept), err)
	}
}

// The model is shown the beginning of a long text, and search finds the rest.
func TestALongTextIsShownCut(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a line of a long report\n", 4000) + "the treasure is under the oak\n"
	h := newHarness(t, func(p *Deps) { p.Files, p.Budget = channelFiles{"report": text}, 30_000 })
	h.accept(withFiles(h.inbound(room, "read this"), media.Attachment{Name: "report.txt", MediaType: "text/plain", Ref: "report"}))
	h.reply(room)
	if strings.Contains(h.asked(), "treasure") || !strings.Contains(h.asked(), "[… cut: this is the beginning of file report.txt; read_file shows the rest …]\n[end of file report.txt]") {
		t.Errorf("the model was sent %d bytes", len(h.asked()))
	}
	if got := h.ask(room, "/search treasure"); !strings.Contains(got, "under the") {
		t.Errorf("search says %q", got)
	}
}

// More runs with large images than maxImageMemory allows: some wait, all are answered,
// and runs without images do not wait.
func TestRunsWithPicturesShareTheMemory(t *testing.T) {
	t.Parallel()
	const runs, most = 14, maxImageMemory / (4 * picture.MaxBytes)
	reached := make(chan string, runs+1)
	release, answer := waittest.Gate(t)
	h := newHarness(t, func(p *Deps) { p.Files, p.Vision = channelFiles{"cat": padded()}, true })
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.LastUser(), "picture") {
			reached <- c.LastUser()
			<-release
		}
		return llmtest.Answer{Text: "seen"}
	})
	cat := media.Attachment{Name: "cat.png", MediaType: "image/png", Ref: "cat"}
	keyOf := func(i int) conversation.Key { return conversation.Key(fmt.Sprintf("cli:viewer-%d", i)) }
	for i := range runs {
		h.accept(withFiles(h.inbound(keyOf(i), "pictures"), cat, cat, cat, cat))
	}
	for range most {
		waittest.Receive(t, reached, "the model is shown pictures")
	}
	if got := h.ask(room, "only words"); got != "seen" {
		t.Errorf("a run without pictures got %q", got)
	}
	select {
	case <-reached:
		t.Errorf("more than %d runs have their pictures in memory", most)
	default:
	}
	answer()
	for i := range runs {
		if got := h.reply(keyOf(i)); got != "seen" {
			t.Errorf("run %d got %q", i, got)
		}
	}
}

// A file that can't be read is kept and reported, whatever its sender declares it to be.
func TestHostileFilesAreRefusedInWords(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) {
		p.Vision = true
		p.Files = channelFiles{"broken": png[:len(png)-12], "page": "<html>hello</html>", "picture": png, "pdf": "%PDF-1.4 broken", "heic": "\x00\x00\x00\x18ftypheic"}
	})
	h.accept(withFiles(h.inbound(room, "see these"),
		media.Attachment{Name: "broken.png", MediaType: "image/png", Ref: "broken"},
		media.Attachment{Name: "page.jpg", MediaType: "image/jpeg", Ref: "page"},
		media.Attachment{Name: "picture.txt", MediaType: "text/plain", Ref: "picture"},
		media.Attachment{Name: "broken.pdf", MediaType: "text/plain", Ref: "pdf"},
		media.Attachment{Name: "IMG_1.HEIC", MediaType: "application/octet-stream", Ref: "heic"},
	))
	reply := h.reply(room)
	for _, want := range []string{
		"[file broken.png, " + fmt.Sprint(len(png)-12) + " bytes, can't be read: the picture is broken]",
		"[file page.jpg, 18 bytes, can't be read: it is named or sent as a picture, but it is a text]",
		"<image/png>",
		"[file broken.pdf, 15 bytes, can't be read: documents are not read here]",
	} {
		if !strings.Contains(h.asked(), want) {
			t.Errorf("the model was not told %s in\n%s", want, h.asked())
		}
	}
	for _, want := range []string{"📎 `broken.png`: the picture is broken", "📎 `IMG_1.HEIC`: the model sees pictures in JPEG, PNG, WebP and GIF alone"} {
		if !strings.Contains(reply, want) {
			t.Errorf("the user reads %q, which lacks %q", reply, want)
		}
	}
	if kept, err := files.New(h.store).OfSession(t.Context(), room, 10); err != nil || len(kept) != 5 {
		t.Errorf("%d files are kept, %v", len(kept), err)
	}
}

// A file with the name or media type of a picture that is none is refused in the same words in every
// channel. It is kept, so that read_file can show it.
func TestFalsePicturesAreRefusedInWords(t *testing.T) {
	t.Parallel()
	for _, declared := range []string{"image/png", "text/plain", "application/octet-stream", ""} { // Discord and Telegram; web and API; programs
		h := newHarness(t, func(p *Deps) {
			p.Vision, p.Files = true, channelFiles{"text": "buy milk", "bytes": "\x00\x01\x02\x03"}
		})
		h.accept(withFiles(h.inbound(room, "see these"),
			media.Attachment{Name: "notes.PNG", MediaType: declared, Ref: "text"}, media.Attachment{Name: "noise.jpg", MediaType: declared, Ref: "bytes"}))
		reply := h.reply(room)
		for _, want := range []string{"📎 `notes.PNG`: it is named or sent as a picture, but it is a text", "📎 `noise.jpg`: it is named or sent as a picture, but it is none"} {
			if !strings.Contains(reply, want) {
				t.Errorf("declared %q: the user reads %q, which lacks %q", declared, reply, want)
			}
		}
		if asked := h.asked(); strings.Contains(asked, "buy milk") || !strings.Contains(asked, "[file notes.PNG, 8 bytes, can't be read: it is named or sent as a picture, but it is a text]") {
			t.Errorf("declared %q: the model was told\n%s", declared, asked)
		}
		if kept, err := files.New(h.store).OfSession(t.Context(), room, 10); err != nil || len(kept) != 2 {
			t.Errorf("declared %q: %d files are kept, %v", declared, len(kept), err)
		}
	}
}
