package api_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

const task = "api:task-42"

func TestAMessageIsAnswered(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.model.Script(llmtest.Answer{Text: "All tests pass.", Usage: &llm.Usage{Prompt: 30, Completion: 4}})
	r := g.ask(task, "Which tests fail?")
	want := object{"prompt_tokens": 30.0, "completion_tokens": 4.0, "total_tokens": 34.0, "model_calls": 1.0}
	if r.status != http.StatusOK || r.object["reply"] != "All tests pass." || r.object["status"] != "done" || r.object["model"] != "test-model" {
		t.Errorf("%d %s", r.status, r.text)
	}
	if diff := cmp.Diff(want, r.object["usage"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"user: Which tests fail?", "assistant: All tests pass."}, contents(g.get("/sessions/"+task+"/messages"))); diff != "" {
		t.Error(diff)
	}
	again := g.do("GET", r.header.Get("Content-Location"), "")
	if diff := cmp.Diff(r.object, again.object); diff != "" {
		t.Errorf("asked for later, the answer is another: %s", diff)
	}
}

// A program that does not know whether its message arrived sends it again. The model is called once,
// however often that is, at once or after a restart.
func TestARepeatedMessageGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	g := start(t)
	held := make(chan struct{})
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		<-held
		return llmtest.Echo(c)
	})
	var asking sync.WaitGroup
	answers := make([]reply, 10)
	for i := range answers {
		asking.Go(func() { answers[i] = g.ask(task, "hello", `Idempotency-Key: "once"`) })
	}
	gatewaytest.Await(g.t, "the model is asked", func() bool { return g.model.Served() > 0 })
	close(held)
	asking.Wait()
	g.gw.Stop()
	g.gw.Start()
	answers = append(answers, g.ask(task, "hello", "Idempotency-Key: once"))
	for _, r := range answers {
		if diff := cmp.Diff(answers[0].object, r.object); r.object["reply"] != "echo: hello" || diff != "" {
			t.Errorf("%d %s: %s", r.status, r.text, diff)
		}
	}
	if n := g.model.Served(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	if r := g.ask(task, "another", "Idempotency-Key: once"); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.text, "Idempotency-Key") {
		t.Errorf("the key with another text: %d %s", r.status, r.text)
	}
	if r := g.ask("api:other", "hello", "Idempotency-Key: once"); r.object["reply"] != "echo: hello" || g.model.Served() != 2 {
		t.Errorf("the key in another session: %d %s", r.status, r.text)
	}
}

// The run goes on when its client disconnects.
func TestClientThatDisconnectsGetsItsAnswerLater(t *testing.T) {
	t.Parallel()
	g := start(t)
	held := make(chan struct{})
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		<-held
		return llmtest.Echo(c)
	})
	gone := g.open("POST", "/api/v1/sessions/"+task+"/messages", `{"text":"hello"}`, "Idempotency-Key: left")
	gone.until("accepted")
	gone.body.Close()
	if r := g.do("GET", "/api/v1/sessions/"+task+"/answers/left", ""); r.status != http.StatusAccepted || r.object["status"] != "waiting" {
		t.Errorf("%d %s", r.status, r.text)
	}
	close(held)
	if r := g.do("GET", "/api/v1/sessions/"+task+"/answers/left", "", "Prefer: wait=60"); r.object["reply"] != "echo: hello" {
		t.Errorf("%d %s", r.status, r.text)
	}
}

func TestAClientMayPreferNotToWait(t *testing.T) {
	t.Parallel()
	g := start(t)
	held := make(chan struct{})
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		<-held
		return llmtest.Echo(c)
	})
	for _, prefer := range []string{"respond-async", "wait=0", `wait="0", handling=lenient`} {
		r := g.ask(task, "hello", "Prefer: "+prefer, "Idempotency-Key: later")
		if r.status != http.StatusAccepted || r.header.Get("Location") != "/api/v1/sessions/"+task+"/answers/later" || r.object["status"] != "waiting" {
			t.Errorf("%s: %d %v %s", prefer, r.status, r.header, r.text)
		}
	}
	close(held)
	if r := g.ask(task, "hello", "Idempotency-Key: later"); r.status != http.StatusOK || r.object["reply"] != "echo: hello" {
		t.Errorf("%d %s", r.status, r.text)
	}
}

func TestAStreamShowsTheAnswerAsItComes(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.model.Script(
		llmtest.Answer{Text: "Let me look.", ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "current_time", Arguments: "{}"}}},
		llmtest.Answer{Text: "It is late, and you should go home soon.", Pieces: 5, ChunkDelay: time.Millisecond})
	events := g.open("POST", "/api/v1/sessions/"+task+"/messages", `{"text":"what time is it?"}`).rest()
	if got := deltaText(t, events); got != "It is late, and you should go home soon." {
		t.Errorf("the deltas make %q", got)
	}
	steps := slices.DeleteFunc(names(events), func(name string) bool { return name == "delta" || name == "reset" }) // a slow listener is told less of them
	if diff := cmp.Diff([]string{"accepted", "tool_call", "tool_result", "usage", "done"}, steps); diff != "" {
		t.Error(diff)
	}
	done := events[len(events)-1].object(t)
	calls := done["tool_calls"].([]any)
	if len(calls) != 1 || calls[0].(object)["name"] != "current_time" || !strings.Contains(calls[0].(object)["result"].(string), "20") {
		t.Errorf("the calls are %v", calls)
	}
}

// When a model call breaks off and is repeated, the stream takes back the text of the first attempt.
func TestStreamResetsTheTextOfACallThatBrokeOff(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.model.Script(
		llmtest.Answer{Text: "The answer is seventeen", Pieces: 6, ChunkDelay: time.Millisecond, CutAfter: 4},
		llmtest.Answer{Text: "It is forty-two."})
	events := g.open("POST", "/api/v1/sessions/"+task+"/messages", `{"text":"what is the answer?"}`).rest()
	if got := deltaText(t, events); got != "It is forty-two." || events[len(events)-1].object(t)["reply"] != got {
		t.Errorf("the deltas make %q: %v", got, events)
	}
}

// Each of two waiting messages is shown its own answer: the stream of the second one begins with its
// own run.
func TestStreamShowsOnlyTheAnswerToItsOwnMessage(t *testing.T) {
	t.Parallel()
	g := start(t)
	held := make(chan struct{})
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "first" {
			<-held
		}
		a := llmtest.Echo(c)
		a.ChunkDelay = time.Millisecond
		return a
	})
	first := g.open("POST", "/api/v1/sessions/"+task+"/messages", `{"text":"first"}`)
	gatewaytest.Await(g.t, "the model is asked", func() bool { return g.model.Served() > 0 })
	second := g.open("POST", "/api/v1/sessions/"+task+"/messages", `{"text":"second"}`)
	second.until("accepted")
	close(held)
	if got := deltaText(t, first.rest()); got != "echo: first" {
		t.Errorf("the first is shown %q", got)
	}
	events := second.rest()
	if got := deltaText(t, events); got != "echo: second" {
		t.Errorf("the second is shown %q", got)
	}
	for _, e := range events {
		if strings.Contains(e.data, "first") {
			t.Errorf("the second is shown %+v", e)
		}
	}
}

func TestFailedRunIsReportedToTheProgram(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.model.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: http.StatusUnauthorized} })
	r := g.ask(task, "hello")
	if r.status != http.StatusOK || r.object["status"] != "failed" || !strings.Contains(r.object["reply"].(string), "/retry") {
		t.Errorf("%d %s", r.status, r.text)
	}
	if why, _ := r.object["error"].(object); why["kind"] != "unauthorized" || why["message"] == "" {
		t.Errorf("a program is told %v", r.object["error"])
	}
	g.model.Reply(llmtest.Echo)
	if r := g.ask(task, "/retry"); r.object["reply"] != "echo: hello" {
		t.Errorf("%d %s", r.status, r.text)
	}
}

func TestCommandsAreSentAsMessages(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.ask(task, "hello")
	if r := g.ask(task, "/status"); r.object["status"] != "done" || !strings.Contains(r.object["reply"].(string), "test-model") || r.object["usage"] != nil {
		t.Errorf("%d %s", r.status, r.text)
	}
	r := g.ask(task, "/export json")
	file, _ := r.object["file"].(object)
	if file == nil {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if exported := g.do("GET", file["url"].(string), ""); exported.status != http.StatusOK || !strings.Contains(exported.text, "echo: hello") {
		t.Errorf("%v leads to %d %s", file, exported.status, exported.text)
	}
}

// A picture and a file of text reach the model.
func TestFilesOfAMessageReachTheModel(t *testing.T) {
	t.Parallel()
	g := start(t)
	png := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	for range 2 { // the second time it is a repeat
		r := g.do("POST", "/api/v1/sessions/"+task+"/messages",
			`{"text":"look","files":[{"data":"`+png+`"},{"name":"../plan.md","media_type":"text/markdown","data":"IyBUaGUgcGxhbg=="}]}`, "Idempotency-Key: files")
		if r.object["status"] != "done" {
			t.Fatalf("%d %s", r.status, r.text)
		}
	}
	calls := g.model.Calls()
	if len(calls) != 1 {
		t.Fatalf("the model was asked %d times", len(calls))
	}
	asked := calls[0].Messages[len(calls[0].Messages)-1]
	if len(asked.Images) != 1 || asked.Images[0].MediaType != "image/png" || !strings.Contains(asked.Content, "# The plan") || strings.Contains(asked.Content, "..") {
		t.Errorf("the model was sent %+v", asked)
	}
	list := g.do("GET", "/api/v1/sessions/"+task+"/messages", "")
	if !strings.Contains(list.text, `"files":[{"name":"plan.md","media_type":"text/markdown","size":10,"kept":true,"url":"/api/v1/conversations/`) {
		t.Errorf("the messages are %s", list.text)
	}
	conversations := g.do("GET", "/api/v1/sessions/"+task+"/conversations", "").object["conversations"].([]any)
	message := "/api/v1/conversations/" + conversations[0].(map[string]any)["id"].(string) + "/messages/1"
	if r := g.do("GET", message+"/files/0", ""); r.status != 200 || r.text != "# The plan" || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the file is answered %d %s", r.status, r.text)
	}
	if r := g.do("GET", message+"/images/0", ""); r.status != 200 || !strings.HasPrefix(r.text, "\x89PNG") || r.header.Get("Content-Type") != "image/png" {
		t.Errorf("the picture is answered %d", r.status)
	}
	for _, path := range []string{"/files/1", "/images/1"} {
		if r := g.do("GET", message+path, ""); r.status != 404 {
			t.Errorf("%s is answered %d", path, r.status)
		}
	}
}
