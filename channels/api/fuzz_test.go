package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"parley/gateway/gatewaytest"
)

// fuzzed are the endpoints whose bodies programs write. NEW stands for the number of a session that nobody has used.
var fuzzed = []struct{ method, path string }{
	{"POST", "/v1/chat/completions"},
	{"POST", "/v1/responses"},
	{"POST", "/api/v1/sessions/api:fuzz-NEW/messages"},
	{"POST", "/api/v1/sessions/api:fuzz-NEW/messages:append"},
	{"PATCH", "/api/v1/sessions/api:fuzz"},
	{"PATCH", "/api/v1/sessions/api:fuzz/state"},
	{"PUT", "/api/v1/sessions/api:fuzz/instructions"},
	{"POST", "/api/v1/sessions/api:fuzz/reminders"},
	{"POST", "/api/v1/sessions/api:fuzz/reset"},
	{"POST", "/mcp"},
}

// Whatever a body holds, it is answered in the API's words or taken, and never an error of the server.
func FuzzBody(f *testing.F) {
	for endpoint, seeds := range [][]string{
		{`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"b"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"max_tokens":5,"temperature":0.5,"stop":["x"]}`,
			`{"messages":[{"role":"user","content":"a"}],"user":"fuzz","stream":true,"stream_options":{"include_usage":true}}`},
		{`{"input":"a","instructions":"b","metadata":{"a":"b"},"max_output_tokens":20}`,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"b"},{"type":"reasoning"}],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"text":{"format":{"type":"json_schema","name":"x","schema":{}}},"stream":true}`},
		{`{"text":"a","files":[{"name":"a.txt","media_type":"text/plain","data":"YQ=="}],"metadata":{"a":1},"model":""}`},
		{`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","metadata":{"a":"\u0000"}}]}`},
		{`{"metadata":{"a":"b","c":null},"model":"","agent":""}`},
		{`{"add_rules":["a"],"add_decisions":["b"]}`},
		{`{"instructions":["a"]}`},
		{`{"text":"a","in_minutes":500000,"every":"FREQ=DAILY","timezone":"Europe/Berlin"}`},
		{`{"keep_system_message":true}`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_sessions","arguments":{"limit":1}}}`},
	} {
		for _, seed := range seeds {
			f.Add(byte(endpoint), []byte(seed))
		}
	}
	var n atomic.Int64
	g := gatewaytest.Start(f, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll})
	f.Fuzz(func(t *testing.T, endpoint byte, body []byte) {
		at := fuzzed[int(endpoint)%len(fuzzed)]
		request, err := http.NewRequestWithContext(t.Context(), at.method, g.URL+strings.ReplaceAll(at.path, "NEW", fmt.Sprint(n.Add(1))), strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode == http.StatusInternalServerError {
			t.Fatalf("%s %s: %s %.300s, %v", at.method, at.path, answer.Status, text, err)
		}
		isJSON := strings.Contains(answer.Header.Get("Content-Type"), "json")
		if isJSON && len(text) > 0 && (!json.Valid(text) || !utf8.Valid(text)) { // answers of other types may repeat a body that is not JSON
			t.Errorf("%s %s: %s %.300q", at.method, at.path, answer.Status, text)
		}
	})
}
