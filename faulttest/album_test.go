package faulttest

import (
	"fmt"
	"strings"
	"testing"

	"parley/channels/telegram/telegramtest"
)

// The gateway is killed while it waits for the rest of an album: no picture is lost, and one answer
// covers all of them.
func TestAlbumIsOneQuestionAfterAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: telegramWith("10s")}) // the longest wait that can be configured: a busy machine is late with the other photos
	p := w.startServing()
	photos := func(from, to int) {
		for n := from; n < to; n++ {
			text := ""
			if n == 0 {
				text = "which one?"
			}
			w.telegram.Say(telegramtest.Private(person(1)), person(1), text, telegramtest.InAlbum("a"), telegramtest.WithPhoto(fmt.Append(nil, "picture", n)))
		}
	}
	photos(0, 4)
	w.awaitStored()
	p.Kill()
	if n := w.model.Served(); n > 0 {
		t.Skip("the first four were answered before the kill") // on a machine that stood still for the quiet window
	}
	photos(4, 10)
	w.startServing()
	w.say(2, "hello")
	w.awaitAnswer(2, "hello")
	sent, err := w.telegram.WaitSent(t.Context(), 2)
	w.must(err)
	if len(sent) != 2 || len(w.telegram.SentTo(1)) != 1 {
		t.Fatalf("sent: %+v", sent)
	}
	for _, c := range w.model.Calls() {
		if last := c.LastUser(); strings.HasPrefix(last, "which one?") && strings.Count(last, "[file photo-") != 10 {
			t.Errorf("the model was asked %q", last)
		}
	}
}
