package llm

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// sentBody returns the body of a call to a server.
func sentBody(t *testing.T, cfg Config, req Request) map[string]any {
	t.Helper()
	body, err := newTemplate(cfg.Model, cfg, slog.New(slog.DiscardHandler)).request(req).encode()
	if err != nil {
		t.Fatal(err)
	}
	var sent map[string]any
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	return sent
}

// Each server gets the cache parameters that its API documents, and others get none.
func TestCacheParametersAreSentToServersThatKnowThem(t *testing.T) {
	t.Parallel()
	list := []Message{
		{Role: "system", Content: "Be kind."}, {Role: "user", Content: "one"}, {Role: "assistant", Content: "two"},
		{Role: "assistant", ToolCalls: []ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}}, {Role: "tool", ToolCallID: "c", Content: "three"},
		{Role: "user", Content: "four", Note: "state"},
	}
	tooled := slices.Concat(list, []Message{
		{Role: "assistant", ToolCalls: []ToolCall{{ID: "d", Name: "f", Arguments: "{}"}}}, {Role: "tool", ToolCallID: "d", Content: "five"},
	})
	for name, c := range map[string]struct {
		cfg    Config
		list   []Message
		key    bool
		marked []int
	}{
		"OpenAI":                        {cfg: Config{BaseURL: "https://api.openai.com/v1", Model: "gpt-4o"}, list: list, key: true},
		"OpenAI, off":                   {cfg: Config{BaseURL: "https://api.openai.com/v1", Model: "gpt-4o", PromptCache: PromptCacheOff}, list: list},
		"Claude over OpenRouter":        {cfg: Config{BaseURL: "https://openrouter.ai/api/v1", Model: "anthropic/claude-sonnet-4.5"}, list: list, marked: []int{0, 2}},
		"Claude, with tool calls":       {cfg: Config{BaseURL: "https://openrouter.ai/api/v1", Model: "anthropic/claude-sonnet-4.5"}, list: tooled, marked: []int{0, 2, 5}},
		"Claude, off":                   {cfg: Config{BaseURL: "https://openrouter.ai/api/v1", Model: "anthropic/claude-sonnet-4.5", PromptCache: PromptCacheOff}, list: list},
		"Claude, a first message":       {cfg: Config{BaseURL: "https://openrouter.ai/api/v1", Model: "anthropic/claude-sonnet-4.5"}, list: list[:2], marked: []int{0}},
		"another model over OpenRouter": {cfg: Config{BaseURL: "https://openrouter.ai/api/v1", Model: "meta-llama/llama-3"}, list: list},
		"a server of one's own":         {cfg: Config{BaseURL: "http://127.0.0.1:8080/v1", Model: "anthropic/claude"}, list: list},
		"another server of that name":   {cfg: Config{BaseURL: "https://openrouter.ai.example.com/v1", Model: "anthropic/claude"}, list: list},
	} {
		sent := sentBody(t, c.cfg, Request{Messages: c.list, CacheKey: "of the session"})
		if _, has := sent["prompt_cache_key"]; has != c.key {
			t.Errorf("%s: it has a key: %t", name, has)
		}
		var marked []int
		for i, m := range sent["messages"].([]any) {
			content := m.(map[string]any)["content"]
			parts, isList := content.([]any)
			if !isList {
				continue
			}
			part := parts[0].(map[string]any)
			if part["cache_control"].(map[string]any)["type"] != "ephemeral" || part["text"] != c.list[i].Text() {
				t.Errorf("%s: message %d is sent as %v", name, i, content)
			}
			marked = append(marked, i)
		}
		if !slices.Equal(marked, c.marked) {
			t.Errorf("%s: marks on %v, want %v", name, marked, c.marked)
		}
	}
	if sent := sentBody(t, Config{BaseURL: "https://api.openai.com/v1", Model: "gpt-4o"}, Request{Messages: list}); strings.Contains(toJSON(t, sent), "prompt_cache_key") {
		t.Error("a call without a session has a key")
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Cached tokens are read from the fields of OpenAI and of DeepSeek. Invalid values are ignored.
func TestCachedTokensAreRead(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]Usage{
		`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":80}}`:     {Prompt: 100, Cached: 80, Completion: 5},
		`{"prompt_tokens":100,"completion_tokens":5,"prompt_cache_hit_tokens":64}`:                     {Prompt: 100, Cached: 64, Completion: 5},
		`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":null}`:                     {Prompt: 100, Completion: 5},
		`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":999}}`:    {Prompt: 100, Cached: 100, Completion: 5},
		`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":-1}}`:     {Prompt: 100, Completion: 5},
		`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":"many"}}`: {Prompt: 100, Completion: 5},
	} {
		a := answer{out: &output{}, room: 1000, finishing: func() {}}
		if err := a.add([]byte(`{"choices":[{"delta":{"content":"hi"}}],"usage":` + sent + `}`)); err != nil {
			t.Errorf("%s: %v", sent, err)
		}
		if got := a.usage.tokens(); got != want {
			t.Errorf("%s is read as %+v", sent, got)
		}
	}
}
