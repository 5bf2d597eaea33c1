package httpserver

import (
	"bytes"
	"net/http"
	"strings"
)

// Event is one server-sent event:
// https://html.spec.whatwg.org/multipage/server-sent-events.html
type Event struct {
	ID   string // where the listener goes on after a broken connection; "" leaves that as it is
	Name string // "" is "message"
	Data string // lines end in \n
}

// Events is a stream of events to one client. Nothing is buffered for a slow
// client: a write that takes longer than the server's WriteTimeout fails, and
// ends the stream.
type Events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
}

// OpenEvents begins the response, so that the client knows at once that the stream is
// open. The stream ends when the handler returns, which it must do when Send fails or
// the request's context ends.
func OpenEvents(w http.ResponseWriter) *Events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	e := &Events{w: w, control: http.NewResponseController(w)}
	_ = e.control.Flush() // Send returns the error of a broken connection
	return e
}

// Send writes events to the connection, all at once.
func (e *Events) Send(events ...Event) error {
	e.buffer.Reset()
	for _, event := range events {
		e.field("id", event.ID)
		e.field("event", event.Name)
		for line := range strings.SplitSeq(event.Data, "\n") {
			e.line("data", line)
		}
		e.buffer.WriteByte('\n')
	}
	return e.flush()
}

// Beat writes a comment as a sign of life, which shows proxies that the stream is
// alive and the server that the client is gone. The standard advises one every 15
// seconds.
func (e *Events) Beat() error {
	e.buffer.Reset()
	e.buffer.WriteString(":\n\n")
	return e.flush()
}

func (e *Events) field(name, value string) {
	if value != "" {
		e.line(name, value)
	}
}

// breaks are the characters that end a line of the stream, or make the client
// ignore an id.
const breaks = "\n\r\x00"

// line writes a field, without the characters that would end it.
func (e *Events) line(name, value string) {
	e.buffer.WriteString(name)
	e.buffer.WriteString(": ")
	if strings.ContainsAny(value, breaks) {
		value = strings.Map(func(r rune) rune {
			if strings.ContainsRune(breaks, r) {
				return -1
			}
			return r
		}, value)
	}
	e.buffer.WriteString(value)
	e.buffer.WriteByte('\n')
}

// maxBuffer is how many bytes of buffer a stream keeps. Most streams are silent
// after a long beginning.
const maxBuffer = 4 << 10

func (e *Events) flush() error {
	defer func() {
		if e.buffer.Cap() > maxBuffer {
			e.buffer = bytes.Buffer{}
		}
	}()
	if _, err := e.w.Write(e.buffer.Bytes()); err != nil {
		return err
	}
	return e.control.Flush()
}
