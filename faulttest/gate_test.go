package faulttest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// gate blocks callers until it is opened.
type gate struct {
	reached, opened chan struct{}
	reach, open     sync.Once
}

// newGate returns a gate that opens by itself when the test ends.
func newGate(t *testing.T) *gate {
	g := &gate{reached: make(chan struct{}), opened: make(chan struct{})}
	t.Cleanup(g.Open)
	return g
}

func (g *gate) pass() {
	g.reach.Do(func() { close(g.reached) })
	<-g.opened
}

func (g *gate) Open() { g.open.Do(func() { close(g.opened) }) }

func (w *world) awaitReached(what string, g *gate) {
	w.t.Helper()
	select {
	case <-g.reached:
	case <-time.After(waittest.Patience):
		w.t.Fatalf("waited in vain for %s", what)
	}
}

// holdModel holds back the model's answers to messages that contain a text.
func (w *world) holdModel(text string) *gate {
	g := newGate(w.t)
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.LastUser(), text) {
			g.pass()
		}
		return answerTo(c)
	})
	return g
}
