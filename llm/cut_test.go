package llm_test

import (
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

func TestCutAnswersSaySo(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"stop": "stop", "": "", "eos": "eos",
		"length": llm.FinishLength, "MAX_TOKENS": llm.FinishLength, "model_length": llm.FinishLength,
		"content_filter": llm.FinishContentFilter, "SAFETY": llm.FinishContentFilter, "sensitive": llm.FinishContentFilter,
	} {
		for _, notStream := range []bool{false, true} {
			server := llmtest.New(t)
			server.Reply(func(llmtest.Call) llmtest.Answer {
				return llmtest.Answer{Text: "Once upon a", FinishReason: said, NoFinish: said == "", NotStream: notStream}
			})
			if said == "" && notStream {
				continue // the fake always gives one there
			}
			resp, _ := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("a story"))
			cut := want == llm.FinishLength || want == llm.FinishContentFilter
			if resp.FinishReason != want || resp.IsCut() != cut || resp.Text != "Once upon a" {
				t.Errorf("%q, not a stream %t: %+v", said, notStream, resp)
			}
		}
	}
}

// Some servers send the finish reason twice, and the usage after or between them.
func TestReasonForACutIsNotLost(t *testing.T) {
	t.Parallel()
	begun := delta(`{"content":"Once upon a"}`)
	finish := func(reason string) string {
		return `{"choices":[{"index":0,"delta":{"content":null},"finish_reason":` + reason + `}]}`
	}
	const usage = `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}`
	for name, chunks := range map[string][]string{
		"stop behind":     {begun, finish(`"length"`), finish(`"stop"`), usage},
		"stop before":     {begun, finish(`"stop"`), usage, finish(`"length"`)},
		"null behind":     {begun, finish(`"length"`), finish(`null`), usage},
		"usage between":   {begun, usage, finish(`"length"`)},
		"with the text":   {`{"choices":[{"index":0,"delta":{"content":"Once upon a"},"finish_reason":"length"}]}`, usage},
		"of other choice": {begun, finish(`"length"`), `{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`, usage},
	} {
		server := llmtest.New(t)
		server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Body: events(chunks...)} })
		resp, _ := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("a story"))
		if resp.FinishReason != llm.FinishLength || resp.Usage != (llm.Usage{Prompt: 5, Completion: 3}) || resp.Text != "Once upon a" {
			t.Errorf("%s: %+v", name, resp)
		}
	}
}

// A server sends an error, or what is no JSON, behind the end of an answer: the answer counts, and is not paid for again.
func TestErrorBehindAnAnswerIsIgnored(t *testing.T) {
	t.Parallel()
	const finish = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	for _, behind := range []string{`{"error":{"message":"the usage can't be counted","code":500}}`, "upstream closed"} {
		server := llmtest.New(t)
		server.Reply(func(llmtest.Call) llmtest.Answer {
			return llmtest.Answer{Body: events(delta(`{"content":"Hello"}`), finish, behind)}
		})
		resp, shown := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("hello"))
		if resp.Text != "Hello" || resp.FinishReason != "stop" || shown != "Hello" || server.Served() != 1 {
			t.Errorf("%s: %+v after %d calls, shown %q", behind, resp, server.Served(), shown)
		}
	}
}

// A model that uses up its tokens on reasoning is not called again, as after an empty answer, since it
// would get no further.
func TestAnswerUsedUpBeforeItsFirstWord(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n\n "} {
		server := llmtest.New(t)
		server.Reply(func(llmtest.Call) llmtest.Answer {
			return llmtest.Answer{Text: text, Reasoning: "Let me think.", FinishReason: "length", Usage: &llm.Usage{Prompt: 9, Completion: 100}}
		})
		var attempts []llm.Attempt
		client := llm.NewClient(fastRetries(server), nil)
		req := ask("hello")
		req.Attempted = func(a llm.Attempt) { attempts = append(attempts, a) }
		_, err := client.Complete(t.Context(), req, nil)
		if err == nil || !strings.Contains(err.Error(), "max_output_tokens") {
			t.Errorf("%q: error %v", text, err)
		}
		told := mustFail(t, client, llm.KindNoAnswer)
		if !strings.Contains(told.User, "length limit") {
			t.Errorf("%q: user told %q", text, told.User)
		}
		if len(attempts) != 1 || attempts[0].Usage.Completion != 100 || attempts[0].FinishReason != llm.FinishLength {
			t.Errorf("%q: attempts %+v", text, attempts)
		}
	}
}

// An answer that the server could not finish is requested again.
func TestAnswerBrokenByTheServerIsMadeAgain(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Script(
		llmtest.Answer{Text: "Once upon a", FinishReason: "insufficient_system_resource"},
		llmtest.Answer{Text: "Once upon a time."})
	if resp, shown := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("a story")); resp.Text != "Once upon a time." || shown != resp.Text {
		t.Errorf("text %q, shown %q", resp.Text, shown)
	}
}

// Tool calls of an answer that a content filter has cut off are dropped.
func TestFilteredCallsAreDropped(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	calls := []llm.ToolCall{{ID: "a", Name: "f", Arguments: `{"a":`}}
	server.Script(
		llmtest.Answer{Text: "I will", ToolCalls: calls, FinishReason: "content_filter"},
		llmtest.Answer{ToolCalls: calls, FinishReason: "content_filter"})
	client := llm.NewClient(fastRetries(server), nil)
	if resp, _ := mustComplete(t, client, ask("hello")); len(resp.ToolCalls) != 0 || !resp.IsCut() {
		t.Errorf("%+v", resp)
	}
	mustFail(t, client, llm.KindWithheld)
}

// The context size is read from the refusal of a server, which may contain other numbers.
func TestContextSizeIsReadFromTheRefusal(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]int{
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.":                                        8192,
		"You passed 1015 input tokens and requested 10 output tokens. However, the model's context length is only 1024 tokens.":                      1024,
		"prompt is too long: 213462 tokens > 200000 maximum":                                                                                         200000,
		"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).":                                                    1048575,
		`{"error":{"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":4096}}`: 4096,
		"the request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it":                                              4096,
		"Prompt contains 40000 tokens ..., too large for model with 32768 maximum context length":                                                    32768,
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.":                                                       131072,
		"Request body too large for gpt-4o model. Max size: 8000 tokens.":                                                                            8000,
		"`inputs` must have less than 1024 tokens. Given: 5000":                                                                                      1024,
		"context_length_exceeded": 0,
		"maximum context length is 99999999999999999999999999999 tokens":   0,
		"Please reduce the length of the messages. 9000 tokens were sent.": 0,
	} {
		server := llmtest.New(t)
		server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: 413, Body: said} })
		if told := mustFail(t, llm.NewClient(fastRetries(server), nil), llm.KindTooLong); told.Limit != want {
			t.Errorf("%s: limit %d, want %d", said, told.Limit, want)
		}
	}
}
