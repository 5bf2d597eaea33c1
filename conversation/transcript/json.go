package transcript

import (
	"fmt"
	"io"

	"parley/conversation"
)

// jsonWriter is the Writer of JSON. It writes one document: the session with its conversations.
type jsonWriter struct {
	out   io.Writer
	key   conversation.Key
	place string

	conversations int // the number of conversations that were begun
	messages      int // the number of messages written of the present conversation
}

func (w *jsonWriter) Conversation(c conversation.Conversation) error {
	if err := w.begin(); err != nil {
		return err
	}
	if w.conversations > 0 {
		if err := w.print("\n ]},\n"); err != nil {
			return err
		}
	}
	w.conversations, w.messages = w.conversations+1, 0
	head, err := Marshal(NewConversation(c))
	if err != nil {
		return err
	}
	return w.print(" %s,\"messages\":[", head[:len(head)-1])
}

// begin writes the head of the document, unless a conversation was begun before.
func (w *jsonWriter) begin() error {
	if w.conversations > 0 {
		return nil
	}
	head, err := Marshal(struct {
		Session conversation.Key `json:"session"`
		Place   string           `json:"place"`
	}{w.key, w.place})
	if err != nil {
		return err
	}
	return w.print("%s,\"conversations\":[\n", head[:len(head)-1])
}

func (w *jsonWriter) Message(r conversation.Message) error {
	line, err := Marshal(NewMessage(r))
	if err != nil {
		return err
	}
	separator := ",\n"
	if w.messages == 0 {
		separator = "\n"
	}
	w.messages++
	return w.print("%s  %s", separator, line)
}

func (w *jsonWriter) Close() error {
	if w.conversations == 0 {
		if err := w.begin(); err != nil {
			return err
		}
		return w.print("]}\n")
	}
	return w.print("\n ]}\n]}\n")
}

func (w *jsonWriter) print(format string, args ...any) error {
	_, err := fmt.Fprintf(w.out, format, args...)
	return err
}

// lineWriter is the Writer of JSONL. It writes one message on each line.
type lineWriter struct {
	out     io.Writer
	key     conversation.Key
	current conversation.Conversation
	begun   bool // whether a message of the present conversation was written
}

func (w *lineWriter) Conversation(c conversation.Conversation) error {
	w.current, w.begun = c, false
	return nil
}

func (w *lineWriter) Message(r conversation.Message) error {
	m := NewMessage(r)
	m.Session, m.Conversation = w.key, w.current.ID
	if !w.begun {
		m.Title, m.Told = w.current.Title, w.current.State
	}
	w.begun = true
	line, err := Marshal(m)
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(line, '\n'))
	return err
}

func (w *lineWriter) Close() error { return nil }
