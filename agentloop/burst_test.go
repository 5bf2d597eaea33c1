package agentloop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/media"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// ofAlbum is a picture of an album.
func (h *harness) ofAlbum(album string, n int, text string, quiet time.Duration) conversation.Inbound {
	in := h.inbound(room, text)
	in.Album, in.Quiet = album, quiet
	in.Attachments = []media.Attachment{{Name: fmt.Sprintf("photo-%d.jpg", n), MediaType: "image/jpeg", Ref: fmt.Sprint(n)}}
	return in
}

func TestAnAlbumOfTenIsOneMessageAndOneRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for n := range 10 {
		text := ""
		if n == 0 {
			text = "which one?"
		}
		quiet := time.Hour
		if n == 9 { // only now is the album complete
			quiet = time.Millisecond
		}
		h.accept(h.ofAlbum("a", n, text, quiet))
	}
	h.reply(room)
	shown := h.shownToModel()
	if len(shown) != 1 || !strings.HasPrefix(shown[0], "which one?\n[file photo-0.jpg") || strings.Count(shown[0], "[file photo-") != 10 {
		t.Fatalf("the model saw %q", shown)
	}
	if n := h.server.Served(); n != 1 {
		t.Fatalf("%d calls of the model", n)
	}
}

// Messages from before a restart wait until the channel has read what its platform holds, so that the
// rest of an album does not become a question of its own.
func TestAnAlbumIsOneRunOverARestart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for n := range 4 {
		h.accept(h.ofAlbum("a", n, "", time.Hour))
	}
	h.end()
	h.start()
	h.router.Wake(room)
	for n := range 5 {
		h.accept(h.ofAlbum("a", 4+n, "", time.Hour))
	}
	h.accept(h.ofAlbum("a", 9, "", time.Millisecond)) // only now is the album complete
	h.reply(room)
	if shown := h.shownToModel(); len(shown) != 1 || strings.Count(shown[0], "[file photo-") != 10 {
		t.Fatalf("the model saw %q", shown)
	}
}

// A run without any output yet starts again with a message that arrives right after its start; later
// messages wait for the next run.
func TestRunRestartsWithAMessageThatFollowsAtOnce(t *testing.T) {
	t.Parallel()
	for name, joins := range map[string]time.Duration{"joined": time.Hour, "for itself": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			asked := make(chan struct{}, 4)
			hold, answer := waittest.Gate(t)
			h.server.Reply(func(c llmtest.Call) llmtest.Answer {
				asked <- struct{}{}
				if c.LastUser() == "what do you think?" {
					<-hold
				}
				return llmtest.Answer{Text: "echo: " + c.LastUser()}
			})
			h.accept(h.inbound(room, "what do you think?"))
			waittest.Receive(t, asked, "the model is asked")
			forward := h.inbound(room, "[forwarded]\nnews")
			forward.Joins, forward.Quiet = joins, time.Millisecond
			h.accept(forward)
			want := 2
			if joins > 0 {
				waittest.Receive(t, asked, "the model is asked again") // without an answer to the first call
				want = 1
			}
			answer()
			for range want {
				h.reply(room)
			}
			if replies := h.repliesTo(room); len(replies) != want || replies[want-1] != "echo: [forwarded]\nnews" {
				t.Fatalf("replies: %q", replies)
			}
		})
	}
}

func (h *harness) repliesTo(key conversation.Key) (texts []string) {
	for _, line := range h.history(key) {
		if text, is := strings.CutPrefix(line, "assistant: "); is {
			texts = append(texts, text)
		}
	}
	return texts
}

func TestMessagesDoNotJoinARunThatHasBegun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	now := time.Now()
	j := &joining{began: now, cancel: cancel}
	message := conversation.Inbound{Text: "x", Joins: time.Minute}
	command := conversation.Inbound{Text: "/status", Joins: time.Minute}
	elsewhere := conversation.Inbound{Text: "x", Joins: time.Minute, Origin: "cli:other"}
	j.join(nil, now)
	j.join([]conversation.Inbound{command}, now)
	j.join([]conversation.Inbound{elsewhere}, now)
	j.join([]conversation.Inbound{message}, now.Add(time.Minute))
	if ctx.Err() != nil || !j.start() || !j.start() {
		t.Fatal("the run starts again for a message that does not belong to it")
	}
	j.join([]conversation.Inbound{message}, now)
	if ctx.Err() != nil {
		t.Fatal("the run starts again although it had output")
	}
}

// Somebody who never stops writing is answered all the same.
func TestWaitForFurtherMessagesIsBounded(t *testing.T) {
	t.Parallel()
	var b burst
	now := time.Now()
	began := now
	for id := int64(1); ; id++ {
		in := conversation.Inbound{ID: id, Text: "x", Quiet: 100 * time.Millisecond}
		b.post([]conversation.Inbound{in})
		wait := b.wait([]conversation.Inbound{in}, now)
		if wait == 0 {
			break
		}
		if now = now.Add(50 * time.Millisecond); now.Sub(began) > time.Second {
			t.Fatalf("still waiting after %s", now.Sub(began))
		}
	}
	stop := []conversation.Inbound{{ID: 1000, Text: "x", Quiet: time.Hour}, {ID: 1001, Text: "/stop"}}
	if b.wait(stop, now) != 0 {
		t.Error("a command waits")
	}
}

func TestGroupTalkIsShownOnceAndNotStored(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	in := h.inGroup("what did they say?", "1", "Ada")
	in.Overheard = "Ben: soup\nCid: pizza"
	h.accept(in)
	h.reply(room)
	want := "[said here before, and not to you; do not answer it by itself]\nBen: soup\nCid: pizza"
	if shown := h.shownToModel(); len(shown) != 2 || shown[0] != want || shown[1] != "Ada: what did they say?" {
		t.Fatalf("the model saw %q", shown)
	}
	h.accept(h.inGroup("thanks", "1", "Ada"))
	h.reply(room)
	if shown := h.shownToModel(); len(shown) != 2 || strings.Contains(strings.Join(shown, ""), "pizza") {
		t.Fatalf("later the model saw %q", shown)
	}
	if said := strings.Join(h.history(room), "\n"); strings.Contains(said, "pizza") {
		t.Fatalf("stored: %s", said)
	}
}
