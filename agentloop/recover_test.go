package agentloop

import (
	"context"
	"io"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/media"
	"parley/llm"
)

// panickingCounter is a counter that panics on one text, as a bug in a library would.
type panickingCounter struct{ *llm.Counter }

func (b panickingCounter) Text(text string) int {
	if strings.Contains(text, "poison") {
		panic("secret detail")
	}
	return b.Counter.Text(text)
}

func TestPanicInACommandIsReportedInItsChatAlone(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Counter, p.StateBudget = panickingCounter{p.Counter.(*llm.Counter)}, 10 })
	h.ask("cli:poisoned", "poison")
	got := h.ask("cli:poisoned", "/state")
	if !strings.Contains(got, "Something went wrong (run 2)") || strings.Contains(got, "secret detail") {
		t.Errorf("the user reads %q", got)
	}
	for _, key := range []conversation.Key{room, "cli:poisoned"} {
		if got := h.ask(key, "still there?"); got != "echo: still there?" {
			t.Errorf("%s reads %q", key, got)
		}
	}
}

// panickingMessageCounter is a counter that panics on one message, before the run begins.
type panickingMessageCounter struct{ *llm.Counter }

func (f panickingMessageCounter) Message(m llm.Message) int {
	if m.Content == "poison" {
		panic("secret detail")
	}
	return f.Counter.Message(m)
}

// A panic over a message does not end the gateway. The sender is told of the failure, the
// message is stored, and the next ones are answered.
func TestPanicBeforeARunIsReportedInItsChatAlone(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Counter = panickingMessageCounter{p.Counter.(*llm.Counter)} })
	h.say("cli:poisoned", "poison")
	if got := h.reply("cli:poisoned"); got != "Something went wrong (run 1)." {
		t.Errorf("the user reads %q", got)
	}
	for _, key := range []conversation.Key{room, "cli:poisoned"} {
		if got := h.ask(key, "still there?"); got != "echo: still there?" {
			t.Errorf("%s reads %q", key, got)
		}
	}
	if got := h.history("cli:poisoned"); len(got) != 3 || got[0] != "user: poison" {
		t.Errorf("history: %q", got)
	}
}

// panickingFiles is a channel that panics over one file.
type panickingFiles struct{ channelFiles }

func (t panickingFiles) Fetch(ctx context.Context, channel string, file media.Attachment) (io.ReadCloser, error) {
	if file.Ref == "poison" {
		panic("secret detail")
	}
	return t.channelFiles.Fetch(ctx, channel, file)
}

func TestPanicOverAFileIsReportedToTheModel(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Files = panickingFiles{channelFiles{"notes": "buy milk"}} })
	h.accept(
		withFiles(h.inbound(room, "see this"), media.Attachment{Name: "bad.txt", MediaType: "text/plain", Size: 3, Ref: "poison"}),
		withFiles(h.inbound(room, "and this"), media.Attachment{Name: "notes.txt", MediaType: "text/plain", Size: 8, Ref: "notes"}),
	)
	h.reply(room)
	if got := h.asked(); !strings.Contains(got, "see this\n[file bad.txt could not be loaded: something went wrong]") || !strings.Contains(got, "buy milk") {
		t.Errorf("the model was sent %s", got)
	}
}
