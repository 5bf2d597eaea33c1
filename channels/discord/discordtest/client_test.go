package discordtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"parley/channels/discord/discordtest"
)

// answer is a response of the REST API.
type answer struct {
	Status     int             `json:"-"`
	Header     http.Header     `json:"-"`
	Raw        []byte          `json:"-"`
	ID         string          `json:"id"`
	Code       int             `json:"code"`
	Message    string          `json:"message"`
	Content    string          `json:"content"`
	Errors     json.RawMessage `json:"errors"`
	RetryAfter float64         `json:"retry_after"`
	Global     bool            `json:"global"`
}

// String returns "200", or the status, code and message of a refusal.
func (a answer) String() string {
	if a.Status < 300 {
		return fmt.Sprint(a.Status)
	}
	return fmt.Sprintf("%d %d %s", a.Status, a.Code, a.Message)
}

func request(t *testing.T, s *discordtest.Server, method, path, contentType, body string) answer {
	t.Helper()
	r, err := http.NewRequest(method, s.URL+"/api/v9"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bot "+discordtest.Token)
	r.Header.Set("User-Agent", "DiscordBot (https://example.org, 1)")
	if body != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return do(t, r)
}

func jsonBody(text string) io.Reader { return strings.NewReader(text) }

func do(t *testing.T, r *http.Request) answer {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	defer resp.Body.Close()
	a := answer{Status: resp.StatusCode, Header: resp.Header}
	if a.Raw, err = io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
	json.Unmarshal(a.Raw, &a) // lists and pages stay raw
	return a
}

func call(t *testing.T, s *discordtest.Server, method, path, body string) answer {
	t.Helper()
	return request(t, s, method, path, "application/json", body)
}

func form(t *testing.T, payload string, files map[string]string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	w.WriteField("payload_json", payload)
	for field, data := range files {
		part, err := w.CreateFormFile(field, "notes.txt")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(part, data)
	}
	w.Close()
	return w.FormDataContentType(), b.String()
}

// frame is a payload that the gateway sends.
type frame struct {
	Op   int             `json:"op"`
	Type string          `json:"t"`
	Seq  int64           `json:"s"`
	Data json.RawMessage `json:"d"`
}

func (f frame) text(field string) string {
	var fields map[string]any
	json.Unmarshal(f.Data, &fields)
	return fmt.Sprint(fields[field])
}

// gateway is a raw client of the gateway.
type gateway struct {
	t  *testing.T
	ws *websocket.Conn
}

func dial(t *testing.T, s *discordtest.Server) gateway {
	t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.URL, "http")+"/?v=9&encoding=json", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	ws.SetReadDeadline(time.Now().Add(90 * time.Second))
	return gateway{t, ws}
}

func (g gateway) send(payload string) {
	g.t.Helper()
	if err := g.ws.WriteMessage(websocket.TextMessage, []byte(payload)); err != nil {
		g.t.Fatal(err)
	}
}

func (g gateway) next() frame {
	g.t.Helper()
	var f frame
	if err := g.ws.ReadJSON(&f); err != nil {
		g.t.Fatal(err)
	}
	return f
}

// event reads up to the next event of a type.
func (g gateway) event(kind string) frame {
	g.t.Helper()
	for {
		if f := g.next(); f.Type == kind {
			return f
		}
	}
}

// closed returns the code with which the server closes the connection.
func (g gateway) closed() int {
	g.t.Helper()
	for {
		_, _, err := g.ws.ReadMessage()
		if closing, ok := err.(*websocket.CloseError); ok {
			return closing.Code
		}
		if err != nil {
			g.t.Fatal(err)
		}
	}
}

func identify(intents int, more string) string {
	return fmt.Sprintf(`{"op":2,"d":{"token":%q,"properties":{},"intents":%d%s}}`, discordtest.Token, intents, more)
}

const usualIntents = 1<<0 | 1<<9 | 1<<12 | 1<<15

// ready returns a client that has begun a session, and the READY event.
func ready(t *testing.T, s *discordtest.Server, more string) (gateway, frame) {
	t.Helper()
	g := dial(t, s)
	if hello := g.next(); hello.Op != 10 {
		t.Fatalf("HELLO is %+v", hello)
	}
	g.send(identify(usualIntents, more))
	return g, g.event("READY")
}
