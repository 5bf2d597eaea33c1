package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// archiveOutside archives a conversation as the API does.
func (h *harness) archiveOutside(ctx context.Context, key conversation.Key) error {
	return h.router.Exclusively(ctx, key, func(ctx context.Context) error {
		_, err := h.store.Archive(ctx, key, "")
		return err
	})
}

func TestNextRunSeesChangesFromOutside(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Config.LoopIdleTimeout = time.Hour }) // the loop would go on with what it remembers
	h.ask(room, "my cat is called Tom")
	if err := h.archiveOutside(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	h.ask(room, "what is my cat called?")
	if strings.Contains(h.asked(), "Tom") {
		t.Errorf("the model was sent the archived conversation: %s", h.asked())
	}
	if diff := cmp.Diff([]string{"user: what is my cat called?", "assistant: echo: what is my cat called?"}, h.history(room)); diff != "" {
		t.Error(diff)
	}
}

func TestAnOperationWaitsForTheRunUnderWay(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	asked := make(chan struct{}, 10)
	end, answer := waittest.Gate(t)
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		asked <- struct{}{}
		<-end
		return llmtest.Echo(c)
	})
	h.say(room, "hello")
	waittest.Receive(t, asked, "the model is asked")
	done := make(chan error, 1)
	go func() { done <- h.archiveOutside(t.Context(), room) }()
	short, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("nobody waits that long"))
	defer cancel()
	made := false
	err := h.router.Exclusively(short, room, func(context.Context) error { made = true; return nil })
	if err == nil || !strings.Contains(err.Error(), "cli:room is at work: nobody waits that long") {
		t.Errorf("the operation that was cancelled returns %v", err)
	}
	answer()
	if err := waittest.Receive(t, done, "the conversation is archived"); err != nil {
		t.Fatal(err)
	}
	if got := h.reply(room); got != "echo: hello" {
		t.Errorf("the run's answer is %q", got)
	}
	if err := h.router.Exclusively(t.Context(), room, func(context.Context) error { return nil }); err != nil || made {
		t.Errorf("an operation that was given up is made: %t; the next one: %v", made, err)
	}
	list, _, err := catalog.New(h.store).Conversations(t.Context(), catalog.ConversationQuery{Key: room, Limit: 10})
	if err != nil || len(list) != 1 || list[0].Active || list[0].Messages != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestFailedOperationDoesNotEndTheLoop(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	refused := errors.New("refused")
	if err := h.router.Exclusively(t.Context(), room, func(context.Context) error { return refused }); err != refused {
		t.Errorf("the error is %v", err)
	}
	err := h.router.Exclusively(t.Context(), room, func(context.Context) error { panic("a bug") })
	if err == nil || !strings.Contains(err.Error(), "panic: a bug") {
		t.Errorf("the panic is %v", err)
	}
	if got := h.ask(room, "still there?"); got != "echo: still there?" {
		t.Errorf("%q", got)
	}
}

func TestOperationAfterShutdownIsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.end()
	if err := h.archiveOutside(t.Context(), room); !errors.Is(err, ErrEnding) {
		t.Errorf("the error is %v", err)
	}
}

// Many goroutines send messages and call operations: every message is answered, every operation is
// carried out or refused, and none sees a part of a run.
func TestOperationsAndMessagesAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Config.LoopIdleTimeout = time.Microsecond })
	const each = 30
	var outside sync.WaitGroup
	for side := range 4 {
		outside.Go(func() {
			for range each {
				err := h.router.Exclusively(t.Context(), room, func(ctx context.Context) error {
					turn, err := h.store.Peek(ctx, room, 100_000)
					if n := len(turn.History); n > 0 && turn.History[n-1].Role != conversation.RoleAssistant {
						return fmt.Errorf("side %d sees a question without its answer", side)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range each {
		h.say(room, fmt.Sprint("message ", i))
	}
	outside.Wait()
	until(t, "every message answered", func() bool { return len(h.stored(room)) == each })
}

func TestWindowShowsWhatTheNextCallWouldSend(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Budget = 400 })
	empty, err := h.router.Window(t.Context(), room)
	if err != nil || len(empty.Messages) != 1 || empty.Messages[0].Role != "system" || empty.Left != 0 || empty.Conversation.Messages != 0 {
		t.Errorf("before anything was said: %+v, %v", empty, err)
	}
	for i := range 12 {
		h.ask(room, fmt.Sprint("message ", i, strings.Repeat(" word", 30)))
	}
	before := h.history(room)
	w, err := h.router.Window(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	shown := int64(len(w.Messages) - 1) // beside the system prompt
	if w.Left == 0 || shown+w.Left != 24 || !strings.Contains(w.Messages[0].Content, fmt.Sprint(w.Left, " earlier messages")) || w.Tokens > w.Budget || len(w.Tools) != 2 {
		t.Errorf("%d messages and %d left out, %d of %d tokens, %d tools", shown, w.Left, w.Tokens, w.Budget, len(w.Tools))
	}
	if last := w.Messages[shown]; last.Role != "assistant" || !strings.Contains(last.Content, "message 11") {
		t.Errorf("it ends with %+v", last)
	}
	if diff := cmp.Diff(before, h.history(room)); diff != "" {
		t.Errorf("looking at it changed the conversation: %s", diff)
	}
}
