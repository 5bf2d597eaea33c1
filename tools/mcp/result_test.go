package mcp

import (
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
