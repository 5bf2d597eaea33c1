package llm_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/llm"
	"parley/llm/llmtest"
)

// events returns the body of a stream with these chunks.
func events(chunks ...string) string {
	return "data: " + strings.Join(chunks, "\n\ndata: ") + "\n\ndata: [DONE]\n\n"
}

// delta returns a chunk with one delta.
func delta(json string) string { return `{"choices":[{"index":0,"delta":` + json + `}]}` }

// onLines puts every comma and colon of chunks on a data line of its own.
func onLines(chunks string) string {
	return strings.NewReplacer("data: ", "data: ", `,"`, ",\ndata: \"", `":`, "\"\ndata: :").Replace(chunks)
}

// Perplexity repeats in each chunk, as a message, all that has come of the answer: the person reads each word once.
func TestMessageBesideADeltaIsNotReadTwice(t *testing.T) {
	t.Parallel()
	chunk := func(piece, all, finish string) string {
		return `{"choices":[{"index":0,"finish_reason":` + finish + `,"message":{"role":"assistant","content":"` + all + `"},"delta":{"role":"assistant","content":"` + piece + `"}}]}`
	}
	server := llmtest.New(t)
	server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Body: events(chunk("", "", "null"), chunk("Hel", "Hel", "null"), chunk("lo", "Hello", "null"), chunk("", "Hello", `"stop"`))}
	})
	resp, shown := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("hello"))
	if resp.Text != "Hello" || shown != "Hello" || resp.FinishReason != "stop" {
		t.Errorf("%+v, shown %q", resp, shown)
	}
}

// Gemini and others take dots in the names of tools: a program gets the calls of its tools by the names that it knows. A name that
// the model has made up gets the form that servers take.
func TestCallOfAToolHasTheNameThatWasOffered(t *testing.T) {
	t.Parallel()
	call := func(index, name string) string {
		return delta(`{"tool_calls":[{"index":` + index + `,"id":"call_` + index + `","type":"function","function":{"name":"` + name + `","arguments":"{}"}}]}`)
	}
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = string(body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events(call("0", "weather.get"), call("1", "weather.set"), `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`))
	}))
	t.Cleanup(server.Close)
	request := ask("hello")
	request.Tools = []llm.Tool{{Name: "weather.get"}}
	request.Messages = append(request.Messages,
		llm.Message{Role: "assistant", ToolCalls: []llm.ToolCall{{ID: "a", Name: "weather.get", Arguments: "{}"}}}, llm.Message{Role: "tool", ToolCallID: "a", Name: "weather.get", Content: "rain"})
	resp, _ := mustComplete(t, llm.NewClient(llm.Config{BaseURL: server.URL, Model: "m"}, nil), request)
	if len(resp.ToolCalls) != 2 || resp.ToolCalls[0].Name != "weather.get" || resp.ToolCalls[1].Name != "weather_set" {
		t.Errorf("%+v", resp.ToolCalls)
	}
	if strings.Contains(sent, "weather_get") {
		t.Error(sent)
	}
}

// Gemini and xAI count the thoughts of a model in the total of the tokens alone: sums and budgets have them nevertheless, since
// they are paid for.
func TestThoughtsInTheTotalAreCounted(t *testing.T) {
	t.Parallel()
	for reported, want := range map[string]llm.Usage{
		`{"prompt_tokens":21,"completion_tokens":0,"total_tokens":81}`:                                                        {Prompt: 21, Completion: 60},
		`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}`:   {Prompt: 32, Completion: 103},
		`{"prompt_tokens":32,"completion_tokens":103,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}`: {Prompt: 32, Completion: 103},
		`{"prompt_tokens":0,"completion_tokens":3,"total_tokens":135}`:                                                        {Completion: 3},
	} {
		server := llmtest.New(t)
		server.Reply(func(llmtest.Call) llmtest.Answer {
			return llmtest.Answer{Body: events(delta(`{"content":"Hello"}`), `{"choices":[],"usage":`+reported+`}`)}
		})
		if resp, _ := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("hello")); resp.Usage != want {
			t.Errorf("%s: %+v", reported, resp.Usage)
		}
	}
}

// A server reports less than no tokens, or more than a number can hold: sums and budgets never shrink by it.
func TestSenselessUsageIsNotCounted(t *testing.T) {
	t.Parallel()
	for reported, want := range map[string]llm.Usage{
		`{"prompt_tokens":-5,"completion_tokens":-7}`:                                            {},
		`{"prompt_tokens":1e300,"completion_tokens":3}`:                                          {Prompt: 1e9, Completion: 3},
		`{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":-1}}`: {Prompt: 5, Completion: 3},
		`{"prompt_tokens":-5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}`: {Completion: 3},
	} {
		server := llmtest.New(t)
		server.Reply(func(llmtest.Call) llmtest.Answer {
			return llmtest.Answer{Body: events(delta(`{"content":"Hello"}`), `{"choices":[],"usage":`+reported+`}`)}
		})
		if resp, _ := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("hello")); resp.Usage != want {
			t.Errorf("%s: %+v", reported, resp.Usage)
		}
	}
}

// All these streams, as various servers send them, are complete answers.
func TestStreamsOfManyServersAreRead(t *testing.T) {
	t.Parallel()
	const finish = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	hello := delta(`{"content":"Hel"}`) + "\n\ndata: " + delta(`{"content":"lo"}`)
	for name, body := range map[string]string{
		"plain":                      events(hello, finish),
		"no finish reason":           events(hello),
		"no [DONE]":                  "data: " + hello + "\n\ndata: " + finish + "\n\n",
		"no [DONE], no last newline": "data: " + hello + "\n\ndata: " + finish,
		"no last newline":            "data: " + hello + "\n\ndata: [DONE]",
		"no space after data:":       strings.ReplaceAll(events(hello, finish), "data: ", "data:"),
		"CRLF":                       strings.ReplaceAll(events(hello, finish), "\n", "\r\n"),
		"CR":                         strings.ReplaceAll(events(hello, finish), "\n", "\r"),
		"line ends mixed":            strings.Replace(strings.Replace(events(hello, finish), "\n\n", "\r\n\r", 1), "\n\n", "\r\n\n", 1),
		"CR between JSON":            strings.ReplaceAll("\n{\n \"choices\": [\n  {\"message\": {\"content\": \"Hello\"}}\n ]\n}\n", "\n", "\r"),
		"JSON on lines of data":      strings.ReplaceAll(events(onLines(hello), onLines(finish)), "\n\ndata: \n\n", "\n\n"),
		"the same with CRLF":         strings.ReplaceAll(events(onLines(hello), onLines(finish)), "\n", "\r\n"),
		"the same without an end":    strings.TrimSuffix(events(onLines(hello), onLines(finish)), "\n\ndata: [DONE]\n\n"),
		"no empty lines":             strings.ReplaceAll(events(hello, finish), "\n\n", "\n"),
		"fields between":             strings.ReplaceAll(events(onLines(hello), onLines(finish)), "data: ", "id: 7\nretry:9\n:x\nevent: message\nunknown\ndata: "),
		"data without a value":       strings.ReplaceAll(events(hello, finish), "data: {", "data\ndata:\ndata: {"),
		"byte order mark":            "\ufeff" + events(hello, finish),
		"comments and fields":        ": OPENROUTER PROCESSING\n\n:\n\nid: 1\nretry: 10\nevent: message\n" + events(hello, finish),
		"thousands of pings":         strings.Repeat(": ping\n\n", 5000) + events(hello, finish),
		"pings in between":           strings.ReplaceAll(events(hello, finish), "\n\n", "\n\n: ping\n\n"),
		"empty events":               events("", "null", hello, "", finish),
		"null content":               events(delta(`{"role":"assistant","content":null,"tool_calls":null,"refusal":null}`), hello, finish),
		"content in parts":           events(delta(`{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Hello"}]}`), finish),
		"a refusal":                  events(delta(`{"refusal":"Hello"}`), finish),
		"reasoning_content":          events(delta(`{"reasoning_content":"Say hello."}`), hello, finish),
		"reasoning":                  events(delta(`{"content":"","reasoning":"Say hello.","reasoning_details":[{}]}`), hello, finish),
		"empty choices":              events(`{"choices":[]}`, `{"choices":null}`, `{}`, hello, finish, `{"choices":[],"usage":null}`),
		"other choices":              events(`{"choices":[{"index":1,"delta":{"content":"other"}}]}`, hello, finish),
		"no index":                   events(strings.ReplaceAll(hello, `"index":0,`, ""), finish),
		"mistyped fields":            events(`{"created":"now","model":7,"choices":[{"delta":{"content":"Hel"}}],"usage":"none"}`, delta(`{"content":"lo"}`), finish),
		"usage in fractions":         events(hello, finish, `{"usage":{"prompt_tokens":12.0,"completion_tokens":1e1}}`),
		"error: null":                events(`{"error":null,"choices":[]}`, hello, finish),
		"silence after the finish":   "data: " + hello + "\n\ndata: " + finish + "\n\nrubbish",
		"not a stream":               `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}`,
		"not a stream, on lines":     "\n{\n \"choices\": [\n  {\"message\": {\"content\": \"Hello\"}}\n ]\n}\n",
		"a long line":                events(delta(`{"content":"Hello","x":"`+strings.Repeat("y", 1<<20)+`"}`), finish),
	} {
		t.Run(name, func(t *testing.T) {
			server := llmtest.New(t)
			server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Body: body} })
			resp, shown := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("hi"))
			if resp.Text != "Hello" || shown != "Hello" {
				t.Errorf("text %q, shown %q, want Hello", resp.Text, shown)
			}
			if n := server.Served(); n != 1 {
				t.Errorf("%d calls, want 1", n)
			}
		})
	}
}

// Errors within a stream, as events of their own and outside of events.
func TestErrorsInStreams(t *testing.T) {
	t.Parallel()
	begun := "data: " + delta(`{"content":"Hel"}`) + "\n\n"
	for name, end := range map[string]string{
		"a chunk":               `data: {"error":{"message":"no luck","code":"400"}}` + "\n\n",
		"on lines":              "data: {\ndata: \"error\": {\ndata: \"message\":\"no luck\",\ndata: \"code\":400}}\n\n",
		"an event":              "event: error\n" + `data: {"message":"no luck","code":400}` + "\n\n",
		"an event with the key": "event: error\n" + `data: {"type":"error","error":{"message":"no luck","code":400}}` + "\n\n",
		"a line of errors":      `error: {"message":"no luck","code":400}` + "\n\n",
		"a line of a proxy":     `{"error":{"message":"no luck","code":400}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			server := llmtest.New(t)
			server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Body: begun + end} })
			told := mustFail(t, llm.NewClient(fastRetries(server), nil), llm.KindRefused)
			if told.Status != 400 || !strings.Contains(told.Error(), "no luck") {
				t.Errorf("status %d: %v", told.Status, told)
			}
		})
	}
	server := llmtest.New(t)
	server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Body: "event: error\ndata: no luck\n\n"}
	})
	if told := mustFail(t, llm.NewClient(fastRetries(server), nil), llm.KindUnavailable); !strings.Contains(told.Error(), "no luck") {
		t.Errorf("the words are lost: %v", told)
	}
}

// Whatever a server sends, the call ends in an answer or an error with a text for the user.
func TestRandomBodiesEndInAnAnswerOrAnError(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	good := events(delta(`{"content":"Hello"}`), delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`))
	server := llmtest.New(t)
	cfg := fastRetries(server)
	cfg.MaxTries = 1
	client := llm.NewClient(cfg, nil)
	for range 500 {
		body := []byte(good)
		for range 1 + random.IntN(20) {
			at := random.IntN(len(body))
			switch random.IntN(3) {
			case 0:
				body[at] = byte(random.Uint32())
			case 1:
				body = slices.Delete(body, at, min(len(body), at+random.IntN(10)))
			case 2:
				body = slices.Insert(body, at, []byte("\n{}:[]\"\x00")[random.IntN(8)])
			}
		}
		server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Body: string(body)} })
		resp, err := client.Complete(t.Context(), ask("hi"), nil)
		var told *llm.Error
		switch {
		case err == nil && strings.TrimSpace(resp.Text) == "" && len(resp.ToolCalls) == 0:
			t.Errorf("an empty answer of %q", body)
		case err != nil && (!errors.As(err, &told) || told.User == ""):
			t.Errorf("error %v of %q has no words for the user", err, body)
		}
	}
}

func TestWholeAnswerInsteadOfStream(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	want := []llm.ToolCall{{ID: "call_1", Name: "f", Arguments: `{"a":1}`}, {ID: "call_2", Name: "f", Arguments: `{"a":2}`}}
	server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{NotStream: true, ToolCalls: want, Reasoning: "hm", Usage: &llm.Usage{Prompt: 5, Completion: 3}}
	})
	resp, _ := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("hi"))
	if diff := cmp.Diff(want, resp.ToolCalls); diff != "" {
		t.Errorf("tool calls (-want +got):\n%s", diff)
	}
	if resp.FinishReason != "tool_calls" || resp.Usage != (llm.Usage{Prompt: 5, Completion: 3}) {
		t.Errorf("response %+v", resp)
	}
}

// nowCalls returns calls of the tool "now" with these IDs, at most two: the first has the arguments
// utc, the second cet.
func nowCalls(ids ...string) []llm.ToolCall {
	calls := []llm.ToolCall{{Name: "now", Arguments: `{"zone":"UTC"}`}, {Name: "now", Arguments: `{"zone":"CET"}`}}[:len(ids)]
	for i, id := range ids {
		calls[i].ID = id
	}
	return calls
}

// The arguments of nowCalls as JSON strings.
const (
	utc = `"{\"zone\":\"UTC\"}"`
	cet = `"{\"zone\":\"CET\"}"`
)

// toolCallStreams are tool calls as various servers stream them, and the calls that they mean. The ID
// "*" stands for any ID that the client makes up.
var toolCallStreams = map[string]struct {
	deltas []string // the elements of each delta's tool_calls
	want   []llm.ToolCall
}{
	"by the book": {[]string{
		`{"index":0,"id":"a","type":"function","function":{"name":"now","arguments":""}}`,
		`{"index":0,"function":{"arguments":"{\"zone\":"}}`,
		`{"index":0,"function":{"arguments":"\"UTC\"}"}}`}, nowCalls("a")},
	"whole": {[]string{`{"index":0,"id":"a","function":{"name":"now","arguments":` + utc + `}}`}, nowCalls("a")},
	"two, interleaved": {[]string{
		`{"index":0,"id":"a","function":{"name":"now"}},{"index":1,"id":"b","function":{"name":"now"}}`,
		`{"index":1,"function":{"arguments":` + cet + `}}`,
		`{"index":0,"function":{"arguments":` + utc + `}}`}, nowCalls("a", "b")},
	"id in every delta": {[]string{
		`{"index":0,"id":"a","function":{"name":"now","arguments":""}}`,
		`{"index":0,"id":"a","function":{"arguments":"{\"zone\":"}}`,
		`{"index":0,"id":"a","function":{"arguments":"\"UTC\"}"}}`}, nowCalls("a")},
	"another id in every delta": {[]string{
		`{"index":0,"id":"a","function":{"name":"now"}}`,
		`{"index":0,"id":"x","function":{"arguments":"{\"zone\":"}}`,
		`{"index":0,"id":"y","function":{"arguments":"\"UTC\"}"}}`}, nowCalls("a")},
	"name in every delta": {[]string{
		`{"index":0,"id":"a","function":{"name":"now","arguments":"{\"zone\":"}}`,
		`{"index":0,"id":"a","function":{"name":"now","arguments":"\"UTC\"}"}}`,
		`{"index":0,"id":"a","function":{"name":"now","arguments":""}}`}, nowCalls("a")},
	"name in pieces": {[]string{
		`{"index":0,"id":"a","function":{"name":"no"}}`,
		`{"index":0,"function":{"name":"w"}}`,
		`{"index":0,"function":{"arguments":` + utc + `}}`}, nowCalls("a")},
	"no id": {[]string{
		`{"index":0,"function":{"name":"now","arguments":"{\"zone\":"}}`,
		`{"index":0,"function":{"arguments":"\"UTC\"}"}}`}, nowCalls("*")},
	"no index": {[]string{
		`{"id":"a","function":{"name":"now","arguments":""}}`,
		`{"function":{"arguments":` + utc + `}}`,
		`{"id":"b","function":{"name":"now","arguments":""}}`,
		`{"function":{"arguments":` + cet + `}}`}, nowCalls("a", "b")},
	"no index, whole": {[]string{
		`{"id":"a","function":{"name":"now","arguments":` + utc + `}},{"id":"b","function":{"name":"now","arguments":` + cet + `}}`}, nowCalls("a", "b")},
	"neither index nor id": {[]string{
		`{"function":{"name":"now","arguments":` + utc + `}}`,
		`{"function":{"name":"now","arguments":` + cet + `}}`}, nowCalls("*", "*")},
	"every index 0": {[]string{
		`{"index":0,"id":"a","function":{"name":"now","arguments":` + utc + `}}`,
		`{"index":0,"id":"b","function":{"name":"now","arguments":` + cet + `}}`}, nowCalls("a", "b")},
	"every index 0, no ids": {[]string{
		`{"index":0,"id":"","function":{"name":"now","arguments":` + utc + `}},{"index":0,"id":"","function":{"name":"now","arguments":` + cet + `}}`}, nowCalls("*", "*")},
	"every id the same": {[]string{
		`{"index":0,"id":"a","function":{"name":"now","arguments":` + utc + `}}`,
		`{"index":1,"id":"a","function":{"name":"now","arguments":` + cet + `}}`}, nowCalls("a", "*")},
	"id and index the same": {[]string{
		`{"index":0,"id":"a","function":{"name":"now","arguments":` + utc + `}}`,
		`{"index":0,"id":"a","function":{"name":"now","arguments":` + cet + `}}`}, nowCalls("a", "*")},
	"sent again at the end": {[]string{
		`{"index":0,"id":"a","function":{"name":"now","arguments":` + utc + `}}`,
		`{"index":0,"id":"a","function":{"name":"now","arguments":` + utc + `}}`}, nowCalls("a")},
	"arguments as an object": {[]string{`{"index":0,"id":"a","function":{"name":"now","arguments":{"zone":"UTC"}}}`}, nowCalls("a")},
	"arguments null": {[]string{
		`{"index":0,"id":"a","function":{"name":"now","arguments":null}}`,
		`{"index":0,"id":null,"function":{"name":null,"arguments":` + utc + `}}`}, nowCalls("a")},
	"no arguments": {[]string{
		`{"index":0,"id":"a","function":{"name":"now","arguments":""}},{"index":1,"id":"b","function":{"name":"now"}}`},
		[]llm.ToolCall{{ID: "a", Name: "now", Arguments: "{}"}, {ID: "b", Name: "now", Arguments: "{}"}}},
	"index from 1": {[]string{
		`{"index":1,"id":"a","function":{"name":"now","arguments":` + utc + `}}`,
		`{"index":2,"id":"b","function":{"name":"now","arguments":` + cet + `}}`}, nowCalls("a", "b")},
	"an id too long to be sent back": {[]string{
		`{"index":0,"id":"chatcmpl-tool-0123456789abcdef0123456789abcdef","function":{"name":"now","arguments":` + utc + `}}`}, nowCalls("*")},
}

func TestToolCallsOfManyServersAreRead(t *testing.T) {
	t.Parallel()
	for name, test := range toolCallStreams {
		t.Run(name, func(t *testing.T) {
			server := llmtest.New(t)
			chunks := make([]string, len(test.deltas))
			for i, d := range test.deltas {
				chunks[i] = delta(`{"content":null,"tool_calls":[` + d + `]}`)
			}
			server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Body: events(chunks...)} })
			resp, _ := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("hi"))
			ids := map[string]bool{}
			for i, call := range resp.ToolCalls {
				if call.ID == "" || len(call.ID) > 40 || ids[call.ID] {
					t.Errorf("id %q is empty, too long or not unique", call.ID)
				}
				ids[call.ID] = true
				if i < len(test.want) && test.want[i].ID == "*" {
					resp.ToolCalls[i].ID = "*"
				}
			}
			if diff := cmp.Diff(test.want, resp.ToolCalls); diff != "" {
				t.Errorf("tool calls (-want +got):\n%s", diff)
			}
		})
	}
}
