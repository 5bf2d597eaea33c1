package api_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/llm"
	"parley/llm/llmtest"
)

// outputText returns the texts of a response's messages.
func outputText(r object) (text string) {
	output, _ := r["output"].([]any)
	for _, item := range output {
		parts, _ := item.(object)["content"].([]any)
		for _, p := range parts {
			text += p.(object)["text"].(string)
		}
	}
	return text
}

// A response without a session is like one of OpenAI: the model is sent the request's instructions and
// input, tool calls in the form of chat completions, and nothing is stored.
func TestAResponseWithoutASessionIsStateless(t *testing.T) {
	t.Parallel()
	g := start(t, "[agent]\nsystem_prompt = \"The gateway's own prompt.\"\n[llm]\nvision = true")
	const gif = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
	r := g.do("POST", "/v1/responses", `{"model":"gpt-5","instructions":"Be brief.","temperature":0.25,"max_output_tokens":77,"metadata":{"a":"b"},
		"text":{"format":{"type":"json_schema","name":"answer","schema":{"type":"object"},"strict":true}},
		"tool_choice":{"type":"function","name":"weather"},"tools":[{"type":"function","name":"weather","parameters":{"type":"object"},"strict":true}],
		"input":[
		{"role":"user","content":"one"},
		{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"two","annotations":[]}]},
		{"type":"reasoning","id":"rs_1","summary":[]},
		{"type":"function_call","id":"fc_1","call_id":"call_1","name":"weather","arguments":"{}","status":"completed"},
		{"type":"function_call","call_id":"call_2","name":"weather","arguments":"{}"},
		{"type":"function_call_output","call_id":"call_1","output":"rain"},
		{"type":"function_call_output","call_id":"call_2","output":[{"type":"input_text","text":"sun"}]},
		{"role":"user","content":[{"type":"input_text","text":"three"},{"type":"input_image","image_url":"`+gif+`","detail":"auto"}]}]}`)
	if r.status != http.StatusOK || r.object["object"] != "response" || r.object["status"] != "completed" || outputText(r.object) != "echo: three" {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if r.object["store"] != false || r.object["metadata"].(object)["a"] != "b" || r.object["usage"].(object)["total_tokens"].(float64) <= 0 {
		t.Errorf("%s", r.text)
	}
	call := g.model.Calls()[0]
	var said []string
	for _, m := range call.Messages {
		line := m.Role + ": " + m.Content
		for _, c := range m.ToolCalls {
			line += " " + c.ID
		}
		said = append(said, line+strings.Repeat(" picture", len(m.Images)))
	}
	const want = "system: Be brief.|user: one|assistant: two call_1 call_2|tool: rain|tool: sun|user: three picture"
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("the model was sent %q", got)
	}
	choice, _ := call.ToolChoice.(object)
	if *call.Temperature != 0.25 || call.MaxTokens != 77 || call.ResponseFormat != "json_schema" || len(call.Tools) != 1 || !call.Tools[0].Strict || choice["type"] != "function" {
		t.Errorf("%+v", call)
	}
	if list := g.get("/sessions")["sessions"].([]any); len(list) != 0 || g.model.Refused() != 0 {
		t.Errorf("sessions: %v, refused: %q", list, g.model.Refusals())
	}
}

// The events of a stream come in OpenAI's order, numbered from 0, and together make up the response at
// the end.
func TestEventsOfAResponse(t *testing.T) {
	t.Parallel()
	g := start(t)
	png := llm.Image{MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n and more")}
	g.model.Script(llmtest.Answer{
		Text: "Rain", Pieces: 1, Images: []llm.Image{png}, FinishReason: "tool_calls",
		ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "weather", Arguments: `{"city":"Bonn"}`}},
	})
	var kinds []string
	events := g.open("POST", "/v1/responses", `{"stream":true,"input":"the weather?","tools":[{"type":"function","name":"weather"}]}`).rest()
	for i, e := range events {
		o := e.object(t)
		if o["type"] != e.name || o["sequence_number"] != float64(i) {
			t.Errorf("event %d is %s %v", i, e.name, o)
		}
		kinds = append(kinds, strings.TrimPrefix(e.name, "response."))
	}
	const want = "created in_progress " +
		"output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done " +
		"output_item.added image_generation_call.in_progress image_generation_call.completed output_item.done " +
		"output_item.added function_call_arguments.delta function_call_arguments.done output_item.done completed"
	if got := strings.Join(kinds, " "); got != want {
		t.Fatalf("the events are %s", got)
	}
	done := events[len(events)-1].object(t)["response"].(object)
	output := done["output"].([]any)
	picture, call := output[1].(object), output[2].(object)
	if outputText(done) != "Rain" || picture["type"] != "image_generation_call" || picture["result"] != base64.StdEncoding.EncodeToString(png.Data) ||
		call["type"] != "function_call" || call["call_id"] != "call_1" || call["arguments"] != `{"city":"Bonn"}` {
		t.Errorf("%v", output)
	}
}

// A program that names a session continues it, and may name the newest response in its place.
// An older response is refused: its history would have to end before what came after it.
func TestResponsesOfASession(t *testing.T) {
	t.Parallel()
	g := start(t)
	first := g.do("POST", "/v1/responses", `{"conversation":"task","instructions":"Be brief.","input":"one","metadata":{"step":"1"}}`)
	if first.status != 200 || outputText(first.object) != "echo: one" || first.object["conversation"].(object)["id"] != "api:task" || first.object["store"] != true {
		t.Fatalf("%d %s", first.status, first.text)
	}
	id := first.object["id"].(string)
	second := g.do("POST", "/v1/responses", `{"previous_response_id":"`+id+`","input":[{"role":"user","content":"old"},{"role":"assistant","content":"old"},
		{"role":"user","content":"two"},{"role":"user","content":"three"}]}`)
	if second.status != 200 || outputText(second.object) != "echo: two\n\nthree" || second.object["previous_response_id"] != id {
		t.Fatalf("%d %s", second.status, second.text)
	}
	const want = "user: one|assistant: echo: one|user: two\n\nthree|assistant: echo: two\n\nthree"
	list := g.get("/sessions/api:task/messages")
	if got := strings.Join(contents(list), "|"); got != want {
		t.Errorf("the session holds %q", got)
	}
	if m := list["messages"].([]any)[1].(object)["metadata"]; m == nil || m.(object)["step"] != "1" {
		t.Errorf("the answer has the metadata %v", m)
	}
	for _, test := range []struct{ body, param string }{
		{`"previous_response_id":"` + id + `"`, "previous_response_id"},
		{`"previous_response_id":"resp_none"`, "previous_response_id"},
		{`"previous_response_id":"` + second.object["id"].(string) + `","user":"ann"`, "previous_response_id"},
		{`"user":"ann","tools":[{"type":"function","name":"f"}]`, "tools"},
		{`"user":"ann","store":false`, "store"},
		{`"user":"ann","truncation":"disabled"`, "truncation"},
	} {
		r := g.do("POST", "/v1/responses", `{`+test.body+`,"input":"again"}`)
		problem, _ := r.object["error"].(object)
		if r.status != 400 || problem["param"] != test.param {
			t.Errorf("%s: %d %s", test.body, r.status, r.text)
		}
	}
	if n := g.model.Served(); n != 2 {
		t.Errorf("the model was asked %d times", n)
	}
}

// What the model says before it calls a tool of the gateway is a message of its own, and the
// whole response has the answer.
func TestAStreamedResponseOfASessionWithTools(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.model.Script(
		llmtest.Answer{Text: "Let me look.", ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "current_time", Arguments: "{}"}}},
		llmtest.Answer{Text: "It is late."})
	var texts []string
	events := g.open("POST", "/v1/responses", `{"user":"ann","stream":true,"input":"what time is it?"}`).rest()
	for _, e := range events {
		if e.name == "response.output_text.done" {
			texts = append(texts, e.object(t)["text"].(string))
		}
	}
	if got := strings.Join(texts, "|"); got != "Let me look.|It is late." || events[len(events)-1].name != "response.completed" {
		t.Errorf("%q, %+v", got, events)
	}
}

// Parameters that the gateway does not support are refused by name, in OpenAI's error format.
func TestUnsupportedParametersOfResponsesAreNamed(t *testing.T) {
	t.Parallel()
	g := start(t)
	for body, param := range map[string]string{
		`{}`:                                 "input",
		`{"input":[]}`:                       "input",
		`{"input":7}`:                        "input",
		`{"input":"hi","background":true}`:   "background",
		`{"input":"hi","store":true}`:        "store",
		`{"input":"hi","prompt":{"id":"p"}}`: "prompt",
		`{"input":"hi","include":["file_search_call.results"]}`:                                                  "include",
		`{"input":"hi","truncation":"auto"}`:                                                                     "truncation",
		`{"input":"hi","max_tool_calls":3}`:                                                                      "max_tool_calls",
		`{"input":"hi","reasoning":{"summary":"auto"}}`:                                                          "reasoning.summary",
		`{"input":"hi","text":{"verbosity":"low"}}`:                                                              "text.verbosity",
		`{"input":"hi","text":{"format":{"type":"grammar"}}}`:                                                    "text.format",
		`{"input":"hi","tools":[{"type":"web_search"}]}`:                                                         "tools[0]",
		`{"input":"hi","tools":[{"type":"function","name":"f","defer_loading":true}]}`:                           "tools[0]",
		`{"input":"hi","tool_choice":{"type":"web_search"}}`:                                                     "tool_choice",
		`{"input":[{"type":"item_reference","id":"msg_1"}]}`:                                                     "input[0]",
		`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"file_1"}]}]}`:                       "input[0]",
		`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}]}`: "input[0]",
		`{"input":"hi","stop":["END"]}`:                                                                          "stop",
		`{"input":"hi","temperature":"hot"}`:                                                                     "temperature",
	} {
		r := g.do("POST", "/v1/responses", body)
		problem, _ := r.object["error"].(object)
		if r.status != http.StatusBadRequest || problem["param"] != param || problem["message"] == "" {
			t.Errorf("%s: %d %s", body, r.status, r.text)
		}
	}
	for _, parameter := range []string{`"store":false`, `"background":false`, `"include":["reasoning.encrypted_content"]`, `"previous_response_id":null`, `"truncation":"disabled"`, `"text":{"format":{"type":"text"},"verbosity":"medium"}`} {
		if r := g.do("POST", "/v1/responses", `{"input":"hi",`+parameter+`}`); r.status != 200 {
			t.Errorf("%s: %d %s", parameter, r.status, r.text)
		}
	}
}

// A failed model is an error with a status before a stream has begun, and ends one that has
// begun. An answer at its limit says that it is not whole.
func TestFailedAndCutResponses(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.model.Script(
		llmtest.Answer{Status: 400, Body: `{"error":{"message":"too long","code":"context_length_exceeded"}}`},
		llmtest.Answer{Text: "Once upon a time there was", CutAfter: 3},
		llmtest.Answer{Text: "Once upon a", FinishReason: "length"})
	r := g.do("POST", "/v1/responses", `{"stream":true,"input":"a story"}`)
	if problem, _ := r.object["error"].(object); r.status != 400 || problem["param"] != "input" || problem["code"] != "context_length_exceeded" {
		t.Errorf("%d %s", r.status, r.text)
	}
	events := g.open("POST", "/v1/responses", `{"stream":true,"input":"a story"}`).rest()
	last := events[len(events)-1]
	if broken := last.object(t)["response"].(object); last.name != "response.failed" || broken["status"] != "failed" || broken["error"].(object)["code"] != "server_error" {
		t.Errorf("%+v", events)
	}
	cut := g.do("POST", "/v1/responses", `{"input":"a story"}`)
	if cut.object["status"] != "incomplete" || cut.object["incomplete_details"].(object)["reason"] != "max_output_tokens" {
		t.Errorf("%s", cut.text)
	}
}

// A stored response can be read again, also after it was continued, until it is deleted. What
// nobody stored is answered with 404 in OpenAI's shape.
func TestStoredResponses(t *testing.T) {
	t.Parallel()
	g := start(t)
	made := g.do("POST", "/v1/responses", `{"conversation":"task","input":"one","metadata":{"step":"1"}}`)
	path := "/v1/responses/" + made.object["id"].(string)
	g.do("POST", "/v1/responses", `{"conversation":"task","input":"two"}`)
	read := g.do("GET", path, "")
	if read.status != http.StatusOK {
		t.Fatalf("%d %s", read.status, read.text)
	}
	delete(made.object, "created_at") // when it was taken, and when it was asked
	delete(made.object, "new_conversation")
	delete(read.object, "created_at")
	delete(read.object, "new_conversation")
	if diff := cmp.Diff(made.object, read.object); diff != "" {
		t.Errorf("it is another one (-made +read):\n%s", diff)
	}
	stateless := g.do("POST", "/v1/responses", `{"input":"alone","store":false}`).object["id"].(string)
	if r := g.do("GET", path+"?include[]=x", ""); r.status != http.StatusBadRequest {
		t.Errorf("an unknown parameter: %d %s", r.status, r.text)
	}
	deleted := g.do("DELETE", path, "")
	if deleted.status != http.StatusOK || deleted.object["deleted"] != true || deleted.object["id"] != made.object["id"] {
		t.Errorf("%d %s", deleted.status, deleted.text)
	}
	for _, method := range []string{"GET", "DELETE"} {
		for _, id := range []string{made.object["id"].(string), stateless, "resp_none", "resp_", "msg_1"} {
			r := g.do(method, "/v1/responses/"+id, "")
			problem, _ := r.object["error"].(object)
			if r.status != http.StatusNotFound || problem["type"] != "invalid_request_error" || !strings.Contains(problem["message"].(string), "not found") {
				t.Errorf("%s %s: %d %s", method, id, r.status, r.text)
			}
		}
	}
	if list := contents(g.get("/sessions/api:task/messages")); len(list) != 4 {
		t.Errorf("the session holds %q", list)
	}
}

// A response that is being answered is in progress and can't be deleted; one whose model failed
// says so.
func TestStoredResponsesThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	g := start(t)
	release := make(chan struct{})
	g.model.Reply(func(c llmtest.Call) llmtest.Answer { <-release; return llmtest.Echo(c) })
	events := g.open("POST", "/v1/responses", `{"conversation":"task","input":"one","stream":true}`)
	created, _ := events.next()
	path := "/v1/responses/" + created.object(t)["response"].(object)["id"].(string)
	if r := g.do("GET", path, ""); r.status != http.StatusOK || r.object["status"] != "in_progress" || r.object["completed_at"] != nil {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := g.do("DELETE", path, ""); r.status != http.StatusConflict {
		t.Errorf("%d %s", r.status, r.text)
	}
	close(release)
	events.rest()
	g.model.Script(llmtest.Answer{Status: 401, Body: `{"error":{"message":"wrong key"}}`})
	failed := g.open("POST", "/v1/responses", `{"conversation":"task","input":"two","stream":true}`).rest()
	id := failed[len(failed)-1].object(t)["response"].(object)["id"].(string)
	r := g.do("GET", "/v1/responses/"+id, "")
	if why, _ := r.object["error"].(object); r.object["status"] != "failed" || why["code"] != "server_error" || why["message"] == "" {
		t.Errorf("%d %s", r.status, r.text)
	}
}
