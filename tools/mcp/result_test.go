package mcp

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// An error that holds only a picture says so: the model got an empty error, and so it did for one whose text is empty.
func TestErrorWithoutTextSaysWhatThereIs(t *testing.T) {
	t.Parallel()
	picture := &sdk.ImageContent{Data: []byte("\x89PNG"), MIMEType: "image/png"}
	for want, content := range map[string][]sdk.Content{
		"[a picture, image/png, 4 bytes": {picture},
		"It broke.\n[a picture":          {&sdk.TextContent{Text: "It broke."}, picture},
		"(no output)":                    {&sdk.TextContent{}},
	} {
		if got := resultOf(&sdk.CallToolResult{IsError: true, Content: content}); !strings.HasPrefix(got.Text, want) || len(got.Pictures) != 0 {
			t.Errorf("the error is %q with %d pictures", got.Text, len(got.Pictures))
		}
	}
	if got := resultOf(&sdk.CallToolResult{Content: []sdk.Content{picture}}); got.Text != "" || len(got.Pictures) != 1 {
		t.Errorf("a result that is a picture is %q with %d pictures", got.Text, len(got.Pictures))
	}
}

// A line of standard error is kept without its secrets, however it arrives, also if its beginning is cut off within one.
func TestSecretsInStandardErrorAreHidden(t *testing.T) {
	t.Parallel()
	const secret = "of-the-shop-4711-of-the-shop"
	var c Config
	c.Env = map[string]string{"SHOP": secret}
	s := newServer(t.Context(), "shop", c, nil, Options{Log: slog.New(slog.DiscardHandler)})
	for _, written := range [][]string{
		{"no entry with of-the-", "shop-4711-of-the-shop\n"},
		{"first " + secret + "\nsecond " + secret + strings.Repeat(" x", 60), " and " + secret + strings.Repeat("x", 120)},
		{secret + " x" + strings.Repeat("y", tailSize-20)},
		{strings.Repeat("y", tailSize) + secret},
	} {
		p := &process{said: &tail{}, done: make(chan struct{})}
		for _, piece := range written {
			if _, err := p.said.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		if said := s.explain(p, errors.New("ended")).Error(); strings.Contains(said, "the-shop") || !strings.HasPrefix(said, "ended") {
			t.Errorf("shown is %s", said)
		}
	}
}
