package agentloop

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/llm"
	"parley/llm/llmtest"
)

// lockedBuffer collects a log that several goroutines write.
type lockedBuffer struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.String()
}

// At the level debug, the log lists the steps of a run, without any text of messages.
func TestDebugLogDescribesARunWithoutItsTexts(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
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
