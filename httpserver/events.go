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

// Events is a stream of events to one listener. Nothing is kept for a slow
// one: a write that takes longer than the server's WriteTimeout fails, and
// ends the stream.
type Events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
}

// OpenEvents begins the answer. The stream ends when the handler returns,
// which it must when Send fails or the request's context ends.
func OpenEvents(w http.ResponseWriter) *Events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	return &Events{w: w, control: http.NewResponseController(w)}
}

// Send hands events to the connection, all at once.
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

// Beat shows that the stream is alive, to proxies and to a listener that is
// gone. Once in 15 seconds is what the standard advises.
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

// breaks end a line in the stream, or make the listener ignore an id.
const breaks = "\n\r\x00"

// line writes a field, without what would end it.
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

// maxBuffer is what a listener's buffer keeps, in bytes. Most are silent after
// a long beginning.
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
