package llm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/llm"
	"parley/llm/llmtest"
)

// fastRetries returns a configuration without waits between attempts.
func fastRetries(server *llmtest.Server) llm.Config {
	return llm.Config{BaseURL: server.URL(), Model: "test-model", RetryBase: time.Microsecond}
}

func ask(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{
		{Role: "system", Content: "Be brief."},
		{Role: "user", Content: text},
	}}
}

// mustComplete returns the answer, and the text of the deltas.
func mustComplete(t *testing.T, c *llm.Client, req llm.Request) (llm.Response, string) {
	t.Helper()
	var shown strings.Builder
	resp, err := c.Complete(t.Context(), req, func(d llm.Delta) {
		if d.Reset {
			shown.Reset()
		}
		shown.WriteString(d.Text)
	})
	if err != nil {
		t.Fatalf("Complete: %v", err)
	}
	return resp, shown.String()
}

// mustFail returns the error of a call that must fail with a kind.
func mustFail(t *testing.T, c *llm.Client, kind llm.Kind) *llm.Error {
	t.Helper()
	_, err := c.Complete(t.Context(), ask("hello"), nil)
	var told *llm.Error
	if !errors.As(err, &told) {
		t.Fatalf("Complete: error %v, want an *llm.Error", err)
	}
	if told.Kind != kind {
		t.Errorf("kind %q, want %q: %v", told.Kind, kind, err)
	}
	if told.User == "" {
		t.Errorf("no sentence for the user in %v", err)
	}
	return told
}

func TestAnswerStreams(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	resp, shown := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("Grüße, 世界! And a text long enough for several pieces."))
	want := "echo: Grüße, 世界! And a text long enough for several pieces."
	if resp.Text != want || shown != want {
		t.Errorf("text %q, shown %q, want %q", resp.Text, shown, want)
	}
	if resp.FinishReason != "stop" || resp.Model != "test-model" || resp.Usage.Prompt == 0 || resp.Usage.Completion == 0 {
		t.Errorf("response %+v: want finish reason, model and usage", resp)
	}
}

func TestToolCallsAndResults(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	calls := []llm.ToolCall{
		{ID: "call_a", Name: "current_time", Arguments: `{"zone":"Europe/Vienna"}`},
		{ID: "call_b", Name: "current_time", Arguments: `{}`},
	}
	server.Script(llmtest.Answer{ToolCalls: calls}, llmtest.Answer{Text: "noon"})
	client := llm.NewClient(fastRetries(server), nil)
	req := ask("what time is it?")
	req.Tools = []llm.Tool{{Name: "current_time", Description: "Tells the time."}}

	resp, _ := mustComplete(t, client, req)
	if diff := cmp.Diff(calls, resp.ToolCalls); diff != "" {
		t.Errorf("tool calls (-want +got):\n%s", diff)
	}
	req.Messages = append(req.Messages,
		llm.Message{Role: "assistant", ToolCalls: resp.ToolCalls},
		llm.Message{Role: "tool", ToolCallID: "call_a", Name: "current_time", Content: "12:00"},
		llm.Message{Role: "tool", ToolCallID: "call_b", Name: "current_time", Content: ""},
	)
	if resp, _ := mustComplete(t, client, req); resp.Text != "noon" {
		t.Errorf("answer %q, want noon (refusals: %q)", resp.Text, server.Refusals())
	}
}

// Any text of people, tools and models is sent in a form that the API accepts.
func TestHostileMessagesAreNotRefused(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	client := llm.NewClient(fastRetries(server), nil)
	for _, text := range []string{"", " \n", "\x00", "a\xff\xfeb", "\x1b[31mred", strings.Repeat("x", 1<<20)} {
		req := llm.Request{
			Messages: []llm.Message{
				{Role: "system", Content: text},
				{Role: "user", Content: text},
				{Role: "assistant", Content: text},
				{Role: "user", Content: text},
				{Role: "assistant", Content: text, ToolCalls: []llm.ToolCall{{ID: "a", Name: "f", Arguments: text}}},
				{Role: "tool", ToolCallID: "a", Content: text},
			},
			Tools: []llm.Tool{{Name: "f", Description: text}},
		}
		mustComplete(t, client, req)
	}
	if refusals := server.Refusals(); len(refusals) > 0 {
		t.Errorf("refused: %q", refusals)
	}
}

// Invalid arguments of a past call are sent as an object, since servers that parse them would refuse the
// whole conversation.
func TestBrokenArgumentsAreSentAsAnObject(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	client := llm.NewClient(fastRetries(server), nil)
	req := ask("go on")
	req.Messages = append(req.Messages,
		llm.Message{Role: "assistant", ToolCalls: []llm.ToolCall{{ID: "a", Name: "f", Arguments: `{"zone": "Eur`}}},
		llm.Message{Role: "tool", ToolCallID: "a", Content: "bad arguments"})
	mustComplete(t, client, req)
	got := server.Calls()[0].Messages[2].ToolCalls[0].Arguments
	if want := `{"malformed_arguments":"{\"zone\": \"Eur"}`; got != want {
		t.Errorf("arguments sent as %s, want %s", got, want)
	}
}

func TestTemporaryFailuresAreRetried(t *testing.T) {
	t.Parallel()
	good := llmtest.Answer{Text: "a good and whole answer in the end, in many pieces"}
	for name, bad := range map[string]llmtest.Answer{
		"rate limit":            {Status: 429},
		"rate limit, now":       {Status: 429, Header: http.Header{"Retry-After": {"0"}}},
		"rate limit, past date": {Status: 429, Header: http.Header{"Retry-After": {"Mon, 02 Jan 2006 15:04:05 GMT"}}},
		"server error":          {Status: 500},
		"bad gateway, as HTML":  {Status: 502, Body: "<html><h1>502 Bad Gateway</h1></html>"},
		"overloaded":            {Status: 529, Body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
		"connection dropped":    {HangUp: true},
		"cut after one piece":   {Text: "this is a bad answer, cut in the middle", CutAfter: 3},
		"ended too early":       {Text: "this one just ends", NoDone: true, NoFinish: true},
		"HTML with status 200":  {Body: "\n<!doctype html><title>Please log in</title>"},
		"broken JSON":           {Body: "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"choices\": [{\"del\n\n"},
		"broken whole JSON":     {Body: `{"choices": [`},
		"nothing at all":        {Body: "\n"},
		"no event":              {Body: "upstream connect error\n"},
		"empty answer":          {},
		"white space":           {Text: " \n\n"},
		"reasoning only":        {Reasoning: "Hmm. Let me think about it."},
		"no choices":            {Body: `{"id":"x","choices":[]}`},
		"a call without a name": {ToolCalls: []llm.ToolCall{{ID: "x", Arguments: "{}"}}},
		"error in the stream": {Body: "data: {\"choices\":[{\"delta\":{\"content\":\"so far\"}}]}\n\n" +
			"data: {\"error\":{\"message\":\"worker died\",\"code\":502}}\n\ndata: [DONE]\n\n"},
		"error as text":       {Body: ": ping\n\ndata: {\"error\":\"overloaded\"}\n\n"},
		"error after a ping":  {Body: ": ping\n\nevent: error\ndata: {\"error\":{\"message\":\"try later\"}}"},
		"error of llama.cpp":  {Body: "error: {\"code\":500,\"message\":\"slot gone\",\"type\":\"server_error\"}\n\n"},
		"error of OpenRouter": {Body: "data: {\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n"},
		"error of vLLM":       {Body: `{"object":"error","message":"engine dead","code":500}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := llmtest.New(t)
			server.Script(bad, bad, good)
			resp, shown := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("hello"))
			if resp.Text != good.Text || shown != good.Text {
				t.Errorf("text %q, shown %q, want %q", resp.Text, shown, good.Text)
			}
			if n := server.Served(); n != 3 {
				t.Errorf("%d calls, want 3", n)
			}
		})
	}
}

func TestFailureAfterAllTries(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: 503} })
	told := mustFail(t, llm.NewClient(fastRetries(server), nil), llm.KindUnavailable)
	if told.Status != 503 || server.Served() != 4 {
		t.Errorf("status %d after %d calls, want 503 after 4", told.Status, server.Served())
	}
}

func TestPermanentFailuresAreNotRetried(t *testing.T) {
	t.Parallel()
	openAI := func(message, code string) string {
		return `{"error":{"message":"` + message + `","type":"invalid_request_error","param":null,"code":"` + code + `"}}`
	}
	for name, test := range map[string]struct {
		answer llmtest.Answer
		kind   llm.Kind
	}{
		"bad request":       {llmtest.Answer{Status: 400}, llm.KindRefused},
		"bad key":           {llmtest.Answer{Status: 401}, llm.KindUnauthorized},
		"forbidden":         {llmtest.Answer{Status: 403}, llm.KindUnauthorized},
		"no such model":     {llmtest.Answer{Status: 404, Body: `{"error":{"message":"model \"x\" not found, try pulling it first"}}`}, llm.KindUnknownModel},
		"no such path":      {llmtest.Answer{Status: 404}, llm.KindNotAPI},
		"a page, not found": {llmtest.Answer{Status: 404, Body: "<html>There is no model of a page here.</html>"}, llm.KindNotAPI},
		"unprocessable":     {llmtest.Answer{Status: 422, Body: `{"detail":[{"msg":"field required"}]}`}, llm.KindRefused},
		"a redirect":        {llmtest.Answer{Status: 304}, llm.KindRefused},
		"no credit":         {llmtest.Answer{Status: 429, Body: openAI("You exceeded your current quota.", "insufficient_quota")}, llm.KindNoCredit},
		"payment required":  {llmtest.Answer{Status: 402, Body: `{"error":{"message":"Insufficient Balance"}}`}, llm.KindNoCredit},
		"content filter":    {llmtest.Answer{FinishReason: "content_filter"}, llm.KindWithheld},
		"too large":         {llmtest.Answer{Status: 413, Body: "<html>413</html>"}, llm.KindTooLong},
		"OpenAI: too long":  {llmtest.Answer{Status: 400, Body: openAI("This model's maximum context length is 8192 tokens.", "context_length_exceeded")}, llm.KindTooLong},
		"vLLM: too long": {llmtest.Answer{Status: 400, Body: `{"object":"error","message":"You passed 1015 input tokens and requested 10 output tokens. However, the model's context length is only 1024 tokens.","code":400}`},
			llm.KindTooLong},
		"llama.cpp: too long":        {llmtest.Answer{Status: 500, Body: `{"error":{"code":500,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`}, llm.KindTooLong},
		"Anthropic: too long":        {llmtest.Answer{Status: 400, Body: `{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum"}}`}, llm.KindTooLong},
		"Gemini: too long":           {llmtest.Answer{Status: 400, Body: `[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."}}]`}, llm.KindTooLong},
		"Ollama: too long":           {llmtest.Answer{Status: 400, Body: `{"error":"the input length exceeds the context length"}`}, llm.KindTooLong},
		"too long, with status 200":  {llmtest.Answer{Body: `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`}, llm.KindTooLong},
		"rejected in the stream":     {llmtest.Answer{Body: "data: {\"error\":{\"message\":\"bad tool\",\"code\":\"400\"}}\n\n"}, llm.KindRefused},
		"too long, found in streams": {llmtest.Answer{Body: "data: {\"error\":{\"message\":\"maximum context length is 10\"}}\n\n"}, llm.KindTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			server := llmtest.New(t)
			server.Reply(func(llmtest.Call) llmtest.Answer { return test.answer })
			told := mustFail(t, llm.NewClient(fastRetries(server), nil), test.kind)
			if n := server.Served(); n != 1 {
				t.Errorf("%d calls, want 1", n)
			}
			if strings.Contains(told.User, "token") || strings.ContainsAny(told.User, "<{") {
				t.Errorf("the user is told the server's words: %q", told.User)
			}
		})
	}
}

// A rate limit on tokens is worded like a context that is too long.
func TestRateLimitOnTokensIsTemporary(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Script(
		llmtest.Answer{Status: 429, Body: `{"error":{"message":"Request too large: reduce the length of the messages. Limit 30000 tokens per min."}}`},
		llmtest.Answer{Text: "fine"})
	mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("hello"))
}

// When the server asks for a long wait, the call fails and its error names the time.
func TestLongRetryAfterFailsAndNamesTheTime(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"seconds": "180",
		"date":    time.Now().Add(3*time.Minute + 20*time.Second).UTC().Format(http.TimeFormat),
	} {
		t.Run(name, func(t *testing.T) {
			server := llmtest.New(t)
			server.Reply(func(llmtest.Call) llmtest.Answer {
				return llmtest.Answer{Status: 429, Header: http.Header{"Retry-After": {header}}}
			})
			told := mustFail(t, llm.NewClient(fastRetries(server), nil), llm.KindBusy)
			if server.Served() != 1 || told.RetryAfter < time.Minute || !strings.Contains(told.User, "3 minutes") {
				t.Errorf("%d calls, retry after %s, user told %q; want 1 call and 3 minutes", server.Served(), told.RetryAfter, told.User)
			}
		})
	}
}

// The second call does not come before a short Retry-After is over.
func TestShortRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.N == 1 {
			return llmtest.Answer{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}
		}
		return llmtest.Answer{Status: 429, Header: http.Header{"Retry-After": {"20"}}}
	})
	client := llm.NewClient(fastRetries(server), nil)
	mustFail(t, client, llm.KindBusy) // 3600 s: given up at once

	ctx, cancel := context.WithCancel(t.Context())
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) {
		if strings.Contains(string(p), "wait=20s") {
			cancel() // it waits as it was asked
		}
	}), nil))
	client = llm.NewClient(fastRetries(server), log)
	if _, err := client.Complete(ctx, ask("hello"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the end of the wait", err)
	}
	if n := server.Served(); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func TestFallbackModels(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		asked  []string
	}{
		"overloaded":    {503, []string{"a", "a", "b", "b", "c"}},
		"not there":     {404, []string{"a", "b", "c"}},
		"refused (400)": {400, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := llmtest.New(t)
			server.Reply(func(c llmtest.Call) llmtest.Answer {
				if c.Model == "c" {
					return llmtest.Answer{Text: "from c"}
				}
				return llmtest.Answer{Status: test.status}
			})
			cfg := fastRetries(server)
			cfg.Model, cfg.FallbackModels, cfg.MaxTries = "a", []string{"b", "c"}, 2
			_, _ = llm.NewClient(cfg, nil).Complete(t.Context(), ask("hello"), nil) // the server's calls are checked below
			var asked []string
			for _, c := range server.Calls() {
				asked = append(asked, c.Model)
			}
			if diff := cmp.Diff(test.asked, asked); diff != "" {
				t.Errorf("models asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	cfg := fastRetries(server)
	server.Close()
	mustFail(t, llm.NewClient(cfg, nil), llm.KindUnreachable)
}

// A server that opens the connection and never answers.
func TestTimeout(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Script(llmtest.Answer{Delay: time.Hour}, llmtest.Answer{Text: "late"})
	cfg := fastRetries(server)
	cfg.Timeout = 2 * time.Second
	resp, _ := mustComplete(t, llm.NewClient(cfg, nil), ask("hello"))
	if resp.Text != "late" {
		t.Errorf("text %q, want the second try's", resp.Text)
	}
	server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Delay: time.Hour} })
	told := mustFail(t, llm.NewClient(cfg, nil), llm.KindTimeout)
	if !strings.Contains(told.User, "in time") {
		t.Errorf("user told %q", told.User)
	}
}

// A stream that falls silent is noticed long before the timeout.
func TestSilentStream(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Script(
		llmtest.Answer{Text: "I was just about to", NoFinish: true, Silence: true},
		llmtest.Answer{Text: "Here I am again."})
	cfg := fastRetries(server)
	cfg.IdleTimeout = time.Second
	resp, shown := mustComplete(t, llm.NewClient(cfg, nil), ask("hello"))
	if resp.Text != "Here I am again." || shown != resp.Text {
		t.Errorf("text %q, shown %q", resp.Text, shown)
	}
}

// A whole answer counts although the server forgets to end the stream.
func TestSilenceAfterTheFinishReason(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "All said.", Silence: true} })
	cfg := fastRetries(server)
	cfg.IdleTimeout = 2 * time.Second
	resp, _ := mustComplete(t, llm.NewClient(cfg, nil), ask("hello"))
	if resp.Text != "All said." || server.Served() != 1 {
		t.Errorf("text %q after %d calls", resp.Text, server.Served())
	}
}

// A stream is not cut while its pieces keep coming, however slowly.
func TestSlowStreamIsNotCut(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: strings.Repeat("word ", 20), Pieces: 20, ChunkDelay: 200 * time.Millisecond}
	})
	cfg := fastRetries(server)
	cfg.IdleTimeout = 3 * time.Second
	mustComplete(t, llm.NewClient(cfg, nil), ask("hello"))
	if server.Served() != 1 {
		t.Errorf("%d calls, want 1", server.Served())
	}
}

func TestStopKeepsTheTextSoFar(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "Once upon a time", Pieces: 1, NoFinish: true, Silence: true}
	})
	stopped := errors.New("stopped by /stop")
	ctx, stop := context.WithCancelCause(t.Context())
	resp, err := llm.NewClient(fastRetries(server), nil).Complete(ctx, ask("a story"), func(d llm.Delta) { stop(stopped) })
	if !errors.Is(err, stopped) {
		t.Errorf("error %v, want the cause of the stop", err)
	}
	if resp.Text != "Once upon a time" || resp.ToolCalls != nil {
		t.Errorf("response %+v, want the text so far", resp)
	}
}

func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	server.Reply(func(llmtest.Call) llmtest.Answer {
		stop()
		return llmtest.Answer{Delay: time.Hour}
	})
	if _, err := llm.NewClient(fastRetries(server), nil).Complete(ctx, ask("hello"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if _, err := llm.NewClient(fastRetries(server), nil).Complete(ctx, ask("hello"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a call that was stopped before it began, want context.Canceled", err)
	}
}

func TestServerWithoutStreamOptions(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.NoStreamOptions()
	client := llm.NewClient(fastRetries(server), nil)
	for range 3 {
		resp, _ := mustComplete(t, client, ask("hello"))
		if resp.Text != "echo: hello" || resp.Usage != (llm.Usage{}) {
			t.Errorf("response %+v", resp)
		}
	}
	if n := server.Refused(); n != 1 {
		t.Errorf("refused %d times: it is not remembered", n)
	}
}

func TestSettingsAreSent(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	zero := 0.0
	cfg := fastRetries(server)
	cfg.Temperature, cfg.MaxOutputTokens = &zero, 77
	mustComplete(t, llm.NewClient(cfg, nil), ask("hello"))
	cfg.Model = "gpt-5-mini" // takes no temperature
	mustComplete(t, llm.NewClient(cfg, nil), ask("hello"))
	calls := server.Calls()
	if got := calls[0].Temperature; got == nil || *got > 1e-30 {
		t.Errorf("temperature sent: %v, want 0", got)
	}
	if calls[1].Temperature != nil {
		t.Error("a temperature was sent to a model that takes none")
	}
	if calls[0].MaxTokens != 77 || calls[1].MaxTokens != 77 {
		t.Errorf("max tokens sent: %d and %d, want 77", calls[0].MaxTokens, calls[1].MaxTokens)
	}
}

// Logs and errors do not contain the key, even where a server repeats it.
func TestKeyStaysSecret(t *testing.T) {
	t.Parallel()
	const key, password = "sk-test-0123456789abcdef", "pa55word"
	server := llmtest.New(t)
	server.RequireKey("another")
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := fastRetries(server)
	cfg.APIKey, cfg.FallbackModels = key, []string{"b"}
	cfg.BaseURL = strings.Replace(cfg.BaseURL, "http://", "http://me:"+password+"@", 1)
	var said []string
	fail := func(kind llm.Kind) {
		told := mustFail(t, llm.NewClient(cfg, log), kind)
		said = append(said, told.Error(), told.User)
	}

	fail(llm.KindUnauthorized) // repeats the key
	server.RequireKey("")
	for _, bad := range []struct {
		answer llmtest.Answer
		kind   llm.Kind
	}{
		{llmtest.Answer{Status: 500, Body: "Authorization: Bearer " + key + " " + password}, llm.KindUnavailable},
		{llmtest.Answer{Body: "data: {" + key}, llm.KindUnavailable},
		{llmtest.Answer{Body: `data: {"error":"` + key + `"}` + "\n\n"}, llm.KindUnavailable},
		{llmtest.Answer{Body: "data: {\"error\":{\"message\":\"" + key + "\"}}\n\n"}, llm.KindUnavailable},
		{llmtest.Answer{Status: 404, Body: "<html>" + key}, llm.KindNotAPI},
		{llmtest.Answer{Status: 307, Header: http.Header{"Location": {"http://" + key + "\x7f/"}}}, llm.KindUnreachable}, // no address
	} {
		server.Reply(func(llmtest.Call) llmtest.Answer { return bad.answer })
		fail(bad.kind)
	}
	for _, target := range []string{"http://me:" + password + "@127.0.0.1:1/?key=" + key, "http://" + key + ".invalid/"} {
		server.Reply(func(llmtest.Call) llmtest.Answer {
			return llmtest.Answer{Status: 302, Header: http.Header{"Location": {target}}}
		})
		fail(llm.KindNotAPI)
	}
	server.Close()
	fail(llm.KindUnreachable)
	cfg.BaseURL = "http://me:" + password + "@[::1/v1" // cannot be parsed
	fail(llm.KindUnreachable)

	for _, text := range append(said, logged.String()) {
		if strings.Contains(text, key) || strings.Contains(text, password) {
			t.Errorf("a secret is told: %s", text)
		}
	}
}

// Connections are reused, so that calls of many chats need no new handshakes.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	proxy, opened := countingProxy(t, server)
	cfg := fastRetries(server)
	cfg.BaseURL = proxy
	client := llm.NewClient(cfg, nil)
	for range 20 {
		mustComplete(t, client, ask("hello"))
	}
	if n := opened(); n != 1 {
		t.Errorf("%d connections for 20 calls one after the other, want 1", n)
	}
}

// countingProxy passes connections on to the server and counts them.
func countingProxy(t *testing.T, server *llmtest.Server) (url string, opened func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := strings.TrimSuffix(strings.TrimPrefix(server.URL(), "http://"), "/v1")
	var n atomic.Int64
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			go pipe(in, target)
		}
	}()
	t.Cleanup(func() { listener.Close() })
	return "http://" + listener.Addr().String() + "/v1", func() int { return int(n.Load()) }
}

func pipe(in net.Conn, target string) {
	defer in.Close()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	go func() { _, _ = io.Copy(out, in) }()
	_, _ = io.Copy(in, out)
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.N%5 == 0 {
			return llmtest.Answer{Status: 503}
		}
		return llmtest.Echo(c)
	})
	client := llm.NewClient(fastRetries(server), nil)
	errs := make(chan error)
	const chats = 100
	for i := range chats {
		go func() {
			text := strings.Repeat("x", i)
			resp, err := client.Complete(t.Context(), ask("q"+text), nil)
			if err == nil && resp.Text != "echo: q"+text {
				err = errors.New("got the answer of another: " + resp.Text)
			}
			errs <- err
		}()
	}
	for range chats {
		var told *llm.Error
		if err := <-errs; err != nil && !errors.As(err, &told) {
			t.Error(err)
		}
	}
	if !slices.Equal(server.Refusals(), nil) {
		t.Errorf("refused: %q", server.Refusals())
	}
}
