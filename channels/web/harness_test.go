package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/media"
	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
	"parley/tools"
)

// harness is a gateway that runs in the test's process, and a browser on its web chat.
type harness struct {
	t       *testing.T
	gw      *gatewaytest.Gateway
	browser *gatewaytest.Browser
	model   *llmtest.Server
	store   *conversation.Store
}

func newHarness(t *testing.T, sections ...string) *harness {
	t.Helper()
	gw := gatewaytest.New(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll + "[files]\nmax_file = 8\n" + strings.Join(sections, "\n"), Tools: []tools.Tool{{
		Name: "show", Parameters: json.RawMessage(`{"type":"object"}`),
		Call: func(_ context.Context, arguments json.RawMessage) (tools.Result, error) {
			return tools.Result{Text: "shown: " + string(arguments), Pictures: []media.Image{{Data: []byte("\x89PNG\r\n\x1a\n")}}}, nil
		},
	}}})
	h := &harness{t: t, gw: gw, model: gw.Model}
	h.start()
	h.browser = gatewaytest.NewBrowser(t, gw.URL)
	return h
}

// start starts the gateway. A restart keeps its address.
func (h *harness) start() {
	h.t.Helper()
	h.gw.Start()
	h.store = h.gw.Store()
}

// end shuts the gateway down.
func (h *harness) end() {
	h.t.Helper()
	h.browser.Client.CloseIdleConnections()
	h.gw.Stop()
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// post sends a form like a page's script, or, with page, like a browser without scripts.
func (h *harness) post(path string, fields url.Values, page bool, files ...sent) (status int, body string) {
	h.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for name, values := range fields {
		h.must(w.WriteField(name, values[0]))
	}
	for _, f := range files {
		header := textproto.MIMEHeader{"Content-Disposition": {multipart.FileContentDisposition("file", f.name)}, "Content-Type": {f.mediaType}}
		part, err := w.CreatePart(header)
		h.must(err)
		_, err = part.Write(f.data)
		h.must(err)
	}
	h.must(w.Close())
	r, err := http.NewRequest(http.MethodPost, h.browser.URL+path, &form)
	h.must(err)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Accept", "application/json")
	if page {
		r.Header.Set("Accept", "text/html")
	}
	status, body, _ = h.browser.Do(r)
	return status, body
}

// sent is a file of a message.
type sent struct {
	name, mediaType string
	data            []byte
}

// say sends a message, which must be accepted.
func (h *harness) say(name, text string, files ...sent) {
	h.t.Helper()
	if status, body := h.post("/chat/"+name+"/messages", url.Values{"text": {text}}, false, files...); status != http.StatusAccepted {
		h.t.Fatalf("%q is answered %d: %s", text, status, body)
	}
}

// await waits until no message of a chat waits for an answer.
func (h *harness) await(name string) {
	h.t.Helper()
	gatewaytest.Await(h.t, "the answer", func() bool {
		waiting, err := h.store.Inbox(h.t.Context(), conversation.Key("web:"+name), 1)
		h.must(err)
		return len(waiting) == 0
	})
}

// ask sends a message and waits for the end of its run.
func (h *harness) ask(name, text string, files ...sent) {
	h.t.Helper()
	h.say(name, text, files...)
	h.await(name)
}

// active returns a chat's active conversation.
func (h *harness) active(name string) conversation.Conversation {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), conversation.Key("web:"+name))
	h.must(err)
	return c
}

// stream is the event stream of a chat's page.
type stream struct {
	h     *harness
	body  io.Closer
	lines *bufio.Scanner
	at    string // the id of the last event
}

// update holds the fields of an event that the tests look at.
type update struct {
	Reload  bool
	Entries *[]struct{ ID, HTML string }
	Waiting *string
	Working *bool
	Calls   *string
	Keep    int
	Blocks  *string
	Title   *string
	Chats   *string
}

// follow opens the stream of a chat from an event on.
func (h *harness) follow(name, at string) *stream {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Minute) // in which what a test waits for must come
	h.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.browser.URL+"/chat/"+name+"/events", nil)
	h.must(err)
	r.Header.Set("Last-Event-ID", at)
	patient := http.Client{Jar: h.browser.Client.Jar} // a stream has no end
	answer, err := patient.Do(r)
	h.must(err)
	if answer.StatusCode != http.StatusOK {
		h.t.Fatalf("the stream answers %d", answer.StatusCode)
	}
	h.t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 4<<20)
	return &stream{h: h, body: answer.Body, lines: lines}
}

// next returns the next update.
func (s *stream) next() (u update) {
	s.h.t.Helper()
	for s.lines.Scan() {
		if id, is := strings.CutPrefix(s.lines.Text(), "id: "); is {
			s.at = id
		}
		if data, is := strings.CutPrefix(s.lines.Text(), "data: "); is {
			s.h.must(json.Unmarshal([]byte(data), &u))
			return u
		}
	}
	s.h.t.Fatalf("the stream has ended: %v", s.lines.Err())
	return u
}

// until reads updates up to the first wanted one, and returns it.
func (s *stream) until(wanted func(update) bool) update {
	s.h.t.Helper()
	for {
		if u := s.next(); wanted(u) {
			return u
		}
	}
}

// brings reports whether an update has an entry that contains a text.
func (u update) brings(text string) bool {
	if u.Entries == nil {
		return false
	}
	for _, e := range *u.Entries {
		if strings.Contains(e.HTML, text) {
			return true
		}
	}
	return false
}
