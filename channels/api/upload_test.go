package api_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

const filesOf = "/api/v1/sessions/" + task + "/files"

// A file is uploaded first, and sent with the message that names it.
func TestUploadedFileIsSentWithTheMessageThatNamesIt(t *testing.T) {
	t.Parallel()
	g := start(t)
	large := strings.Repeat("a line of a long report\n", 500_000) // beyond what JSON may have
	up := func(text string) reply {
		return g.do("POST", filesOf+"?name=report.txt", text, "Content-Type: text/plain", "Idempotency-Key: report")
	}
	first := up(large)
	if first.status != http.StatusCreated || first.object["name"] != "report.txt" || first.object["media_type"] != "text/plain" || first.object["size"] != float64(len(large)) {
		t.Fatalf("%d %s", first.status, first.text)
	}
	if r := up(large); r.status != http.StatusCreated || r.object["id"] != first.object["id"] {
		t.Errorf("repeated: %d %s", r.status, r.text)
	}
	if r := up("another text"); r.status != http.StatusUnprocessableEntity {
		t.Errorf("another file with the key: %d %s", r.status, r.text)
	}
	ask := func(session, key string) reply {
		return g.do("POST", "/api/v1/sessions/"+session+"/messages", `{"text":"read it","files":[{"id":"`+first.object["id"].(string)+`"}]}`, "Idempotency-Key: "+key)
	}
	if r := ask("api:other", "1"); r.status != http.StatusUnprocessableEntity {
		t.Errorf("from another session: %d %s", r.status, r.text)
	}
	for range 2 { // the second time it is a repeat
		if r := ask(task, "read"); r.object["status"] != "done" {
			t.Fatalf("%d %s", r.status, r.text)
		}
	}
	if r := ask(task, "again"); r.status != http.StatusUnprocessableEntity {
		t.Errorf("in another message: %d %s", r.status, r.text)
	}
	if calls := g.model.Calls(); len(calls) != 1 || !strings.Contains(calls[0].Messages[len(calls[0].Messages)-1].Content, "a line of a long report") {
		t.Errorf("the model was called %d times", len(calls))
	}
	list := g.get("/sessions/" + task + "/messages")["messages"].([]any)
	file := list[0].(object)["files"].([]any)[0].(object)
	if r := g.do("GET", file["url"].(string), ""); r.status != http.StatusOK || r.text != large {
		t.Errorf("%v leads to %d, %d bytes", file, r.status, len(r.text))
	}
}

func TestAFileIsUploadedAsAForm(t *testing.T) {
	t.Parallel()
	g := start(t)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, _ := form.CreateFormFile("file", `C:\plans\plan.md`)
	_, _ = io.WriteString(part, "# The plan")
	form.Close()
	r := g.do("POST", filesOf, body.String(), "Content-Type: "+form.FormDataContentType())
	if r.status != http.StatusCreated || r.object["name"] != "plan.md" || r.object["size"] != 10.0 {
		t.Errorf("%d %s", r.status, r.text)
	}
	for name, c := range map[string]struct {
		path, body, kind string
		status           int
	}{
		"no name":        {filesOf, "text", "text/plain", 422},
		"no bytes":       {filesOf + "?name=a.txt", "", "text/plain", 422},
		"a broken form":  {filesOf, "no form", "multipart/form-data; boundary=x", 400},
		"another's room": {"/api/v1/sessions/web:home/files?name=a.txt", "text", "text/plain", 403},
	} {
		if r := g.do("POST", c.path, c.body, "Content-Type: "+c.kind); r.status != c.status {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
}

// zeroBody is a request body of left bytes that counts how many were read.
type zeroBody struct {
	left int64
	read atomic.Int64
}

func (z *zeroBody) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	z.left -= int64(n)
	z.read.Add(int64(n))
	return n, nil
}

// A file of 2 GB is refused before much of it was sent.
func TestAHugeUploadIsRefusedEarly(t *testing.T) {
	t.Parallel()
	g := start(t, "[files]", "max_file = 2")
	for name, length := range map[string]int64{"said": 2 << 30, "not said": -1} {
		body := &zeroBody{left: 2 << 30}
		request, err := http.NewRequestWithContext(t.Context(), "POST", g.url+filesOf+"?name=huge.bin", body)
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = length
		request.Header.Set("Content-Type", "application/octet-stream")
		request.Header.Set("Expect", "")
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "2.") {
				t.Errorf("%s: %d %s", name, response.StatusCode, text)
			}
		}
		if read := body.read.Load(); read > 32<<20 {
			t.Errorf("%s: %d bytes were read", name, read)
		}
	}
}

// A program repeats an upload that it got no answer to, and that has taken the last room of its session: it is told of the
// upload, not that there is no room for another one.
func TestUploadIsRepeatedWhereNoRoomIsLeft(t *testing.T) {
	t.Parallel()
	g := start(t, "[files]", "max_file = 1", "max_session = 1")
	up := func(size int) reply {
		return g.do("POST", filesOf+"?name=report.txt", strings.Repeat("x", size), "Content-Type: text/plain", "Idempotency-Key: report")
	}
	first := up(700 << 10)
	if again := up(700 << 10); first.status != http.StatusCreated || again.status != http.StatusCreated || again.object["id"] != first.object["id"] {
		t.Errorf("%d %s, repeated %d %s", first.status, first.text, again.status, again.text)
	}
	if r := up(800 << 10); r.status != http.StatusUnprocessableEntity {
		t.Errorf("another file with the key: %d %s", r.status, r.text)
	}
}

// The pictures of an answer are in the reply, in the messages, and in OpenAI's protocol in
// OpenRouter's format.
func TestPicturesOfAnAnswerAreInEveryFormatOfIt(t *testing.T) {
	t.Parallel()
	g := start(t)
	png := llm.Image{MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n and more")}
	for range 5 {
		g.model.Script(llmtest.Answer{Text: "Here it is.", Images: []llm.Image{png}})
	}
	r := g.ask(task, "draw a cat")
	images, _ := r.object["images"].([]any)
	if len(images) != 1 {
		t.Fatalf("%d %s", r.status, r.text)
	}
	shown := g.do("GET", images[0].(object)["url"].(string), "")
	if shown.status != http.StatusOK || shown.text != string(png.Data) {
		t.Errorf("%v leads to %d %q", images[0], shown.status, shown.text)
	}
	list := g.get("/sessions/" + task + "/messages")["messages"].([]any)
	if got := list[1].(object)["images"].([]any)[0].(object)["url"]; got != images[0].(object)["url"] {
		t.Errorf("the message has %v", got)
	}
	const data = `"images":[{"type":"image_url","index":0,"image_url":{"url":"data:image/png;base64,iVBORw0KGgogYW5kIG1vcmU="}}]`
	for name, body := range map[string]string{
		"of a session": `{"user":"default","messages":[{"role":"user","content":"draw a dog"}]}`,
		"stateless":    `{"messages":[{"role":"user","content":"draw a dog"}]}`,
	} {
		if r := g.do("POST", "/v1/chat/completions", body); !strings.Contains(r.text, data) {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
		found := false
		for _, e := range g.open("POST", "/v1/chat/completions", strings.Replace(body, "{", `{"stream":true,`, 1)).rest() {
			found = found || strings.Contains(e.data, data)
		}
		if !found {
			t.Errorf("%s: no chunk has the picture", name)
		}
	}
}
