package agentloop

import (
	"context"
	"strings"
	"testing"

	"parley/conversation"
	"parley/llm"
)

// brittle is a counter that panics over one text, as a bug in a library would.
type brittle struct{ *llm.Counter }

func (b brittle) Text(text string) int {
	if strings.Contains(text, "poison") {
		panic("secret detail")
	}
	return b.Counter.Text(text)
}

func TestPanicInACommandIsToldThereAndEndsNothing(t *testing.T) {
	h := newHouse(t, func(p *Parts) { p.Counter, p.StateBudget = brittle{p.Counter.(*llm.Counter)}, 800 })
	h.ask("cli:poisoned", "poison")
	got := h.ask("cli:poisoned", "/status")
	if !strings.Contains(got, "Something went wrong (run 2)") || strings.Contains(got, "secret detail") {
		t.Errorf("the user reads %q", got)
	}
	for _, key := range []conversation.Key{room, "cli:poisoned"} {
		if got := h.ask(key, "still there?"); got != "echo: still there?" {
			t.Errorf("%s reads %q", key, got)
		}
	}
}

// trap panics over one file.
type trap struct{ shelf }

func (t trap) Fetch(ctx context.Context, channel string, file conversation.Attachment, limit int64) ([]byte, error) {
	if file.Ref == "poison" {
		panic("secret detail")
	}
	return t.shelf.Fetch(ctx, channel, file, limit)
}

func TestPanicOverAFileLeavesItsNameAndEndsNothing(t *testing.T) {
	h := newHouse(t, func(p *Parts) { p.Files = trap{shelf{"notes": "buy milk"}} })
	h.accept(
		filed(h.inbound(room, "see this"), conversation.Attachment{Name: "bad.txt", MediaType: "text/plain", Size: 3, Ref: "poison"}),
		filed(h.inbound(room, "and this"), conversation.Attachment{Name: "notes.txt", MediaType: "text/plain", Size: 8, Ref: "notes"}),
	)
	h.reply(room)
	if got := h.asked(); !strings.Contains(got, "see this\n[file bad.txt, 3 bytes, not shown]") || !strings.Contains(got, "buy milk") {
		t.Errorf("the model was sent %s", got)
	}
}
