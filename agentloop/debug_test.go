package agentloop

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/waittest"
	"parley/llm"
	"parley/llm/llmtest"
)

// At the level debug, the log lists the steps of a run, without any text of messages.
func TestDebugLogDescribesARunWithoutItsTexts(t *testing.T) {
	t.Parallel()
	var log waittest.Buffer
	h := newHarness(t, func(p *Deps) {
		p.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	h.server.Script(llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "c", Name: "current_time", Arguments: "{}"}}}, llmtest.Answer{Text: "half past nine"})
	h.ask(room, "what time is my secret meeting?")
	h.end()
	var told []string
	for _, found := range regexp.MustCompile(`level=DEBUG msg=("[^"]+"|\S+) session=cli:room run=1 `).FindAllStringSubmatch(log.String(), -1) {
		told = append(told, strings.Trim(found[1], `"`))
	}
	want := []string{"run begun", "window", "model call", "tool call", "window", "model call", "run committed"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, log.String())
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log has what was said: %s", log.String())
	}
}
