// Package transcript writes conversations for people and for other programs. It
// writes them message by message: however long a conversation is, only one message
// is in memory. It also writes archives, which hold all that is stored, and parses
// their records.
package transcript

import (
	"fmt"
	"io"
	"iter"
	"strings"

	"parley/conversation"
)

// Writer writes conversations to an underlying writer, which should be buffered.
// Its errors are those of the underlying writer. Copy writes a whole conversation.
type Writer interface {
	// Conversation begins a conversation.
	Conversation(c conversation.Conversation) error

	// Message writes the next message of the conversation.
	Message(m conversation.Message) error

	// Close ends the document. It does not close the underlying writer.
	Close() error
}

// Format is a way to write conversations.
type Format string

const (
	Markdown Format = "md"    // for people: what was said, and which tools were called
	JSON     Format = "json"  // one document with every stored message
	JSONL    Format = "jsonl" // every stored message, one on each line
)

// MediaType returns the media type of files of the format, "" for an unknown one.
func (f Format) MediaType() string {
	switch f {
	case Markdown:
		return "text/markdown; charset=utf-8"
	case JSON:
		return "application/json"
	case JSONL:
		return "application/jsonl"
	}
	return ""
}

// ParseFormat returns the format with a name, in upper or lower case. An unknown name is an error.
func ParseFormat(name string) (Format, error) {
	switch f := Format(strings.ToLower(name)); f {
	case Markdown, JSON, JSONL:
		return f, nil
	}
	return "", fmt.Errorf("format: found %q, allowed: md, json, jsonl", name)
}

// NewWriter returns a Writer for the conversations of one session. place is the name that
// people know the session by, "" if there is none.
func NewWriter(out io.Writer, format Format, key conversation.Key, place string) Writer {
	switch format {
	case JSON:
		return &jsonWriter{out: out, key: key, place: place}
	case JSONL:
		return &lineWriter{out: out, key: key}
	}
	return &markdownWriter{out: out, key: key, place: place}
}

// Copy writes a conversation and its messages, one by one as they are read. The error is
// that of reading or that of the underlying writer.
func Copy(w Writer, c conversation.Conversation, messages iter.Seq2[conversation.Message, error]) error {
	if err := w.Conversation(c); err != nil {
		return err
	}
	for m, err := range messages {
		if err == nil {
			err = w.Message(m)
		}
		if err != nil {
			return fmt.Errorf("the conversation %s: %w", c.ID, err)
		}
	}
	return nil
}
