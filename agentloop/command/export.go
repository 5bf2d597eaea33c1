package command

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"parley/conversation"
	"parley/conversation/transcript"
	"parley/plaintext"
)

var exportCommand = Command{
	Name: "export", Arguments: "[md|json|jsonl]", Description: "Send this conversation as a file",
	Options: []Option{{Name: "format", Description: "\"md\" to be read, \"json\" or \"jsonl\" for programs", Default: "md"}},
	Private: true, ReadsTalk: true, Run: exportConversation,
}

// maxExport is the most bytes of text that a file in a chat has. With its framing
// it stays below the 10 MiB that Discord takes
// (https://discord.com/developers/docs/reference#uploading-files); Telegram
// takes 50 MB.
const maxExport = 4 << 20

// formatWords names the formats in a reply.
var formatWords = map[transcript.Format]string{transcript.Markdown: "Markdown", transcript.JSON: "JSON", transcript.JSONL: "JSON lines"}

func exportConversation(ctx context.Context, env Env, r Request) (Result, error) {
	format := transcript.Markdown
	if r.Arguments != "" && !strings.EqualFold(r.Arguments, "markdown") {
		var err error
		if format, err = transcript.ParseFormat(r.Arguments); err != nil {
			return Result{Text: fmt.Sprintf("A conversation is sent as `md`, `json` or `jsonl`, not as %s.", quoted(plaintext.ShortLine(r.Arguments, 20)))}, nil
		}
	}
	c := r.Snapshot.Conversation
	from, older, err := transcript.Newest(ctx, env.Store, c, maxExport)
	switch {
	case err != nil:
		return Result{}, err
	case from == 0:
		return Result{Text: "There is nothing to send: this conversation is empty."}, nil
	}
	text := fmt.Sprintf("%s, as %s.", capital(named(c)), formatWords[format])
	if older > 0 {
		text += fmt.Sprintf(" It is too long for one file, and comes without its oldest %s.", plural(older, "message"))
	}
	return Result{Text: text, File: &conversation.Transcript{
		Name:         exportName(c) + "." + string(format),
		Conversation: c.ID,
		Format:       string(format),
		From:         from,
		Through:      c.Messages,
	}}, nil
}

// exportName returns a file name made of the title, without its extension, that
// every system takes.
func exportName(c conversation.Conversation) string {
	name := strings.Join(strings.FieldsFunc(strings.ToLower(plaintext.ShortLine(c.Title, 60)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}), "-")
	if name == "" {
		return "conversation"
	}
	return name
}
