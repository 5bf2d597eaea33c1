package faulttest

import (
	"bytes"
	"image"
	"image/png"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

// answerWithPictures makes the model answer "draw" with two pictures, which Telegram shows as an
// album, and an animation, which Telegram shows in a message of its own.
func answerWithPictures(w *world) {
	var data bytes.Buffer
	w.must(png.Encode(&data, image.NewGray(image.Rect(0, 0, 20, 20))))
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		a := answerTo(c)
		if a.Text == "re draw" {
			a.Images = []llm.Image{{MediaType: "image/png", Data: data.Bytes()}, {MediaType: "image/png", Data: append(data.Bytes(), 0)}, {MediaType: "image/gif", Data: []byte("GIF89a moving")}}
		}
		return a
	})
}

// holdPicture holds the n-th message with a picture at the gate, and then closes its connection.
func holdPicture(n int64, held *gate) func(int, string) verdict {
	var seen atomic.Int64
	return func(_ int, text string) verdict {
		if text != "" || seen.Add(1) != n {
			return answered
		}
		held.pass()
		return dropped
	}
}

var allPictures = []string{"picture-1.png", "picture-2.png", "picture-3.gif"}

// expectPictures waits until everything is sent, and compares the pictures in the chat.
func (w *world) expectPictures(want ...string) {
	w.t.Helper()
	p := w.startServing()
	gatewaytest.Await(w.t, "the pictures", func() bool { return len(w.platform.pictures(1)) >= len(want) })
	w.say(1, "afterwards")
	w.awaitAnswer(1, "afterwards")
	p.Stop()
	if diff := cmp.Diff(want, w.platform.pictures(1)); diff != "" {
		w.t.Error(diff)
	}
	w.expectClean()
}

// TestKilledBetweenThePictures kills the gateway after the platform has taken some pictures of an
// answer, and before it takes the next one: each of them comes once.
func TestKilledBetweenThePictures(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		answerWithPictures(w)
		held := newGate(w.t)
		w.platform.onSend(holdPicture(3, held), nil)
		p := w.startServing()
		w.say(1, "draw")
		w.awaitReached("the third picture at the platform", held)
		p.Kill()
		w.platform.onSend(nil, nil)
		held.Open()
		w.expectPictures(allPictures...)
	})
}

// TestKilledBeforeThePicturesAreMarked kills the gateway after the platform has taken two pictures, and
// before the gateway knows. On Telegram both come again; Discord recognizes that it has them.
func TestKilledBeforeThePicturesAreMarked(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		answerWithPictures(w)
		held := newGate(w.t)
		w.platform.onSend(nil, holdPicture(2, held))
		p := w.startServing()
		w.say(1, "draw")
		w.awaitReached("the platform's taking of the second picture", held)
		p.Kill()
		w.platform.onSend(nil, nil)
		held.Open()
		want := allPictures
		if w.platform.repeats(1) {
			want = append([]string{"picture-1.png", "picture-2.png"}, allPictures...)
		}
		w.expectPictures(want...)
	})
}
