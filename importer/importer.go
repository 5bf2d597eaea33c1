// Package importer reads conversations that were held elsewhere: ChatGPT's data
// export, JSON lines in the form of the chat completions API, and what gateway sessions
// export has written.
package importer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/files"
	"parley/filecontent"
	"parley/llm"
	"parley/plaintext"
)

// Entry is one conversation of a file, or why it could not be read.
type Entry struct {
	Place        string // place in the file: "conversation 17", "line 3"
	Conversation archive.Imported
	Archived     *Archived // set instead of Conversation if the file is an archive
	Err          error     // why the entry can't be read; Conversation is then empty
}

// Archived is a conversation of an archive. Its records are read from the file while they
// are taken; those that are not taken are passed over.
type Archived struct {
	Session archive.Session
	Head    archive.Head
	Records iter.Seq2[archive.Record, error]
}

// Tokens returns what counts the tokens of a message, with its pictures.
func Tokens(counter *llm.Counter) func(conversation.Message) int {
	return func(m conversation.Message) int {
		if m.Role == conversation.RoleAssistant {
			m = window.NameMade(m)
		}
		return counter.Message(window.ToModel(&m))
	}
}

// Keeping says how the files of imported messages are kept, within limits.
func Keeping(store *conversation.Store, limits files.Limits) archive.Keeping {
	content := filecontent.New(files.New(store))
	return archive.Keeping{Limits: limits, Show: func(ctx context.Context, kept files.File) (archive.Shown, error) {
		size := files.Size(kept.Size)
		switch kind := filecontent.KindOf(kept); {
		case kept.Size == 0:
			return archive.Shown{Line: "[file " + kept.Name + ", empty]", Problem: "it is empty"}, nil
		case kind == filecontent.Picture:
			err := content.CheckPicture(ctx, kept)
			if problem, is := errors.AsType[*filecontent.Problem](err); is {
				return archive.Shown{Line: fmt.Sprintf("[file %s, %s, can't be read: %s]", kept.Name, size, problem.Words), Problem: problem.Words}, nil
			}
			return archive.Shown{IsPicture: true}, err
		case kind == filecontent.Text, kind == filecontent.Document:
			return archive.Shown{Line: files.NotShown(kept.Name, kept.Size)}, nil
		}
		return archive.Shown{Line: fmt.Sprintf("[file %s, %s, not shown]", kept.Name, size)}, nil
	}}
}

// source is a conversation as a file tells it.
type source struct {
	id       string // unique within the kind of file
	title    string
	created  time.Time // zero when the file does not say, as all times here
	updated  time.Time
	messages []conversation.Message
}

// imported makes of a source what can be stored: with an ID and a title, with a
// time for every message, and with an answer to every tool call.
func (s source) imported(key conversation.Key, now time.Time) archive.Imported {
	s.messages = pairTools(s.messages)
	begun := s.created
	for _, m := range s.messages {
		if begun.IsZero() {
			begun = m.At
		}
	}
	c := archive.Imported{
		ID:        stableID(key, s.id, begun),
		Title:     cut(cmp.Or(plaintext.OneLine(s.title), s.firstLine())),
		CreatedAt: begun,
		Messages:  s.messages,
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = now
	}
	last := c.CreatedAt
	for i := range c.Messages {
		if c.Messages[i].At.IsZero() {
			c.Messages[i].At = last
		}
		last = c.Messages[i].At
	}
	if c.UpdatedAt = s.updated; c.UpdatedAt.IsZero() {
		c.UpdatedAt = last
	}
	if c.UpdatedAt.After(now) { // it would be the first in all lists for ever, and never be deleted for its age
		c.UpdatedAt = now
	}
	return c
}

func (s source) firstLine() string {
	for _, m := range s.messages {
		if m.Role == conversation.RoleUser {
			line, _, _ := strings.Cut(strings.TrimSpace(m.Content), "\n")
			return plaintext.OneLine(line)
		}
	}
	return ""
}

// stableID is the same UUIDv7 whenever a conversation is imported into a
// session: its time is the conversation's, and a hash takes the place of what is
// random (RFC 9562, section 5.7). An ID that is such a UUID already is kept.
func stableID(key conversation.Key, id string, at time.Time) string {
	if known, err := uuid.Parse(id); err == nil && known.Version() == 7 {
		return known.String()
	}
	sum := sha256.Sum256([]byte(string(key) + "\x00" + id))
	made := uuid.UUID(sum[:16])
	var ms [8]byte
	if !at.IsZero() {
		binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	}
	copy(made[:6], ms[2:])
	made[6] = 0x70 | made[6]&0x0F
	made[8] = 0x80 | made[8]&0x3F
	return made.String()
}

// maxTitle is how long a title may be, in characters: as for /new.
const maxTitle = 80

func cut(title string) string {
	if runes := []rune(title); len(runes) > maxTitle {
		return strings.TrimSpace(string(runes[:maxTitle-1])) + "…"
	}
	return title
}

// lastSecond is the last one of the year 9999: what is later is no time.
const lastSecond = 253402300799

// fromUnix reads seconds since 1970; nil and nonsense are the zero time.
func fromUnix(seconds *float64) time.Time {
	if seconds == nil || *seconds <= 0 || *seconds > lastSecond {
		return time.Time{}
	}
	return time.UnixMilli(int64(*seconds * 1000))
}
