package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/conversation/media"
	"parley/tools"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// resultOf returns the result of a call as the model reads it. The pictures of an error are described, since an error is a text.
func resultOf(r *sdk.CallToolResult) tools.Result {
	var pieces []string
	var pictures []media.Image
	hasText := false
	for _, content := range r.Content {
		if picture, is := content.(*sdk.ImageContent); is && !r.IsError {
			pictures = append(pictures, media.Image{Data: picture.Data})
			continue
		}
		text, isText := contentText(content)
		hasText = hasText || isText
		pieces = append(pieces, text)
	}
	if r.StructuredContent != nil && !hasText { // else the texts say the same, as the protocol wants
		text, err := json.Marshal(r.StructuredContent)
		if err == nil {
			pieces = append(pieces, string(text))
		}
	}
	text := strings.Join(pieces, "\n")
	if strings.TrimSpace(text) == "" && len(pictures) == 0 {
		text = "(no output)"
	}
	return tools.Result{Text: text, Pictures: pictures}
}

// contentText returns a piece of a result in words, and whether it is a text itself.
func contentText(content sdk.Content) (text string, isText bool) {
	switch c := content.(type) {
	case *sdk.TextContent:
		return strings.ToValidUTF8(c.Text, "\ufffd"), true
	case *sdk.ImageContent:
		return fmt.Sprintf("[a picture, %s, %s, which can't be shown here]", c.MIMEType, size(len(c.Data))), false
	case *sdk.AudioContent:
		return fmt.Sprintf("[a recording, %s, %s, which can't be played here]", c.MIMEType, size(len(c.Data))), false
	case *sdk.ResourceLink:
		return fmt.Sprintf("[resource %s: %s %s]", c.URI, c.Name, c.Description), false
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return "[an empty resource]", false
		}
		return resourceText(c.Resource), c.Resource.Text != ""
	}
	return "[something of a kind that is not known here]", false
}

// resourceText returns what a resource holds, or describes it where that is no text.
func resourceText(r *sdk.ResourceContents) string {
	if len(r.Blob) > 0 {
		return fmt.Sprintf("[resource %s, %s, %s, which is no text]", r.URI, r.MIMEType, size(len(r.Blob)))
	}
	return strings.ToValidUTF8(r.Text, "\ufffd")
}

func size(bytes int) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d bytes", bytes)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}
