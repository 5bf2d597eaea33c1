package faulttest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/channels/discord/discordtest"
	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// withFile kills the gateway while it handles a person's file, and lets the next gateway answer. The
// file must then be stored completely and once, a large one beside the database.
//
// hold makes the gateway wait for the gate at some point; reached waits until it is there.
func withFile(t *testing.T, downloads int, hold func(w *world, file *discordtest.File, held *gate) (reached func())) {
	t.Parallel()
	for name, size := range map[string]int{"small": 1000, "large": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{platform: newDiscord})
			file := discordtest.File{Name: "plan.bin", ContentType: "application/octet-stream", Data: make([]byte, size)}
			rand.Read(file.Data)
			held := newGate(t)
			reached := hold(w, &file, held)
			w.discord.useDM(1)
			p := w.startServing()
			at := w.discord.discordPlace(1)
			w.discord.Say(at.Channel, at.who, "m1", discordtest.Attach(file))
			reached()
			p.Kill()
			w.expectState(w.copyDatabase(), 1, 0, 0)
			held.Open()

			p = w.startServing()
			w.awaitAnswer(1, "m1")
			w.say(1, "m2")
			w.awaitAnswer(1, "m2")
			p.Stop()
			w.expectKept(file.Data)
			if n := w.discord.Calls("GET /attachments"); n != downloads {
				t.Errorf("the file was fetched %d times, want %d", n, downloads)
			}
			if replies := w.platform.sent(1); len(replies) != 2 || strings.Contains(replies[0], "📎") {
				t.Errorf("the replies are %q", replies)
			}
		})
	}
}

// expectKept checks that exactly one file is stored, with these bytes.
func (w *world) expectKept(want []byte) {
	w.t.Helper()
	if n := w.count(`SELECT (SELECT count(*) FROM files) * 10 + (SELECT count(*) FROM blobs)`); n != 11 {
		w.t.Errorf("files and blobs: %d", n)
	}
	db := openSQLite(w.t, w.gw.Database)
	defer db.Close()
	var path string
	var got []byte
	err := db.QueryRow(`SELECT b.path, coalesce((SELECT data FROM blob_pieces WHERE blob_id = b.id AND n = 0), x'')
		FROM files f JOIN messages m ON m.id = f.message_id JOIN blobs b ON b.id = f.blob_id`).Scan(&path, &got)
	w.must(err)
	if path != "" {
		got, err = os.ReadFile(filepath.Join(w.gw.Database+".files", path))
		w.must(err)
	}
	if !bytes.Equal(got, want) {
		w.t.Errorf("%d bytes are kept, want those %d that were sent", len(got), len(want))
	}
}

// awaitDownload waits until the gateway has asked for a file.
func (w *world) awaitDownload() {
	w.t.Helper()
	gatewaytest.Await(w.t, "the download", func() bool { return w.discord.Calls("GET /attachments") > 0 })
}

func TestKilledBetweenAcceptAndDownload(t *testing.T) {
	withFile(t, 2, func(w *world, file *discordtest.File, held *gate) func() {
		file.Verdict.Wait = held.opened
		return w.awaitDownload
	})
}

func TestKilledInTheDownload(t *testing.T) {
	withFile(t, 2, func(w *world, file *discordtest.File, held *gate) func() {
		file.Stall = held.opened
		return w.awaitDownload
	})
}

func TestKilledAfterTheDownloadBeforeCommit(t *testing.T) {
	withFile(t, 1, func(w *world, _ *discordtest.File, held *gate) func() {
		w.model.Reply(func(c llmtest.Call) llmtest.Answer {
			held.pass()
			return answerTo(c)
		})
		return func() { w.awaitReached("the model call", held) }
	})
}

// When the process dies during or right after a transcription, the recording and its words are stored
// once, and the user is answered.
func TestKilledInTheTranscription(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string]bool{"before the words came": false, "after the words came": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{platform: newDiscord})
			w.gw.Configure(w.config(settings{}) + fmt.Sprintf("[transcription]\nmodel = \"whisper-1\"\nbase_url = %q\napi_key = %q\n", w.model.URL(), apiKey))
			held := newGate(t)
			if heard {
				w.model.Reply(func(c llmtest.Call) llmtest.Answer {
					held.pass()
					return answerTo(c)
				})
			}
			w.model.Hear(func(llmtest.Recording) llmtest.Heard {
				if !heard {
					held.pass()
				}
				return llmtest.Heard{Text: "the words"}
			})
			voice := discordtest.File{Name: "voice.ogg", ContentType: "audio/ogg", Data: []byte("OggS\x00\x02 speech")}
			w.discord.useDM(1)
			p := w.startServing()
			at := w.discord.discordPlace(1)
			w.discord.Say(at.Channel, at.who, "m1", discordtest.Attach(voice))
			w.awaitReached("the transcription", held)
			p.Kill()
			w.expectState(w.copyDatabase(), 1, 0, 0)
			held.Open()

			p = w.startServing()
			w.awaitAnswer(1, "m1")
			p.Stop()
			w.expectKept(voice.Data)
			if n := w.count(`SELECT (SELECT count(*) FROM blob_forms WHERE data = CAST('the words' AS BLOB)) * 10 +
				(SELECT count(*) FROM messages WHERE content LIKE '%the words%')`); n != 12 { // the fake model repeats them
				t.Errorf("forms and messages with the words: %d", n)
			}
			if n, want := len(w.model.Recordings()), map[bool]int{false: 2, true: 1}[heard]; n != want {
				t.Errorf("the recording was sent %d times, want %d", n, want)
			}
		})
	}
}
