package agentloop

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/transcript"
)

// maxExport is how much text a file that is sent to a chat holds, in bytes:
// with its framing it stays below the 10 MiB that Discord takes
// (https://discord.com/developers/docs/reference#uploading-files); Telegram
// takes 50 MB.
const maxExport = 4 << 20

// formatWords are the formats as a reply names them.
var formatWords = map[transcript.Format]string{transcript.Markdown: "Markdown", transcript.JSON: "JSON", transcript.JSONL: "JSON lines"}

// exportConversation reads "/export [md|json|jsonl]".
func exportConversation(l *loop, ctx context.Context, turn conversation.Turn, arguments string) (result, error) {
	format := transcript.Markdown
	if arguments != "" && !strings.EqualFold(arguments, "markdown") {
		var err error
		if format, err = transcript.ParseFormat(arguments); err != nil {
			return result{text: fmt.Sprintf("A conversation is sent as `md`, `json` or `jsonl`, not as %s.", quoted(window.OneLine(arguments, 20)))}, nil
		}
	}
	c := turn.Conversation
	from, older, err := l.Store.Newest(ctx, c, maxExport)
	switch {
	case err != nil:
		return result{}, err
	case from == 0:
		return result{text: "There is nothing to send: this conversation is empty."}, nil
	}
	text := fmt.Sprintf("%s, as %s.", capital(named(c)), formatWords[format])
	if older > 0 {
		text += fmt.Sprintf(" It is too long for one file, and comes without its oldest %s.", plural(older, "message"))
	}
	return result{text: text, file: &conversation.Transcript{
		Name:         exportName(c) + "." + string(format),
		Conversation: c.ID,
		Format:       string(format),
		From:         from,
		Through:      c.Messages,
	}}, nil
}

// exportName is a title as the name of a file, on any system.
func exportName(c conversation.Conversation) string {
	name := strings.Join(strings.FieldsFunc(strings.ToLower(window.OneLine(c.Title, 60)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}), "-")
	if name == "" {
		return "conversation"
	}
	return name
}
