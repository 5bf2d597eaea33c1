package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"parley/llm"
)

func offline(t *testing.T, req llm.Request) (string, llm.Response) {
	t.Helper()
	var pieces []string
	resp, err := llm.NewOffline().Complete(t.Context(), req, func(d llm.Delta) { pieces = append(pieces, d.Text) })
	if err != nil {
		t.Fatalf("Complete: %v", err)
	}
	if shown := strings.Join(pieces, ""); shown != resp.Text {
		t.Errorf("shown %q, answered %q", shown, resp.Text)
	}
	if len(resp.ToolCalls) == 0 && len(pieces) < 2 {
		t.Errorf("the answer came in %d pieces: it does not stream", len(pieces))
	}
	return resp.Text, resp
}

func TestOfflineIntroducesItself(t *testing.T) {
	t.Parallel()
	text, _ := offline(t, ask("good morning"))
	for _, want := range []string{"offline model", "stand-in", "good morning", "OPENAI_API_KEY", "config.toml", "Ollama"} {
		if !strings.Contains(text, want) {
			t.Errorf("the introduction does not speak of %q:\n%s", want, text)
		}
	}
}

func TestOfflineRemembers(t *testing.T) {
	t.Parallel()
	req := ask("first")
	for _, text := range []string{"second", "third", "fourth"} {
		req.Messages = append(req.Messages,
			llm.Message{Role: "assistant", Content: "I see."},
			llm.Message{Role: "user", Content: text})
	}
	text, _ := offline(t, req)
	for _, want := range []string{"7 messages", "4 of them yours", "> second", "> third", "> fourth", "OPENAI_API_KEY"} {
		if !strings.Contains(text, want) {
			t.Errorf("the answer does not have %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "> first") {
		t.Errorf("more than the last three are repeated:\n%s", text)
	}
}

func TestOfflineTellsTheTime(t *testing.T) {
	t.Parallel()
	req := ask("Hey, what time is it?")
	if _, resp := offline(t, req); len(resp.ToolCalls) != 0 {
		t.Error("a tool is called that is not there")
	}
	req.Tools = []llm.Tool{{Name: "current_time"}}
	_, resp := offline(t, req)
	if len(resp.ToolCalls) != 1 || resp.ToolCalls[0].Name != "current_time" || resp.ToolCalls[0].ID == "" {
		t.Fatalf("tool calls %+v, want one of current_time", resp.ToolCalls)
	}
	req.Messages = append(req.Messages,
		llm.Message{Role: "assistant", ToolCalls: resp.ToolCalls},
		llm.Message{Role: "tool", ToolCallID: resp.ToolCalls[0].ID, Content: "2026-03-01 12:00 UTC"})
	if text, _ := offline(t, req); !strings.Contains(text, "12:00 UTC") {
		t.Errorf("the answer does not tell the time:\n%s", text)
	}
	req.Messages = append(req.Messages, llm.Message{Role: "user", Content: "I had a good time."})
	if _, resp := offline(t, req); len(resp.ToolCalls) != 0 {
		t.Error("the tool is called though nobody asked")
	}
}

func TestOfflineAcceptsAnyRequest(t *testing.T) {
	t.Parallel()
	offlineText := func(req llm.Request) string {
		resp, err := llm.NewOffline().Complete(t.Context(), req, nil)
		if err != nil || resp.Text == "" {
			t.Errorf("answer %q, error %v", resp.Text, err)
		}
		return resp.Text
	}
	offlineText(llm.Request{})
	for _, text := range []string{"", "\x00\xff", strings.Repeat("é", 1<<20), strings.Repeat("\n", 10_000)} {
		if answer := offlineText(ask(text)); len(answer) > 4000 {
			t.Errorf("an answer of %d bytes", len(answer))
		}
	}
}

func TestOfflineStops(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	resp, err := llm.NewOffline().Complete(ctx, ask("hello"), func(llm.Delta) { stop(stopped) })
	if !errors.Is(err, stopped) || resp.Text == "" {
		t.Errorf("text %q, error %v; want some text and the cause", resp.Text, err)
	}
}
