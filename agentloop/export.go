package agentloop

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"parley/conversation"
)

// maxExport is how much text a file that is sent to a chat holds, in bytes:
// with its framing it stays below the 10 MiB that Discord takes
// (https://discord.com/developers/docs/reference#uploading-files); Telegram
// takes 50 MB.
const maxExport = 4 << 20

// exportConversation reads "/export [md|json]".
func exportConversation(l *loop, ctx context.Context, turn conversation.Turn, arguments string) (result, error) {
	format, words := conversation.FormatMarkdown, "Markdown"
	switch strings.ToLower(arguments) {
	case "", "md", "markdown":
	case "json":
		format, words = conversation.FormatJSON, "JSON"
	default:
		return result{text: fmt.Sprintf("A conversation is sent as `md` or `json`, not as %s.", quoted(oneLine(arguments, 20)))}, nil
	}
	c := turn.Conversation
	if c.Messages == 0 {
		return result{text: "There is nothing to send: this conversation is empty."}, nil
	}
	from, err := l.Store.Newest(ctx, c, maxExport)
	if err != nil {
		return result{}, err
	}
	text := fmt.Sprintf("%s, as %s.", capital(named(c)), words)
	if from > 1 {
		text += fmt.Sprintf(" It is too long for one file, and comes without its oldest %s.", plural(from-1, "message"))
	}
	return result{text: text, file: &conversation.Transcript{
		Name:         exportName(c) + "." + string(format),
		Conversation: c.ID,
		Format:       format,
		From:         from,
		Through:      c.Messages,
	}}, nil
}

// exportName is a title as the name of a file, on any system.
func exportName(c conversation.Conversation) string {
	name := strings.Join(strings.FieldsFunc(strings.ToLower(oneLine(c.Title, 60)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}), "-")
	if name == "" {
		return "conversation"
	}
	return name
}
