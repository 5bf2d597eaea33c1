package llm_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"parley/llm"
	"parley/llm/llmtest"
)

// When the server sends without end, Complete returns with a cut answer, and ends the request, so that the
// test server can end.
func TestAnswerIsCutAtItsMaximumLength(t *testing.T) {
	t.Parallel()
	const most = 10_000
	for name, tt := range map[string]struct {
		answer llmtest.Answer
		want   int // bytes of text, from want-3 on where a character is in the way
	}{
		"endless text":         {llmtest.Answer{Text: "and so on 😀 ", Endless: true}, most},
		"endless in one piece": {llmtest.Answer{Text: strings.Repeat("€", 50_000), Pieces: 1, Endless: true}, most},
		"too long, and ends":   {llmtest.Answer{Text: strings.Repeat("word ", 3000)}, most},
		"no stream":            {llmtest.Answer{Text: strings.Repeat("é", 3000) + strings.Repeat("é", 3000), NotStream: true}, most},
		"as long as it may be": {llmtest.Answer{Text: strings.Repeat("a", most)}, -most},
	} {
		t.Run(name, func(t *testing.T) {
			server := llmtest.New(t)
			server.Reply(func(llmtest.Call) llmtest.Answer { return tt.answer })
			cfg := fastRetries(server)
			cfg.MaxAnswerBytes = most
			resp, shown := mustComplete(t, llm.NewClient(cfg, nil), ask("a story"))
			if tt.want < 0 {
				if len(resp.Text) != most || resp.FinishReason != "stop" {
					t.Errorf("%d bytes, finish reason %q", len(resp.Text), resp.FinishReason)
				}
				return
			}
			if n := len(resp.Text); n > tt.want || n < tt.want-3 || !utf8.ValidString(resp.Text) || shown != resp.Text {
				t.Errorf("%d bytes, %d shown", n, len(shown))
			}
			if resp.FinishReason != llm.FinishLength || !resp.IsCut() {
				t.Errorf("finish reason %q", resp.FinishReason)
			}
			if n := len(server.Calls()); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

func TestToolCallsWithoutEndAreCut(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string][]llm.ToolCall{
		"long arguments": {{ID: "a", Name: "write", Arguments: `{"text":"and so on"}`}},
		"many calls":     {{ID: "a", Name: "look", Arguments: ""}, {ID: "b", Name: "look", Arguments: ""}},
	} {
		server := llmtest.New(t)
		server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{ToolCalls: calls, Endless: true} })
		cfg := fastRetries(server)
		cfg.MaxAnswerBytes = 5000
		resp, _ := mustComplete(t, llm.NewClient(cfg, nil), ask("write"))
		size := 0
		for _, c := range resp.ToolCalls {
			size += len(c.Arguments)
		}
		if resp.FinishReason != llm.FinishLength || len(resp.ToolCalls) == 0 || size > cfg.MaxAnswerBytes {
			t.Errorf("%s: %d calls with %d bytes, finish reason %q", name, len(resp.ToolCalls), size, resp.FinishReason)
		}
	}
}

// The bytes around an answer's text are limited, too. An answer with text is cut there; one without text is
// not requested again.
func TestAnswerThatIsTooLongOnTheWire(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads 128 MiB")
	}
	server := llmtest.New(t)
	server.Script(
		llmtest.Answer{Text: "x", Reasoning: strings.Repeat("hm ", 100_000), Endless: true},
		llmtest.Answer{Reasoning: strings.Repeat("hm ", 100_000), Endless: true})
	client := llm.NewClient(fastRetries(server), nil)
	if resp, _ := mustComplete(t, client, ask("a story")); resp.FinishReason != llm.FinishLength || strings.Trim(resp.Text, "x") != "" {
		t.Errorf("%d bytes, finish reason %q", len(resp.Text), resp.FinishReason)
	}
	if told := mustFail(t, client, llm.KindNoAnswer); !strings.Contains(told.User, "far more than an answer") {
		t.Errorf("user told %q", told.User)
	}
	if n := len(server.Calls()); n != 2 {
		t.Errorf("%d calls", n)
	}
}
