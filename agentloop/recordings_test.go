package agentloop

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/search"
	"parley/filecontent"
	"parley/llm"
	"parley/llm/llmtest"
)

// The first bytes of recordings, by which their format is recognized.
var (
	voice = "OggS\x00\x02" + strings.Repeat("\x00", 22) + "OpusHead"
	song  = "\xff\xfb\x90\x64" + strings.Repeat("\x01", 100)
	amiga = "FORM\x00\x00\x00\x40AIFF" + strings.Repeat("\x00", 60)
)

// newTranscribingHarness returns a harness whose recordings are transcribed.
func newTranscribingHarness(t *testing.T, sent channelFiles, hear func(llmtest.Recording) llmtest.Heard) *harness {
	return newHarness(t, func(p *Deps) {
		p.Files, p.FileLimits = sent, files.DefaultLimits()
		model := llmtest.New(t)
		model.Hear(hear)
		p.FileContent = filecontent.New(files.New(p.Store), filecontent.WithTranscriber(llm.NewTranscriber(
			llm.TranscriptionConfig{BaseURL: model.URL(), Model: "whisper-1", Language: "en", MaxFile: 1, Timeout: time.Minute}, func(string) string { return "" })))
	})
}

func (h *harness) send(text string, refs ...string) string {
	h.t.Helper()
	var list []media.Attachment
	for _, ref := range refs {
		list = append(list, media.Attachment{Name: ref, MediaType: "audio/ogg", Ref: ref})
	}
	h.accept(withFiles(h.inbound(room, text), list...))
	return h.reply(room)
}

func TestRecordingsAreReadAsTheirWords(t *testing.T) {
	t.Parallel()
	asked := make(chan llmtest.Recording, 10)
	h := newTranscribingHarness(t, channelFiles{"voice.oga": voice, "song": song, "amiga.aiff": amiga, "again.ogg": voice, "hum.mp3": song + "hm", "long.mp3": song + strings.Repeat("x", 1<<20)},
		func(r llmtest.Recording) llmtest.Heard {
			asked <- r
			if strings.HasSuffix(string(r.Data), "hm") {
				return llmtest.Heard{}
			}
			return llmtest.Heard{Text: "Please buy zucchini. (" + r.Name + ")", Input: 40}
		})
	reply := h.send("", "voice.oga", "song", "amiga.aiff", "hum.mp3", "long.mp3")
	for _, want := range []string{
		"[file voice.oga, a recording, as transcribed]\nPlease buy zucchini. (recording.ogg)\n[end of file voice.oga]",
		"[file song, a recording, as transcribed]\nPlease buy zucchini. (recording.mp3)",
		"[file amiga.aiff, 72 bytes, can't be read: the transcription server can't read it]",
		"[file hum.mp3, 106 bytes, can't be read: no words can be heard in it]",
		"[file long.mp3, 1.0 MiB, can't be read: it has 1.0 MiB, and recordings of up to 1.0 MiB are transcribed]",
	} {
		if !strings.Contains(h.asked(), want) {
			t.Errorf("the model was not told %q in\n%s", want, h.asked())
		}
	}
	for _, want := range []string{"📎 `amiga.aiff`: the transcription server can't read it", "📎 `long.mp3`: it has 1.0 MiB"} {
		if !strings.Contains(reply, want) {
			t.Errorf("the user was not told %q in\n%s", want, reply)
		}
	}
	h.send("the same once more", "again.ogg")
	if !strings.Contains(h.asked(), "[file again.ogg, a recording, as transcribed]\nPlease buy zucchini.") || len(asked) != 3 {
		t.Errorf("%d recordings were sent for three that are different, and the model was told\n%s", len(asked), h.asked())
	}
	if r := <-asked; r.Model != "whisper-1" || r.Language != "en" {
		t.Errorf("the server was asked for %s in %q", r.Model, r.Language)
	}
	found, err := search.New(h.store).Find(t.Context(), search.Query{Key: room, Words: "zucchini", Limit: 5})
	if err != nil || len(found) == 0 {
		t.Errorf("search found %v, %v for words of a recording", found, err)
	}
}

// When the server is busy for a moment, nobody notices. When it is busy for longer, the next run asks
// again, and the model is then told what the recording says.
func TestRecordingsAreTriedAgain(t *testing.T) {
	t.Parallel()
	var answers = make(chan llmtest.Heard, 10)
	h := newTranscribingHarness(t, channelFiles{"short.ogg": voice, "long.mp3": song}, func(llmtest.Recording) llmtest.Heard { return <-answers })
	answers <- llmtest.Heard{Status: http.StatusBadGateway}
	answers <- llmtest.Heard{Text: "first words"}
	if reply := h.send("", "short.ogg"); strings.Contains(reply, "📎") || !strings.Contains(h.asked(), "first words") {
		t.Errorf("the reply is %q; the model was told\n%s", reply, h.asked())
	}
	answers <- llmtest.Heard{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"11"}}}
	reply := h.send("", "long.mp3")
	if !strings.Contains(h.asked(), "[file long.mp3, 104 bytes, can't be read now: the transcription server is busy; it will be tried again]") ||
		!strings.Contains(reply, "📎 `long.mp3`: the transcription server is busy") {
		t.Errorf("the reply is %q; the model was told\n%s", reply, h.asked())
	}
	answers <- llmtest.Heard{Text: "late words"}
	h.makeDue("long.mp3")
	h.ask(room, "and now?")
	if !strings.Contains(h.asked(), "[file long.mp3, a recording, as transcribed]\nlate words") {
		t.Errorf("the model was told\n%s", h.asked())
	}
	h.ask(room, "thanks")
	if n := strings.Count(h.asked(), "late words"); n != 1 || len(answers) != 0 {
		t.Errorf("the model was told the words %d times; %d answers of the server are left", n, len(answers))
	}
}

// makeDue makes the next run read a file again that was to be read later.
func (h *harness) makeDue(name string) {
	h.t.Helper()
	kept := files.New(h.store)
	list, err := kept.OfSession(h.t.Context(), room, 10)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, file := range list {
		if file.Name == name {
			if err := kept.Postpone(h.t.Context(), file.ID, 1, time.UnixMilli(1)); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}
