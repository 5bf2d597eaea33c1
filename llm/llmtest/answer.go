package llmtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"parley/llm"
)

// Answer says how a call is answered. The zero value is an empty answer.
type Answer struct {
	Text         string
	ToolCalls    []llm.ToolCall
	Reasoning    string      // streamed before the text, as reasoning_content
	FinishReason string      // default: "tool_calls" or "stop"
	Images       []llm.Image // sent as OpenRouter does, in one piece after the text

	Usage   *llm.Usage // default: a token for every four bytes
	NoUsage bool       // leaves out the usage, although it is asked for

	// How it comes.
	Delay      time.Duration   // before the first byte
	ChunkDelay time.Duration   // before every chunk but the first
	Pieces     int             // chunks that the text is cut into; default 8, fewer for short texts
	HoldAt     int             // with Hold: chunks that come before it; at least 1
	Hold       <-chan struct{} // the rest of a stream waits until it is closed
	NotStream  bool            // sends one JSON object although a stream was asked for

	// How it fails.
	Status   int         // status of an error; its body is Body, or an error in OpenAI's form
	Header   http.Header // headers beside the usual ones
	Body     string      // sent as it is, with Status, instead of everything above
	HangUp   bool        // drops the connection instead of answering
	CutAfter int         // drops the connection after so many chunks; 0: never
	NoDone   bool        // ends the stream without [DONE]
	NoFinish bool        // gives no finish reason
	Silence  bool        // keeps the connection open and says nothing where it would end
	Endless  bool        // repeats its pieces until the client goes; the first chunk alone is sent once
}

// write sends the answer. It gives up when the client or the server goes.
func (a Answer) write(closed context.Context, w http.ResponseWriter, r *http.Request, call Call) {
	if !sleep(closed, r.Context(), a.Delay) {
		return
	}
	for name, values := range a.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	switch {
	case a.HangUp:
		panic(http.ErrAbortHandler)
	case a.Body != "":
		a.writeBody(w)
	case a.Status != 0 && a.Status != http.StatusOK:
		(&refusal{status: a.Status, kind: "server_error", message: http.StatusText(a.Status)}).write(w)
	case call.Stream && !a.NotStream:
		a.writeStream(closed, w, r, call)
	default:
		a.writeWhole(w, call)
	}
}

func (a Answer) writeBody(w http.ResponseWriter) {
	if w.Header().Get("Content-Type") == "" && a.Body[0] == '{' {
		w.Header().Set("Content-Type", "application/json")
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = w.Write([]byte(a.Body))
}

func (a Answer) writeStream(closed context.Context, w http.ResponseWriter, r *http.Request, call Call) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	flusher := http.NewResponseController(w)
	var buf []byte
	for i, chunk := range a.chunks(call) {
		if a.CutAfter > 0 && i == a.CutAfter {
			_, _ = w.Write(buf)
			_ = flusher.Flush()
			panic(http.ErrAbortHandler)
		}
		if a.Hold != nil && i == a.HoldAt {
			_, _ = w.Write(buf)
			_ = flusher.Flush()
			buf = buf[:0]
			select {
			case <-a.Hold:
			case <-r.Context().Done():
				return
			case <-closed.Done():
				return
			}
		}
		if i > 0 && a.ChunkDelay > 0 {
			_, _ = w.Write(buf)
			_ = flusher.Flush()
			buf = buf[:0]
			if !sleep(closed, r.Context(), a.ChunkDelay) {
				return
			}
		}
		buf = append(append(append(buf, "data: "...), chunk...), "\n\n"...)
	}
	if !a.NoDone && !a.Silence && !a.Endless {
		buf = append(buf, "data: [DONE]\n\n"...)
	}
	_, _ = w.Write(buf)
	for repeated := a.middle(call); a.Endless && r.Context().Err() == nil && closed.Err() == nil; {
		if _, err := w.Write(repeated); err != nil {
			return
		}
	}
	if a.Silence {
		_ = flusher.Flush()
		sleep(closed, r.Context(), time.Hour)
	}
}

// middle returns the events between the first and the end, as they go over the wire.
func (a Answer) middle(call Call) (events []byte) {
	for _, chunk := range a.chunks(call)[1:] {
		events = append(append(append(events, "data: "...), chunk...), "\n\n"...)
	}
	return events
}

// chunks returns the events of the stream, [DONE] not among them.
func (a Answer) chunks(call Call) [][]byte {
	head := `{"id":"chatcmpl-` + strconv.Itoa(call.N) + `","object":"chat.completion.chunk","created":1700000000,"model":` +
		quoted(call.Model) + `,"choices":[`
	event := func(delta, finish string) []byte {
		return []byte(head + `{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
	}
	events := [][]byte{event(`{"role":"assistant","content":""}`, "null")}
	if a.Reasoning != "" {
		events = append(events, event(`{"reasoning_content":`+quoted(a.Reasoning)+`}`, "null"))
	}
	for _, piece := range pieces(a.Text, a.Pieces) {
		events = append(events, event(`{"content":`+quoted(piece)+`}`, "null"))
	}
	if len(a.Images) > 0 {
		events = append(events, event(`{"images":`+a.images()+`}`, "null"))
	}
	for i, c := range a.ToolCalls {
		index := `{"tool_calls":[{"index":` + strconv.Itoa(i)
		half := runeCut(c.Arguments, len(c.Arguments)/2)
		events = append(events,
			event(index+`,"id":`+quoted(c.ID)+`,"type":"function","function":{"name":`+quoted(c.Name)+`,"arguments":""}}]}`, "null"),
			event(index+`,"function":{"arguments":`+quoted(c.Arguments[:half])+`}}]}`, "null"),
			event(index+`,"function":{"arguments":`+quoted(c.Arguments[half:])+`}}]}`, "null"))
	}
	if !a.NoFinish && !a.Endless {
		events = append(events, event(`{}`, quoted(a.finish())))
	}
	if call.Usage && !a.NoUsage && !a.Endless {
		events = append(events, []byte(head+`],"usage":`+a.usage(call)+`}`))
	}
	return events
}

func (a Answer) writeWhole(w http.ResponseWriter, call Call) {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	message := map[string]any{"role": "assistant", "content": a.Text}
	if a.Text == "" {
		message["content"] = nil
	}
	if a.Reasoning != "" {
		message["reasoning_content"] = a.Reasoning
	}
	if len(a.Images) > 0 {
		message["images"] = json.RawMessage(a.images())
	}
	var calls []any
	for _, c := range a.ToolCalls {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": function{c.Name, c.Arguments}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	body := map[string]any{
		"id": "chatcmpl-" + strconv.Itoa(call.N), "object": "chat.completion", "created": 1700000000, "model": call.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": a.finish()}},
	}
	if !a.NoUsage {
		body["usage"] = json.RawMessage(a.usage(call))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// images returns the pictures as a list of parts.
func (a Answer) images() string {
	list := make([]map[string]any, len(a.Images))
	for i, image := range a.Images {
		list[i] = map[string]any{"type": "image_url", "image_url": map[string]string{
			"url": "data:" + image.MediaType + ";base64," + base64.StdEncoding.EncodeToString(image.Data)}}
	}
	body, _ := json.Marshal(list) // of texts: cannot fail
	return string(body)
}

func (a Answer) finish() string {
	switch {
	case a.FinishReason != "":
		return a.FinishReason
	case len(a.ToolCalls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (a Answer) usage(call Call) string {
	u := a.Usage
	if u == nil {
		u = &llm.Usage{Completion: len(a.Text)/4 + 1}
		for _, m := range call.Messages {
			u.Prompt += len(m.Content)/4 + 4
		}
	}
	return `{"prompt_tokens":` + strconv.Itoa(u.Prompt) + `,"completion_tokens":` + strconv.Itoa(u.Completion) +
		`,"total_tokens":` + strconv.Itoa(u.Prompt+u.Completion) + `,"prompt_tokens_details":{"cached_tokens":` + strconv.Itoa(u.Cached) + `}}`
}

// pieces cuts a text into n pieces, or into up to 8 of at least 16 bytes.
func pieces(text string, n int) []string {
	if text == "" {
		return nil
	}
	if n <= 0 {
		n = min(8, len(text)/16+1)
	}
	size := (len(text) + n - 1) / n
	var cut []string
	for len(text) > size {
		at := runeCut(text, size)
		if at == 0 {
			at = size
		}
		cut = append(cut, text[:at])
		text = text[at:]
	}
	return append(cut, text)
}

// runeCut returns the last offset up to at where a rune of the text begins.
func runeCut(text string, at int) int {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// quoted returns a text as JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s) // a string: cannot fail
	return string(b)
}

// sleep waits, and reports whether client and server are still there.
func sleep(closed, gone context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-closed.Done():
	case <-gone.Done():
	}
	return false
}
