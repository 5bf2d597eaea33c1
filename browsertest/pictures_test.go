package browsertest

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

// The pictures that a model makes are seen below its answer, and can be saved as they are.
func TestPicturesOfAnAnswer(t *testing.T) {
	t.Parallel()
	picture := image.NewRGBA(image.Rect(0, 0, 320, 200))
	for x := range 320 {
		for y := range 200 {
			picture.Set(x, y, color.RGBA{uint8(x / 2), 90, uint8(y), 255})
		}
	}
	var data bytes.Buffer
	if err := png.Encode(&data, picture); err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "Two evenings.", Images: []llm.Image{{MediaType: "image/png", Data: data.Bytes()}, {MediaType: "image/png", Data: append(data.Bytes(), 0)}}}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("Paint an evening, twice")
	b.answers(1)
	b.await("[...document.querySelectorAll('#messages .assistant img')].filter((i) => i.complete && i.naturalWidth === 320 && i.getBoundingClientRect().width > 100).length === 2")
	b.shot("pictures-of-an-answer")
	b.await("document.querySelectorAll('#messages .assistant a[download=\"picture-1.png\"], #messages .assistant a[download=\"picture-2.png\"]').length === 2")
	eval[bool](b, `(() => {
		fetch(document.querySelector("#messages a[download='picture-1.png']").href).then((r) => r.blob()).then((saved) => { window.saved = saved.size + " " + saved.type; });
		return true;
	})()`)
	b.await("window.saved")
	if got, want := eval[string](b, "window.saved"), fmt.Sprintf("%d image/png", data.Len()); got != want {
		t.Errorf("the file that is saved has %s, want %s", got, want)
	}
	b.clean()
}
