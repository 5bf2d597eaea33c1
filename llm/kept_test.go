package llm_test

import (
	"strings"
	"testing"
	"time"

	"parley/llm"
	"parley/llm/llmtest"
)

// If the stream breaks at every attempt, the longest partial answer is kept, and marked as incomplete.
func TestCutStreamKeepsWhatCame(t *testing.T) {
	t.Parallel()
	long := llmtest.Answer{Text: "Once upon a time there was a fox", Pieces: 8, CutAfter: 7}
	short := llmtest.Answer{Text: "Once upon a time there was a fox", Pieces: 8, CutAfter: 2}
	for name, answers := range map[string][]llmtest.Answer{
		"the first is the longest": {long, short, short, {HangUp: true}},
		"the last is the longest":  {short, {Status: 503}, short, long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := llmtest.New(t)
			server.Script(answers...)
			resp, shown := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("a story"))
			if resp.FinishReason != llm.FinishCutOff || !resp.IsCut() || !strings.HasPrefix(resp.Text, "Once upon a time there") || strings.TrimSpace(shown) != resp.Text {
				t.Errorf("%+v, shown %q", resp, shown)
			}
			if server.Served() != 4 {
				t.Errorf("%d calls, want 4", server.Served())
			}
		})
	}
}

// A fallback's complete answer replaces a partial one.
func TestFallbackAnswersWhereAStreamIsCut(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Model == "b" {
			return llmtest.Answer{Text: "All of it."}
		}
		return llmtest.Answer{Text: "Once upon a time", Pieces: 4, CutAfter: 3}
	})
	cfg := fastRetries(server)
	cfg.FallbackModels = []string{"b"}
	if resp, shown := mustComplete(t, llm.NewClient(cfg, nil), ask("a story")); resp.Text != "All of it." || shown != resp.Text || resp.IsCut() {
		t.Errorf("%+v, shown %q", resp, shown)
	}
}

// The reason and the length of a wait before the next attempt are reported.
func TestWaitingIsReported(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Script(llmtest.Answer{Status: 429, Header: map[string][]string{"Retry-After": {"1"}}}, llmtest.Answer{Text: "there"})
	var waits []llm.Waiting
	req := ask("hello")
	req.Waiting = func(w llm.Waiting) { waits = append(waits, w) }
	mustComplete(t, llm.NewClient(fastRetries(server), nil), req)
	if len(waits) != 1 || waits[0] != (llm.Waiting{Kind: llm.KindBusy, For: time.Second}) || waits[0].Words() != "⏳ The model is busy. Trying again in a second." {
		t.Errorf("%+v", waits)
	}
}

// The error for an unknown model names the server's models for the operator.
func TestUnknownModelNamesThoseThatExist(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Models("llama-9", "text-embedding-1", "qwen-8\x1b[31m")
	server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Status: 404, Body: `{"error":{"message":"The model does not exist","code":"model_not_found"}}`}
	})
	told := mustFail(t, llm.NewClient(fastRetries(server), nil), llm.KindUnknownModel)
	if !strings.Contains(told.Error(), `does not have the model "test-model"`) || !strings.Contains(told.Error(), "which are llama-9, qwen-8[31m") || strings.Contains(told.User, "llama") {
		t.Errorf("the operator is told %q, the user %q", told.Error(), told.User)
	}
}

// Check reports only problems that would make every call fail.
func TestCheckFindsWhatFailsEveryCall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*llmtest.Server, *llm.Config)
		kind    llm.Kind
		says    string
	}{
		"all is well":          {func(*llmtest.Server, *llm.Config) {}, "", ""},
		"a variant":            {func(_ *llmtest.Server, c *llm.Config) { c.Model = "test-model:free" }, "", ""},
		"a server's own names": {func(s *llmtest.Server, c *llm.Config) { s.Models("models/gemini-9"); c.Model = "gemini-9" }, "", ""},
		"no list":              {func(s *llmtest.Server, c *llm.Config) { s.Models() }, "", ""},
		"a path without list":  {func(_ *llmtest.Server, c *llm.Config) { c.BaseURL += "/deeper" }, "", ""},
		"the model is gone":    {func(s *llmtest.Server, _ *llm.Config) { s.Models("newer") }, llm.KindUnknownModel, "which are newer; set model in [llm]"},
		"wrong key":            {func(s *llmtest.Server, _ *llm.Config) { s.RequireKey("x") }, llm.KindUnauthorized, "none is set; set api_key in [llm]"},
		"nobody there":         {func(s *llmtest.Server, _ *llm.Config) { s.Close() }, llm.KindUnreachable, "base_url in [llm]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := llmtest.New(t)
			cfg := fastRetries(server)
			test.prepare(server, &cfg)
			err := llm.NewClient(cfg, nil).Check(t.Context())
			if llm.KindOf(err) != test.kind || test.kind != "" && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.kind)
			}
		})
	}
}
