package api_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// sent is a server-sent event.
type sent struct {
	id, name, data string
}

func (s sent) object(t *testing.T) (o object) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.data), &o); err != nil {
		t.Fatalf("%q: %v", s.data, err)
	}
	return o
}

// stream reads events until the connection ends.
type stream struct {
	t      *testing.T
	body   io.ReadCloser
	reader *bufio.Reader
}

// open makes a request that is answered with events.
func (g *gateway) open(method, path, body string, headers ...string) *stream {
	g.t.Helper()
	answer, err := http.DefaultClient.Do(g.request(method, path, body, append(headers, "Accept: text/event-stream")...))
	g.must(err)
	g.t.Cleanup(func() { answer.Body.Close() })
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		text, _ := io.ReadAll(answer.Body)
		g.t.Fatalf("%s %s is answered %d with %s: %s", method, path, answer.StatusCode, kind, text)
	}
	return &stream{g.t, answer.Body, bufio.NewReader(answer.Body)}
}

// next returns the next event; ok is false at the end of the stream.
func (s *stream) next() (e sent, ok bool) {
	for {
		line, err := s.reader.ReadString('\n')
		if err != nil {
			return e, false
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data, ok = value, true
		case "":
			if ok {
				return e, true
			}
		}
	}
}

// until reads up to an event of a name, and returns it.
func (s *stream) until(name string) sent {
	s.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream ended without %q", name)
		}
		if e.name == name {
			return e
		}
	}
}

// rest returns all events up to the end of the stream.
func (s *stream) rest() (all []sent) {
	for {
		e, ok := s.next()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

// deltaText returns the text of the deltas since the last reset.
func deltaText(t *testing.T, events []sent) (text string) {
	t.Helper()
	for _, e := range events {
		switch e.name {
		case "delta":
			text += e.object(t)["text"].(string)
		case "reset":
			text = ""
		}
	}
	return text
}

func names(events []sent) (all []string) {
	for _, e := range events {
		if len(all) == 0 || all[len(all)-1] != e.name || e.name != "delta" {
			all = append(all, e.name)
		}
	}
	return all
}
