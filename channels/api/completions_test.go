package api_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

// unreachable matches what npm says without a network.
var unreachable = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH`)

// OpenAI's official client for JavaScript gets answers, with and without streaming.
func TestOpenAIsOfficialClientWorksWithTheGateway(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("OpenAI's client is not tested: there is no %s here", program)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/openai")); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = dir
	if said, err := install.CombinedOutput(); unreachable.Match(said) {
		t.Skipf("OpenAI's client is not tested: npm's registry can't be reached: %s", said)
	} else if err != nil {
		t.Fatalf("npm ci: %v\n%s", err, said)
	}
	g := startHTTP(t, "token = \""+token+"\"")
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "fail" {
			return llmtest.Answer{Status: http.StatusUnauthorized}
		}
		switch last := c.Messages[len(c.Messages)-1]; {
		case c.LastUser() == "draw":
			return llmtest.Answer{Text: "Here it is.", Images: []llm.Image{{MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n and more")}}}
		case c.ResponseFormat == "json_schema":
			return llmtest.Answer{Text: `{"a":1}`}
		case last.Role == "tool":
			return llmtest.Answer{Text: "It says: " + last.Content}
		case c.LastUser() == "call":
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "weather", Arguments: "{}"}}}
		}
		return llmtest.Echo(c)
	})
	talk := exec.CommandContext(t.Context(), "node", "talk.mjs", g.url, token)
	talk.Dir = filepath.Clean(dir)
	if said, err := talk.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if n := g.model.Served(); n != 28 {
		t.Errorf("the model was asked %d times", n)
	}
}

// A stream in OpenAI's protocol can't take text back: what a model says before a tool call stays, and
// the answer is a paragraph of its own.
func TestStreamedTextsBeforeAndAfterAToolCallAreParagraphs(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.model.Script(
		llmtest.Answer{Text: "Let me look.", ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "current_time", Arguments: "{}"}}},
		llmtest.Answer{Text: "It is late."})
	var text strings.Builder
	events := g.open("POST", "/v1/chat/completions", `{"user":"default","stream":true,"messages":[{"role":"user","content":"what time is it?"}]}`).rest()
	for _, e := range events[:len(events)-1] {
		for _, c := range e.object(t)["choices"].([]any) {
			content, _ := c.(object)["delta"].(object)["content"].(string)
			text.WriteString(content)
		}
	}
	if text.String() != "Let me look.\n\nIt is late." || events[len(events)-1].data != "[DONE]" {
		t.Errorf("the chunks make %q and end with %+v", text.String(), events[len(events)-1])
	}
	if got := contents(g.get("/sessions/api:default/messages")); strings.Join(got, "|") != "user: what time is it?|assistant: Let me look.|assistant: It is late." {
		t.Errorf("%q", got)
	}
}

// A stream of a stopped answer goes on with the word that it was stopped. What models begin and end with,
// such as an empty line, made it say the whole answer again.
func TestStreamOfAStoppedAnswerSaysItOnce(t *testing.T) {
	t.Parallel()
	g := start(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	held := llmtest.Answer{Text: "\n\nOnce upon a time", Pieces: 2, HoldAt: 2, Hold: hold}
	g.model.Script(held, held)
	stop := func(s *stream, began func(sent) bool) (events []sent) {
		for {
			e, ok := s.next()
			if events = append(events, e); !ok {
				t.Fatalf("the stream ended with %+v", events)
			}
			if began(e) {
				break
			}
		}
		if r := g.ask("api:tales", "/stop"); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.text)
		}
		return append(events, s.rest()...)
	}

	chunks := stop(g.open("POST", "/v1/chat/completions", `{"user":"tales","stream":true,"messages":[{"role":"user","content":"a story"}]}`),
		func(e sent) bool { return strings.Contains(e.data, "Once") })
	var text strings.Builder
	for _, e := range chunks[:len(chunks)-1] {
		content, _ := e.object(t)["choices"].([]any)[0].(object)["delta"].(object)["content"].(string)
		text.WriteString(content)
	}
	if n := strings.Count(text.String(), "Once"); n != 1 || !strings.HasSuffix(text.String(), "Stopped.") {
		t.Errorf("the chunks make %q", text.String())
	}

	events := stop(g.open("POST", "/v1/responses", `{"conversation":"tales","stream":true,"input":"a story"}`),
		func(e sent) bool { return e.name == "response.output_text.delta" })
	last := events[len(events)-1].object(t)["response"].(object)
	if output := last["output"].([]any); len(output) != 1 || strings.Count(outputText(last), "Once") != 1 {
		t.Errorf("the response has %v", output)
	}
}

// The reason why an answer was cut is passed on as the model's server gave it, without a notice in the
// text.
func TestFinishReasonOfACutAnswer(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"length", "content_filter", "stop"} {
		g := start(t)
		g.model.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "Once upon a", FinishReason: reason} })
		const asked = `"user":"tales","messages":[{"role":"user","content":"a story"}]}`

		r := g.do("POST", "/v1/chat/completions", "{"+asked)
		c, _ := r.object["choices"].([]any)[0].(object)
		if c["finish_reason"] != reason || c["message"].(object)["content"] != "Once upon a" {
			t.Errorf("%s, whole: %s", reason, r.text)
		}
		events := g.open("POST", "/v1/chat/completions", `{"stream":true,`+asked).rest()
		last := events[len(events)-2].object(t)["choices"].([]any)[0].(object)
		if last["finish_reason"] != reason {
			t.Errorf("%s, streamed: %+v", reason, events)
		}

		var want any // nothing of a whole one
		if reason != "stop" {
			want = reason
		}
		answered := g.ask("api:one", "a story")
		if answered.object["reply"] != "Once upon a" || answered.object["finish_reason"] != want {
			t.Errorf("%s: %s", reason, answered.text)
		}
		list := g.get("/sessions/api:one/messages")["messages"].([]any)
		if m := list[1].(object); m["content"] != "Once upon a" || m["finish_reason"] != want {
			t.Errorf("%s: %v", reason, m)
		}
		run := g.get("/conversations/" + answered.object["conversation"].(string) + "/trace")["runs"].([]any)[0].(object)
		if run["finish_reason"] != want || run["steps"].([]any)[0].(object)["finish_reason"] != want {
			t.Errorf("%s: %v", reason, run)
		}
	}
}

// OpenAI's clients send the whole history with each message. Only the newest message is read, so that
// unsupported content in the history is no error.
func TestOnlyTheNewestMessageIsRead(t *testing.T) {
	t.Parallel()
	g := start(t)
	r := g.do("POST", "/v1/chat/completions", `{"user":"ann","messages":[
		{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]},
		{"role":"assistant","content":[{"type":"refusal","refusal":"I can't see it."}]},
		{"role":"user","content":[{"type":"text","text":"never mind"}]},
		{"role":"tool","content":[{"type":"strange"}]}]}`)
	if r.status != http.StatusOK || !strings.Contains(r.text, "echo: never mind") {
		t.Errorf("%d %s", r.status, r.text)
	}
}

func TestHostileCompletions(t *testing.T) {
	t.Parallel()
	g := start(t)
	for body, status := range map[string]int{
		``:                  400,
		`[]`:                400,
		`{"messages":"hi"}`: 400,
		`{"messages":[]}`:   400,
		`{"messages":[{"role":"user","content":" "}]}`:                                                                                      400,
		`{"messages":[{"role":"stranger","content":"hi"}]}`:                                                                                 400,
		`{"messages":[{"role":"tool","content":"hi"}]}`:                                                                                     400,
		`{"user":"ann","messages":[{"role":"user"}]}`:                                                                                       422,
		`{"user":"ann","messages":[{"role":"user","content":null}]}`:                                                                        422,
		`{"messages":[{"role":"user","content":7}]}`:                                                                                        400,
		`{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`:                                                                 400,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}]}`:                     400,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}`:                          400,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%%"}}]}]}`:                    400,
		`{"user":"ann","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,//79/A=="}}]}]}`: 422,
		`{"user":"a:b","messages":[{"role":"user","content":"hi"}]}`:                                                                        403,
		`{"user":"a\u0000","messages":[{"role":"user","content":"hi"}]}`:                                                                    400,
		`{"messages":` + strings.Repeat("[", 100_000) + `}`:                                                                                 400,
	} {
		r := g.do("POST", "/v1/chat/completions", body)
		problem, _ := r.object["error"].(object)
		if r.status != status || problem == nil || problem["type"] != "invalid_request_error" || problem["message"] == "" {
			t.Errorf("%.120s: %d, want %d: %.300s", body, r.status, status, r.text)
		}
	}
	if n := g.model.Served(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

// Parameters and the system message of a request apply to its answer alone, also if the gateway is
// killed before that. The system message is added to the session's own.
func TestParametersOfASession(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.post("api:ann", object{"run": false, "role": "system", "text": "The session's own rule."})
	const asked = `{"user":"ann","temperature":0.3,"max_tokens":50,"stop":"END","response_format":{"type":"json_object"},
		"messages":[{"role":"system","content":"Answer in French."},{"role":"user","content":"hello"}]}`
	if r := g.do("POST", "/v1/chat/completions", asked, "Idempotency-Key: one"); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.text)
	}
	call := g.model.Calls()[0]
	if *call.Temperature != 0.3 || call.MaxTokens != 50 || call.Stop != "END" || call.ResponseFormat != "json_object" {
		t.Errorf("%+v", call)
	}
	prompt := call.Messages[0].Content
	if own, theirs := strings.Index(prompt, "The session's own rule."), strings.Index(prompt, "Answer in French."); own < 0 || theirs < own {
		t.Errorf("the model was told %q", prompt)
	}
	if r := g.do("POST", "/v1/chat/completions", strings.Replace(asked, "0.3", "0.4", 1), "Idempotency-Key: one"); r.status != 422 {
		t.Errorf("the same key with another parameter: %d %s", r.status, r.text)
	}
	g.ask("api:ann", "and now?")
	if call := g.model.Calls()[1]; call.Temperature != nil || strings.Contains(call.Messages[0].Content, "French") {
		t.Errorf("the next run still has what one message asked for: %+v", call)
	}
	for _, parameter := range []string{`"tools":[{"type":"function","function":{"name":"f"}}]`, `"tool_choice":"none"`} {
		r := g.do("POST", "/v1/chat/completions", `{"user":"ann",`+parameter+`,"messages":[{"role":"user","content":"hi"}]}`)
		if r.status != 400 || !strings.Contains(r.text, "in a session") {
			t.Errorf("%s: %d %s", parameter, r.status, r.text)
		}
	}
}
