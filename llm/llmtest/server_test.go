package llmtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/llm/llmtest"
)

// post sends a body and returns the status and what the server says.
func post(t *testing.T, s *llmtest.Server, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestBrokenRequestsAreRefused(t *testing.T) {
	t.Parallel()
	const (
		user  = `{"role":"user","content":"hi"}`
		calls = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		doneA = `{"role":"tool","tool_call_id":"a","content":"1"}`
		doneB = `{"role":"tool","tool_call_id":"b","content":"2"}`
	)
	list := func(messages ...string) string {
		return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
	}
	for name, test := range map[string]struct{ body, want string }{
		"no JSON":             {`{"model"`, "could not parse"},
		"invalid UTF-8":       {list(`{"role":"user","content":"` + "\xff" + `"}`), "could not parse"},
		"no model":            {`{"messages":[` + user + `]}`, "must provide a model"},
		"no messages":         {list(), "empty array"},
		"unknown field":       {`{"model":"m","messages":[` + user + `],"foo":1}`, "Unknown parameter"},
		"wrong type":          {`{"model":"m","messages":[` + user + `],"stream":"yes"}`, "Invalid type"},
		"content is a number": {list(`{"role":"user","content":7}`), "Invalid type"},
		"key twice":           {`{"model":"m","messages":null,"messages":[` + user + `]}`, "Duplicate parameter: 'messages'"},
		"nested key twice":    {list(strings.Replace(calls, `"arguments":"{}"`, `"arguments":"{}","arguments":"{}"`, 1)), "Duplicate parameter: 'messages/0/tool_calls/0/function/arguments'"},
		"key twice in schema": {`{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","type":"object"}}}]}`, "Duplicate parameter: 'tools/0/function/parameters/type'"},
		"unknown role":        {list(`{"role":"bot","content":"hi"}`), "Supported values"},
		"no content":          {list(`{"role":"user"}`), "got null"},
		"NUL":                 {list(`{"role":"user","content":"\u0000"}`), "NUL"},
		"stray result":        {list(user, doneA), "must be a response to a preceeding message"},
		"result too late":     {list(calls, doneA, doneB, user, doneA), "must be a response to a preceeding message"},
		"result twice":        {list(calls, doneA, doneA), "must be a response to a preceeding message"},
		"result missing":      {list(calls, doneA, user), "did not have response messages: b"},
		"results missing":     {list(user, calls), "did not have response messages: a, b"},
		"empty id":            {list(strings.ReplaceAll(calls, `"a"`, `""`)), "empty string"},
		"id too long":         {list(strings.ReplaceAll(calls, `"a"`, `"`+strings.Repeat("x", 41)+`"`)), "too long"},
		"same id":             {list(strings.ReplaceAll(calls, `"b"`, `"a"`), doneA, doneA), "duplicate"},
		"bad tool":            {`{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f","parameters":null}}]}`, "Invalid schema"},
		"bad tool name":       {`{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"a b","parameters":{"type":"object"}}}]}`, "pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.New(t)
			status, said := post(t, s, test.body)
			if status != http.StatusBadRequest || !strings.Contains(said, test.want) {
				t.Errorf("status %d: %s; want 400 and %q", status, said, test.want)
			}
			if s.Refused() != 1 || len(s.Calls()) != 0 {
				t.Errorf("refused %d, calls %d; want 1 and 0", s.Refused(), len(s.Calls()))
			}
		})
	}
	s := llmtest.New(t)
	if status, said := post(t, s, list(user, calls, doneB, doneA, user)); status != http.StatusOK {
		t.Errorf("a good list is refused: %s", said)
	}
}

func TestContextWindow(t *testing.T) {
	t.Parallel()
	s := llmtest.New(t)
	s.ContextWindow(50)
	long, _ := json.Marshal(strings.Repeat("word ", 100))
	status, said := post(t, s, `{"model":"m","messages":[{"role":"user","content":`+string(long)+`}]}`)
	if status != http.StatusBadRequest || !strings.Contains(said, "context_length_exceeded") {
		t.Errorf("status %d: %s", status, said)
	}
	if status, _ := post(t, s, `{"model":"m","messages":[{"role":"user","content":"short"}]}`); status != http.StatusOK {
		t.Errorf("a short list is refused")
	}
}

func TestEchoAndRecord(t *testing.T) {
	t.Parallel()
	s := llmtest.New(t)
	_, said := post(t, s, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if !strings.Contains(said, `"content":"echo: hi"`) {
		t.Errorf("answered %s", said)
	}
	_, said = post(t, s, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	if !strings.Contains(said, "echo: hi") || !strings.HasSuffix(said, "data: [DONE]\n\n") {
		t.Errorf("streamed %s", said)
	}
	if calls := s.Calls(); len(calls) != 2 || calls[1].N != 2 || calls[1].LastUser() != "hi" {
		t.Errorf("calls %+v", calls)
	}
	s.Quiet()
	post(t, s, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if len(s.Calls()) != 2 || s.Served() != 3 {
		t.Errorf("%d calls recorded of %d, want 2 of 3", len(s.Calls()), s.Served())
	}
}
