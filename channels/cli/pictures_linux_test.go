package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// In a chat, the paths of the saved pictures are shown below their answer.
func TestChatSavesThePicturesOfAnAnswer(t *testing.T) {
	p := openChat(t, answerWithTwoPictures)
	p.types("draw\r")
	p.sees("picture-2.png")
	p.atRest()
	dir := filepath.Dir(p.Database)
	want := "Two cats. The picture is " + filepath.Join(dir, "picture-1.png") + " The picture is " + filepath.Join(dir, "picture-2.png")
	if got := p.screen.Text(); !strings.Contains(strings.Join(strings.Fields(got), ""), strings.ReplaceAll(want, " ", "")) {
		t.Errorf("want %q on the screen:\n%s", want, got)
	}
}
