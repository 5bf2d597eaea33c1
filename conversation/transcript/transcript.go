// Package transcript writes conversations for people and for other programs,
// one message after the other: however long a conversation is, only a message
// of it is in memory. It also writes archives, which hold all that is stored, and reads
// them back.
package transcript

import (
	"fmt"
	"io"
	"iter"
	"strings"

	"parley/conversation"
)

// Writer writes conversations, each followed by its messages; Copy writes one
// with all of them. Close ends the document and leaves the underlying writer
// open, which had better be a buffered one.
type Writer interface {
	Conversation(c conversation.Conversation) error
	Message(r conversation.Message) error
	Close() error
}

// Format is a way to write conversations.
type Format string

const (
	Markdown Format = "md"    // to be read: what was said, what tools were used
	JSON     Format = "json"  // one document with every message that is stored
	JSONL    Format = "jsonl" // the same, a message a line
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

// ParseFormat reads the name of a format.
func ParseFormat(name string) (Format, error) {
	switch f := Format(strings.ToLower(name)); f {
	case Markdown, JSON, JSONL:
		return f, nil
	}
	return "", fmt.Errorf("format: found %q, allowed: md, json, jsonl", name)
}

// NewWriter returns a Writer for the conversations of one session. place is what
// people call it, "" when nobody said.
func NewWriter(out io.Writer, format Format, key conversation.Key, place string) Writer {
	switch format {
	case JSON:
		return &jsonWriter{out: out, key: key, place: place}
	case JSONL:
		return &lineWriter{out: out, key: key}
	}
	return &markdownWriter{out: out, key: key, place: place}
}

// Copy writes a conversation and its records, as they are read. The error is
// the reader's or the underlying writer's.
func Copy(w Writer, c conversation.Conversation, records iter.Seq2[conversation.Message, error]) error {
	if err := w.Conversation(c); err != nil {
		return err
	}
	for r, err := range records {
		if err == nil {
			err = w.Message(r)
		}
		if err != nil {
			return fmt.Errorf("the conversation %s: %w", c.ID, err)
		}
	}
	return nil
}
