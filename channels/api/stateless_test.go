package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

// A completion without a session is like one of OpenAI: the model is sent the client's messages and
// nothing else, and the gateway stores nothing.
func TestACompletionWithoutASessionIsStateless(t *testing.T) {
	t.Parallel()
	g := start(t, "[agent]\nsystem_prompt = \"The gateway's own prompt.\"")
	r := g.do("POST", "/v1/chat/completions", `{"model":"gpt-4o","temperature":0.25,"top_p":0.5,"max_tokens":77,"stop":["END"],"seed":7,
		"response_format":{"type":"json_object"},"messages":[
		{"role":"system","content":"Answer in JSON."},
		{"role":"user","content":"one"},{"role":"assistant","content":"{}"},
		{"role":"user","content":[{"type":"text","text":"two"}]}]}`)
	if r.status != http.StatusOK || !strings.Contains(r.text, "echo: two") {
		t.Fatalf("%d %s", r.status, r.text)
	}
	call := g.model.Calls()[0]
	var said []string
	for _, m := range call.Messages {
		said = append(said, m.Role+": "+m.Content)
	}
	if got := strings.Join(said, "|"); got != "system: Answer in JSON.|user: one|assistant: {}|user: two" {
		t.Errorf("the model was sent %q", got)
	}
	if *call.Temperature != 0.25 || *call.TopP != 0.5 || call.MaxTokens != 77 || *call.Seed != 7 || call.ResponseFormat != "json_object" || len(call.Tools) != 0 {
		t.Errorf("%+v", call)
	}
	if stop, _ := call.Stop.([]any); len(stop) != 1 || stop[0] != "END" {
		t.Errorf("stop is %v", call.Stop)
	}
	if list := g.get("/sessions")["sessions"].([]any); len(list) != 0 {
		t.Errorf("sessions were made: %v", list)
	}
}

// With stateless = false, such requests go to the default session.
func TestACompletionWithoutASessionGoesToTheDefaultOne(t *testing.T) {
	t.Parallel()
	g := startHTTP(t, "auth = \"none\"\nstateless = false")
	for _, text := range []string{"one", "two"} {
		g.do("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"`+text+`"}]}`)
	}
	if got := strings.Join(contents(g.get("/sessions/api:default/messages")), "|"); got != "user: one|assistant: echo: one|user: two|assistant: echo: two" {
		t.Errorf("%q", got)
	}
}

// A client sends its own tools, calls them itself, and returns the results, with and without
// streaming.
func TestAClientCallsItsOwnTools(t *testing.T) {
	t.Parallel()
	g := start(t)
	const tools = `"tools":[{"type":"function","function":{"name":"weather","description":"The weather","strict":true,
		"parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}],"tool_choice":{"type":"function","function":{"name":"weather"}}`
	called := llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "weather", Arguments: `{"city":"Bonn"}`}, {ID: "call_2", Name: "weather", Arguments: `{}`}}}
	g.model.Script(called, called, llmtest.Answer{Text: "It rains in Bonn."})

	whole := g.do("POST", "/v1/chat/completions", `{`+tools+`,"messages":[{"role":"user","content":"the weather?"}]}`)
	c := whole.object["choices"].([]any)[0].(object)
	calls := c["message"].(object)["tool_calls"].([]any)
	first := calls[0].(object)
	if c["finish_reason"] != "tool_calls" || len(calls) != 2 || first["id"] != "call_1" || first["type"] != "function" ||
		first["function"].(object)["arguments"] != `{"city":"Bonn"}` || c["message"].(object)["content"] != nil {
		t.Errorf("%s", whole.text)
	}
	sent := g.model.Calls()[0]
	if len(sent.Tools) != 1 || sent.Tools[0].Name != "weather" || !sent.Tools[0].Strict || sent.ToolChoice == nil {
		t.Errorf("the model was offered %+v", sent.Tools)
	}

	var names []string
	events := g.open("POST", "/v1/chat/completions", `{"stream":true,`+tools+`,"messages":[{"role":"user","content":"the weather?"}]}`).rest()
	for _, e := range events[:len(events)-1] {
		for _, c := range e.object(t)["choices"].([]any) {
			deltas, _ := c.(object)["delta"].(object)["tool_calls"].([]any)
			for _, d := range deltas {
				if d.(object)["index"] != float64(len(names)) {
					t.Errorf("the index of %v is not %d", d, len(names))
				}
				names = append(names, d.(object)["id"].(string))
			}
		}
	}
	if strings.Join(names, " ") != "call_1 call_2" || events[len(events)-1].data != "[DONE]" {
		t.Errorf("%v in %+v", names, events)
	}

	r := g.do("POST", "/v1/chat/completions", `{`+tools+`,"messages":[{"role":"user","content":"the weather?"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"call_1","content":"rain"}]}`)
	if r.status != 200 || !strings.Contains(r.text, "It rains in Bonn.") {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// Parameters that the gateway does not support are refused by name; those that do not change the answer
// are accepted.
func TestUnsupportedParametersAreRefused(t *testing.T) {
	t.Parallel()
	g := start(t)
	const say = `"messages":[{"role":"user","content":"hi"}]}`
	for parameter, name := range map[string]string{
		`"n":3`:                       "n",
		`"logprobs":true`:             "logprobs",
		`"logit_bias":{"50256":-90}`:  "logit_bias",
		`"modalities":["audio"]`:      "modalities",
		`"functions":[{"name":"f"}]`:  "functions",
		`"top_k":40`:                  "top_k",
		`"temperature":"hot"`:         "temperature",
		`"tools":[{}]`:                "tools[0]",
		`"tools":[{"type":"custom"}]`: "tools[0]",
	} {
		r := g.do("POST", "/v1/chat/completions", "{"+parameter+","+say)
		problem, _ := r.object["error"].(object)
		if r.status != http.StatusBadRequest || problem["param"] != name {
			t.Errorf("%s: %d %s", parameter, r.status, r.text)
		}
	}
	if n := g.model.Served(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	for _, parameter := range []string{`"n":1`, `"logprobs":null`, `"top_k":null`, `"store":false`, `"metadata":{"a":"b"}`, `"modalities":["text"]`, `"user":null`} {
		if r := g.do("POST", "/v1/chat/completions", "{"+parameter+","+say); r.status != 200 {
			t.Errorf("%s: %d %s", parameter, r.status, r.text)
		}
	}
	if n := g.model.Refused(); n != 0 {
		t.Errorf("the model's server refused %q", g.model.Refusals())
	}
}

// When the model fails, a program gets an error with the status and in the format that OpenAI's clients
// know. Nothing is stored, so it may simply ask again.
func TestFailuresOfStatelessCompletions(t *testing.T) {
	t.Parallel()
	g := start(t)
	const say = `"messages":[{"role":"user","content":"hi"}]}`
	for _, test := range []struct {
		answer  llmtest.Answer
		status  int
		code    any
		message string
	}{
		{llmtest.Answer{Status: 401}, 502, nil, "setup is wrong"},
		{llmtest.Answer{Status: 400, Body: `{"error":{"message":"Invalid schema for response_format"}}`}, 400, nil, "Invalid schema for response_format"},
		{llmtest.Answer{Status: 400, Body: `{"error":{"message":"too long","code":"context_length_exceeded"}}`}, 400, "context_length_exceeded", "longer than the model"},
		{llmtest.Answer{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}, 429, "rate_limit_exceeded", "busy"},
	} {
		g.model.Reply(func(llmtest.Call) llmtest.Answer { return test.answer })
		for _, stream := range []string{"", `"stream":true,`} {
			r := g.do("POST", "/v1/chat/completions", "{"+stream+say)
			problem, _ := r.object["error"].(object)
			text, _ := problem["message"].(string)
			if r.status != test.status || problem["code"] != test.code || !strings.Contains(text, test.message) {
				t.Errorf("%d, want %d: %s", r.status, test.status, r.text)
			}
			if test.status == 429 && r.header.Get("Retry-After") != "3600" {
				t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
			}
		}
	}
}

// A stream that breaks off ends with an error: its text can't be taken back, so that a second attempt
// would add another answer to it.
func TestBrokenStatelessStreamEndsWithAnError(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.model.Script(llmtest.Answer{Text: "Once upon a time there was", CutAfter: 3}, llmtest.Answer{Text: "Another story."})
	events := g.open("POST", "/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"a story"}]}`).rest()
	last := events[len(events)-1]
	problem, _ := last.object(t)["error"].(object)
	if problem == nil || !strings.Contains(problem["message"].(string), "broke off") {
		t.Errorf("%+v", events)
	}
}

// A call whose model had only thought so far is repeated: the client has seen nothing of it, and got an
// error instead of the answer.
func TestStatelessStreamGoesOnAfterALostThought(t *testing.T) {
	t.Parallel()
	g := start(t)
	for path, input := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"a story"}]`,
		"/v1/responses":        `"input":"a story"`,
	} {
		g.model.Script(llmtest.Answer{Reasoning: "Which one?", Text: "Never.", CutAfter: 2}, llmtest.Answer{Text: "Once.", Pieces: 1})
		r := g.do("POST", path, `{"stream":true,`+input+`}`)
		if r.status != http.StatusOK || !strings.Contains(r.text, "Once.") {
			t.Errorf("%s: %d %s", path, r.status, r.text)
		}
	}
}

// All errors under /v1 have OpenAI's format, also those of the server in front of the API.
func TestErrorsUnderV1HaveOpenAIsShape(t *testing.T) {
	t.Parallel()
	g := startHTTP(t, "token = \""+token+"\"")
	right := "Authorization: Bearer " + token
	for _, test := range []struct {
		method, path, header string
		status               int
		kind                 string
	}{
		{"POST", "/v1/chat/completions", "", 401, "invalid_request_error"},
		{"POST", "/v1/chat/completions", "Authorization: Bearer wrong-wrong-wrong", 401, "invalid_request_error"},
		{"GET", "/v1/models/none", right, 404, "invalid_request_error"},
		{"POST", "/v1/responses", right, 400, "invalid_request_error"},
		{"GET", "/v1/embeddings", right, 404, "invalid_request_error"},
		{"GET", "/v1/chat/completions", right, 405, "invalid_request_error"},
	} {
		var headers []string
		if test.header != "" {
			headers = append(headers, test.header)
		}
		r := g.do(test.method, test.path, "{}", headers...)
		var body struct {
			Error struct{ Message, Type string }
		}
		if err := json.Unmarshal([]byte(r.text), &body); err != nil || r.status != test.status || body.Error.Type != test.kind || body.Error.Message == "" {
			t.Errorf("%s %s: %d %s", test.method, test.path, r.status, r.text)
		}
	}
	if r := g.do("GET", "/v1/models/test-model", "", right); r.status != 200 || r.object["id"] != "test-model" {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := g.do("GET", "/api/v1/sessions", ""); r.object["title"] != "Unauthorized" {
		t.Errorf("the API itself: %s", r.text)
	}
}

// Pictures are accepted if the model has vision.
func TestPicturesOfAStatelessCompletion(t *testing.T) {
	t.Parallel()
	const asked = `{"messages":[{"role":"user","content":[{"type":"text","text":"what is it?"},
		{"type":"image_url","image_url":{"url":"data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"}}]}]}`
	blind := start(t, "[llm]\nvision = false")
	if r := blind.do("POST", "/v1/chat/completions", asked); r.status != 400 || !strings.Contains(r.text, "takes no pictures") || !strings.Contains(r.text, "messages[0]") {
		t.Errorf("%d %s", r.status, r.text)
	}
	seeing := start(t, "[llm]\nvision = true")
	if r := seeing.do("POST", "/v1/chat/completions", asked); r.status != 200 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if images := seeing.model.Calls()[0].Messages[0].Images; len(images) != 1 || images[0].MediaType != "image/gif" {
		t.Errorf("%+v", images)
	}
}

// What the gateway can't honour is refused by name. A limit of no tokens gave an answer without a limit, and the model was sent
// calls without a name, or an empty answer in place of a call.
func TestRequestThatCantBeHonouredIsRefused(t *testing.T) {
	t.Parallel()
	g := start(t)
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	after := func(said string) string {
		return `"messages":[{"role":"user","content":"hi"},` + said + `,{"role":"user","content":"go on"}]`
	}
	for _, tt := range []struct{ path, body, param, want string }{
		{"/v1/chat/completions", `"max_tokens":0,` + hi, "max_tokens", ">= 1, but got 0"},
		{"/v1/chat/completions", `"max_completion_tokens":-2,` + hi, "max_completion_tokens", ">= 1, but got -2"},
		{"/v1/chat/completions", `"user":"ann","max_tokens":0,` + hi, "max_tokens", ">= 1, but got 0"},
		{"/v1/responses", `"input":"hi","max_output_tokens":0`, "max_output_tokens", ">= 1, but got 0"},
		{"/v1/responses", `"input":"hi","conversation":"ann","max_output_tokens":0`, "max_output_tokens", ">= 1, but got 0"},
		{"/v1/chat/completions", after(`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`), "messages[1]", "function_call"},
		{"/v1/chat/completions", after(`{"role":"assistant","audio":{"id":"a"}}`), "messages[1]", "audio"},
		{"/v1/chat/completions", after(`{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"f","input":"x"}}]}`), "messages[1]", "tool_calls[0]"},
		{"/v1/chat/completions", after(`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}`), "messages[1]", "tool_calls[0]"},
	} {
		r := g.do("POST", tt.path, "{"+tt.body+"}")
		told, _ := r.object["error"].(object)
		if r.status != http.StatusBadRequest || told["param"] != tt.param || !strings.Contains(r.text, tt.want) {
			t.Errorf("%s: %d %s", tt.body, r.status, r.text)
		}
	}
	if n := len(g.model.Calls()); n != 0 {
		t.Errorf("the model was called %d times", n)
	}
}

// The model is sent the refusal of an earlier answer. Clients of local servers send -1 for no limit of tokens.
func TestRefusalOfAnEarlierAnswerReachesTheModel(t *testing.T) {
	t.Parallel()
	g := start(t)
	r := g.do("POST", "/v1/chat/completions", `{"max_tokens":-1,"messages":[{"role":"user","content":"one"},
		{"role":"assistant","content":null,"refusal":"I won't."},{"role":"user","content":"two"}]}`)
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if call := g.model.Calls()[0]; call.Messages[1].Content != "I won't." || call.MaxTokens != 0 {
		t.Errorf("%+v", call)
	}
}

// Each chunk of a stream names the model that answers. The first chunks named the model that had failed.
func TestStreamNamesTheFallbackThatAnswers(t *testing.T) {
	t.Parallel()
	g := start(t, "[llm]\nfallback_models = [\"spare\"]\n")
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Model != "spare" {
			return llmtest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3600"}}}
		}
		return llmtest.Answer{Text: "It is a long answer."}
	})
	events := g.open("POST", "/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`).rest()
	for _, e := range events[:len(events)-1] {
		if model := e.object(t)["model"]; model != "spare" {
			t.Errorf("a chunk names %v: %s", model, e.data)
		}
	}
	for _, e := range g.open("POST", "/v1/responses", `{"stream":true,"input":"hi"}`).rest() {
		if r, ok := e.object(t)["response"].(object); ok && r["model"] != "spare" {
			t.Errorf("%s names %v", e.name, r["model"])
		}
	}
	events = g.open("POST", "/v1/chat/completions", `{"user":"ann","stream":true,"messages":[{"role":"user","content":"hi"}]}`).rest()
	if last := events[len(events)-2].object(t); last["model"] != "spare" {
		t.Errorf("the last chunk in a session names %v", last["model"])
	}
}
