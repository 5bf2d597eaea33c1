package faulttest

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// The tests of this file kill the gateway at each named point of a message's way. The model, the
// platform or a lock holds it there: the gateway itself has no hooks for tests.

func TestKilledAfterAccept(t *testing.T) {
	onEach(t, settings{maxRuns: 1}, func(w *world) {
		held := w.holdModel("holder")
		p := w.startServing()
		w.say(1, "holder")
		w.awaitReached("the model call", held)
		w.say(2, "m1")
		w.awaitStored()
		p.Kill()
		w.expectState(w.copyDatabase(), 2, 0, 0)

		held.Open()
		w.expectSettled(1, "re holder")
		w.expectSettled(2, "re m1")
		w.expectClean()
	})
}

func TestKilledInTheModelCall(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		held := w.holdModel("m1")
		p := w.startServing()
		w.say(1, "m1")
		w.awaitReached("the model call", held)
		p.Kill()
		w.expectState(w.copyDatabase(), 1, 0, 0)

		held.Open()
		w.expectSettled(1, "re m1")
		w.expectClean()
	})
}

func TestKilledWhileTheAnswerStreams(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		w.model.Reply(func(c llmtest.Call) llmtest.Answer {
			a := answerTo(c)
			a.Pieces, a.ChunkDelay = 2, time.Hour
			return a
		})
		p := w.startServing()
		w.say(1, "m1")
		gatewaytest.Await(w.t, "the model call", func() bool { return w.model.Served() > 0 })
		p.Kill()
		w.expectState(w.copyDatabase(), 1, 0, 0)

		w.model.Reply(answerTo)
		w.expectSettled(1, "re m1")
		w.expectClean()
	})
}

func TestKilledBeforeCommit(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		held := w.holdModel("m1")
		p := w.startServing()
		w.say(1, "m1")
		w.awaitReached("the model call", held)
		w.awaitStored()
		unlock := w.lockForWriting()
		held.Open()
		time.Sleep(300 * time.Millisecond) // the answer arrives; all that can be left to do is the commit
		p.Kill()
		unlock()
		w.expectState(w.copyDatabase(), 1, 0, 0)

		w.expectSettled(1, "re m1")
		w.expectClean()
	})
}

// lockForWriting keeps every process from writing into the database.
func (w *world) lockForWriting() (unlock func()) {
	w.t.Helper()
	ctx := context.Background()
	db, begin := (*sql.DB)(nil), "BEGIN IMMEDIATE"
	if storetest.OnPostgres() { // where each transaction that writes changes a row of this table
		db, begin = w.openServer(), "BEGIN; LOCK TABLE lanes IN EXCLUSIVE MODE"
	} else {
		db = openSQLite(w.t, w.gw.Database)
	}
	conn, err := db.Conn(ctx)
	w.must(err)
	_, err = conn.ExecContext(ctx, begin)
	w.must(err)
	return func() {
		_, err := conn.ExecContext(ctx, "ROLLBACK")
		w.must(err)
		w.must(conn.Close())
		w.must(db.Close())
	}
}

func TestKilledAfterCommit(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		held := newGate(w.t)
		w.platform.onSend(func(int, string) verdict {
			held.pass()
			return dropped
		}, nil)
		p := w.startServing()
		w.say(1, "m1")
		w.awaitReached("the reply at the platform", held)
		p.Kill()
		w.expectState(w.copyDatabase(), 0, 2, 1)

		w.platform.onSend(nil, nil)
		held.Open()
		w.expectSettled(1, "re m1")
		w.expectClean()
	})
}

// TestKilledBeforeTheMark kills the gateway after the platform has taken a reply, and before the
// gateway knows. Only then may a reply come twice, and not if the platform recognizes it.
func TestKilledBeforeTheMark(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		held := newGate(w.t)
		w.platform.onSend(nil, func(int, string) verdict {
			held.pass()
			return dropped
		})
		p := w.startServing()
		w.say(1, "m1")
		w.awaitReached("the platform's taking of the reply", held)
		p.Kill()
		w.expectState(w.copyDatabase(), 0, 2, 1)

		w.platform.onSend(nil, nil)
		held.Open()
		if w.platform.repeats(1) {
			w.expectSettled(1, "re m1", "re m1")
		} else {
			w.expectSettled(1, "re m1")
		}
		w.expectClean()
	})
}

func TestKilledAfterTheMark(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		p := w.startServing()
		w.say(1, "m1")
		w.awaitAnswer(1, "m1")
		w.awaitMarked(1)
		p.Kill()
		w.expectState(w.copyDatabase(), 0, 2, 0)

		w.expectSettled(1, "re m1")
		w.expectClean()
	})
}

// awaitMarked waits until n replies are marked as sent, while the gateway runs.
func (w *world) awaitMarked(n int) {
	w.t.Helper()
	gatewaytest.Await(w.t, "the mark", func() bool { return w.count(`SELECT count(*) FROM outbox WHERE state = 'sent'`) >= n })
}

// TestKilledBetweenTheParts kills the gateway after the first of three parts of a reply was taken and
// marked, and before the second one is taken.
func TestKilledBetweenTheParts(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		full := w.platform.partLength()
		parts := []string{strings.Repeat("a", full), strings.Repeat("b", full), strings.Repeat("c", full)}
		w.model.Reply(func(c llmtest.Call) llmtest.Answer {
			if c.LastUser() != "m1" {
				return answerTo(c)
			}
			return llmtest.Answer{Text: strings.Join(parts, "\n\n")}
		})
		held := newGate(w.t)
		w.platform.onSend(func(_ int, text string) verdict {
			if text != parts[1] {
				return answered
			}
			held.pass()
			return dropped
		}, nil)
		p := w.startServing()
		w.say(1, "m1")
		w.awaitReached("the second part at the platform", held)
		p.Kill()
		w.expectState(w.copyDatabase(), 0, 2, 1)

		w.platform.onSend(nil, nil)
		held.Open()
		w.expectSettled(1, parts...)
	})
}

// expectSettled starts the gateway, lets the person write once more, stops the gateway when that is
// answered, and compares the chat's replies. They are sent in order, so that all earlier ones have
// come by then.
func (w *world) expectSettled(chat int, want ...string) {
	w.t.Helper()
	p := w.startServing()
	gatewaytest.Await(w.t, "the replies that are due", func() bool { return len(w.platform.sent(chat)) >= len(want) })
	w.say(chat, "afterwards")
	w.awaitAnswer(chat, "afterwards")
	p.Stop()
	w.expectReplies(chat, append(want, "re afterwards")...)
}
