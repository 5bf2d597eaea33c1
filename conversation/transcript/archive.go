package transcript

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/catalog"
	"parley/conversation/metadata"
)

// ArchiveVersion is the version of the archive format. The first version, transcripts, has no
// version number.
const ArchiveVersion = 2

// Kind is the kind of a record in an archive. In JSONL it is the field "type" of a line; in
// JSON the records of a kind are in a list, see KindOfList.
type Kind string

// The kinds of records. In JSONL, the line of a message has no type.
const (
	KindSession      Kind = "session"
	KindConversation Kind = "conversation"
	KindInstructions Kind = "instructions"
	KindRun          Kind = "run"
	KindBackground   Kind = "background_step"
	KindSummary      Kind = "summary"
	KindMessage      Kind = "message"
)

// lists has the names of the lists that hold a conversation's records in JSON.
var lists = map[Kind]string{
	KindInstructions: "instructions", KindRun: "runs", KindBackground: "background_steps", KindSummary: "summaries", KindMessage: "messages",
}

// KindOfList returns the kind of the records in a list of a conversation in JSON, "" for an unknown name.
func KindOfList(name string) Kind {
	for kind, list := range lists {
		if list == name {
			return kind
		}
	}
	return ""
}

// Export writes conversations of a session: in Markdown a transcript for people, in JSON and
// JSONL an archive of all that is stored, which can be imported. With files, an archive has
// the bytes of pictures and files. Only one message is in memory at a time, with its files.
// progress is called for each message.
func Export(ctx context.Context, out io.Writer, format Format, store *conversation.Store, session catalog.Session, list []conversation.Conversation, files bool, progress func()) error {
	if format != Markdown {
		return exportArchive(ctx, out, format, store, session, list, files, progress)
	}
	w := NewWriter(out, format, session.Key, session.Place)
	for _, c := range list {
		messages := func(yield func(conversation.Message, error) bool) {
			for m, err := range store.AllMessages(ctx, conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll}) {
				if !yield(m, err) {
					return
				}
				progress()
			}
		}
		if err := Copy(w, c, messages); err != nil {
			return err
		}
	}
	return w.Close()
}

func exportArchive(ctx context.Context, out io.Writer, format Format, store *conversation.Store, session catalog.Session, list []conversation.Conversation, files bool, progress func()) error {
	head, err := archive.New(store).Session(ctx, session.Key)
	if err != nil {
		return err
	}
	w := newArchiveWriter(out, format)
	w.session(head)
	for _, c := range list {
		archived, err := archive.New(store).Head(ctx, c)
		if err != nil {
			return fmt.Errorf("the conversation %s: %w", c.ID, err)
		}
		w.conversation(archived)
		for r, err := range archive.New(store).Records(ctx, c, files) {
			if err == nil {
				w.record(r)
				err = w.failed()
			}
			if err != nil {
				return fmt.Errorf("the conversation %s: %w", c.ID, err)
			}
			if r.Message != nil {
				progress()
			}
		}
	}
	w.close()
	return w.failed()
}

// archiveWriter writes the records of an archive. After an error, it writes nothing more,
// and failed returns the error.
type archiveWriter interface {
	session(s archive.Session)
	conversation(c archive.Head)
	record(r archive.Record)
	close()
	failed() error
}

func newArchiveWriter(out io.Writer, format Format) archiveWriter {
	if format == JSON {
		return &archiveDocument{checkedWriter: checkedWriter{out: out}}
	}
	return &archiveLines{checkedWriter: checkedWriter{out: out}}
}

// checkedWriter writes texts until the first error, which it keeps.
type checkedWriter struct {
	out io.Writer
	err error
}

func (w *checkedWriter) failed() error { return w.err }

func (w *checkedWriter) print(texts ...string) {
	for _, text := range texts {
		if w.err == nil {
			_, w.err = io.WriteString(w.out, text)
		}
	}
}

// marshal returns v as a JSON object, "" after an error.
func (w *checkedWriter) marshal(v any) string {
	text, err := Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	return string(text)
}

// archiveDocument writes an archive in JSON: one document.
type archiveDocument struct {
	checkedWriter
	conversations int  // the number of conversations that were begun
	list          Kind // the kind of the records in the list that is being written, "" for none
}

func (w *archiveDocument) session(s archive.Session) {
	head := w.marshal(sessionForm(s))
	w.print(withoutEnd(head), `,"conversations":[`)
}

func (w *archiveDocument) conversation(c archive.Head) {
	w.end()
	if w.conversations > 0 {
		w.print(",")
	}
	w.conversations++
	w.print("\n ", withoutEnd(w.marshal(conversationForm(c))))
}

func (w *archiveDocument) record(r archive.Record) {
	kind, form := recordForm(r)
	if kind == w.list {
		w.print(",")
	} else {
		if w.list != "" {
			w.print("\n ]")
		}
		w.list = kind
		w.print(`,"`, lists[kind], `":[`)
	}
	w.print("\n  ", w.marshal(form))
}

// end ends the present conversation, if there is one.
func (w *archiveDocument) end() {
	if w.list != "" {
		w.print("\n ]")
	}
	if w.conversations > 0 {
		w.print("}")
	}
	w.list = ""
}

func (w *archiveDocument) close() {
	w.end()
	w.print("\n]}\n")
}

// archiveLines writes an archive in JSONL: one record on each line.
type archiveLines struct {
	checkedWriter
	current archive.Head // the present conversation
	begun   bool         // whether a message of it was written
}

func (w *archiveLines) session(s archive.Session) {
	w.line(KindSession, w.marshal(sessionForm(s)))
}

func (w *archiveLines) conversation(c archive.Head) {
	w.current, w.begun = c, false
	w.line(KindConversation, w.marshal(conversationForm(c)))
}

func (w *archiveLines) record(r archive.Record) {
	kind, form := recordForm(r)
	if m, is := form.(Message); is {
		m.Session, m.Conversation = w.current.Key, w.current.ID
		if !w.begun {
			m.Title, m.Told = w.current.Title, w.current.State
		}
		w.begun = true
		w.print(w.marshal(m), "\n")
		return
	}
	w.line(kind, w.marshal(form))
}

// line writes a JSON object on a line, with its kind as the first field.
func (w *archiveLines) line(kind Kind, object string) {
	if w.err == nil {
		w.print(`{"type":"`, string(kind), `",`, object[1:], "\n")
	}
}

func (w *archiveLines) close() {}

// withoutEnd returns a JSON object without the closing brace, so that fields can be added.
func withoutEnd(object string) string {
	if object == "" {
		return ""
	}
	return object[:len(object)-1]
}

// rawMetadata returns metadata as JSON, nil for none.
func rawMetadata(m metadata.Object) json.RawMessage {
	if m == "" {
		return nil
	}
	return json.RawMessage(m)
}
