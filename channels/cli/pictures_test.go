package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/gateway"
	"parley/llm"
	"parley/llm/llmtest"
)

// answerWithTwoPictures returns an answer with two pictures.
func answerWithTwoPictures(string) llmtest.Answer {
	return llmtest.Answer{Text: "Two cats.", Images: []llm.Image{
		{MediaType: "image/png", Data: []byte("\x89PNG\x0d\x0a\x1a\x0a one")}, {MediaType: "image/png", Data: []byte("\x89PNG\x0d\x0a\x1a\x0a two")},
	}}
}

// A piped chat saves all pictures of an answer before it ends, and prints their paths.
func TestPipeSavesThePicturesOfAnAnswer(t *testing.T) {
	t.Parallel()
	s := newPipeHarness(t, answerWithTwoPictures)
	folder := t.TempDir()
	one, two := filepath.Join(folder, "picture-1.png"), filepath.Join(folder, "picture-2.png")
	out, _, err := s.pipes("draw\n", gateway.Terminal{Folder: folder})
	if want := fmt.Sprintf("Two cats.\nThe picture is `%s`\nThe picture is `%s`\n", one, two); err != nil || out != want {
		t.Errorf("printed %q, %v; want %q", out, err, want)
	}
	for path, end := range map[string]string{one: " one", two: " two"} {
		if data, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(data), end) {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
}
