package faulttest

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/llm/llmtest"
)

// The tests of this file kill the gateway at each named point of a message's
// way. What holds it there is outside of it: the model, the platform, a lock.

func TestKilledAfterAccept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{maxRuns: 1})
	held := w.holdModel("holder")
	p := w.startPolling()
	w.say(1, "holder")
	w.awaitReached("the model call", held)
	w.say(2, "m1")
	w.awaitConfirmed()
	p.kill()
	w.expectState(w.copyDatabase(), 2, 0, 0)

	held.Open()
	w.expectSettled(1, "re holder")
	w.expectSettled(2, "re m1")
	w.expectClean()
}

func TestKilledInTheModelCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	held := w.holdModel("m1")
	p := w.startPolling()
	w.say(1, "m1")
	w.awaitReached("the model call", held)
	p.kill()
	w.expectState(w.copyDatabase(), 1, 0, 0)

	held.Open()
	w.expectSettled(1, "re m1")
	w.expectClean()
}

func TestKilledWhileTheAnswerStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		a := answerTo(c)
		a.Pieces, a.ChunkDelay = 2, time.Hour
		return a
	})
	p := w.startPolling()
	w.say(1, "m1")
	w.await("the model call", func() bool { return w.model.Served() > 0 })
	p.kill()
	w.expectState(w.copyDatabase(), 1, 0, 0)

	w.model.Reply(answerTo)
	w.expectSettled(1, "re m1")
	w.expectClean()
}

func TestKilledBeforeCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	held := w.holdModel("m1")
	p := w.startPolling()
	w.say(1, "m1")
	w.awaitReached("the model call", held)
	w.awaitConfirmed()
	unlock := w.lockForWriting()
	held.Open()
	time.Sleep(300 * time.Millisecond) // the answer arrives; all that can be left to do is the commit
	p.kill()
	unlock()
	w.expectState(w.copyDatabase(), 1, 0, 0)

	w.expectSettled(1, "re m1")
	w.expectClean()
}

// lockForWriting keeps every process from writing into the database.
func (w *world) lockForWriting() (unlock func()) {
	w.t.Helper()
	ctx := context.Background()
	db := openSQLite(w.t, w.database)
	conn, err := db.Conn(ctx)
	w.must(err)
	_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	w.must(err)
	return func() {
		_, err := conn.ExecContext(ctx, "ROLLBACK")
		w.must(err)
		w.must(conn.Close())
		w.must(db.Close())
	}
}

func TestKilledAfterCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	held := newGate(t)
	w.onSend(func(telegramtest.Message) telegramtest.Verdict {
		held.pass()
		return telegramtest.Drop()
	}, nil)
	p := w.startPolling()
	w.say(1, "m1")
	w.awaitReached("the reply at the platform", held)
	p.kill()
	w.expectState(w.copyDatabase(), 0, 2, 1)

	w.onSend(nil, nil)
	held.Open()
	w.expectSettled(1, "re m1")
	w.expectClean()
}

// TestKilledBeforeTheMark is the one place where a reply comes twice: the
// platform took it, and the process died before it could know.
func TestKilledBeforeTheMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	held := newGate(t)
	w.onSend(nil, func(telegramtest.Message) telegramtest.Verdict {
		held.pass()
		return telegramtest.Drop()
	})
	p := w.startPolling()
	w.say(1, "m1")
	w.awaitReached("the platform's taking of the reply", held)
	p.kill()
	w.expectState(w.copyDatabase(), 0, 2, 1)

	w.onSend(nil, nil)
	held.Open()
	w.expectSettled(1, "re m1", "re m1")
	w.expectClean()
}

func TestKilledAfterTheMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.startPolling()
	w.say(1, "m1")
	w.awaitAnswer(1, "m1")
	w.awaitMarked(1)
	p.kill()
	w.expectState(w.copyDatabase(), 0, 2, 0)

	w.expectSettled(1, "re m1")
	w.expectClean()
}

// awaitMarked waits until n replies are marked as sent, while the gateway runs.
func (w *world) awaitMarked(n int) {
	w.t.Helper()
	db, err := sql.Open("sqlite3", "file:"+w.database+"?mode=ro&_busy_timeout=10000")
	w.must(err)
	defer db.Close()
	w.await("the mark", func() bool {
		return len(column(w.t, db, `SELECT id FROM outbox WHERE state = 'sent'`)) >= n
	})
}

// TestKilledBetweenTheParts kills after the first of three parts of a reply
// was taken and marked, and before the second one was taken.
func TestKilledBetweenTheParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	parts := []string{strings.Repeat("a", 4000), strings.Repeat("b", 4000), strings.Repeat("c", 4000)}
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() != "m1" {
			return answerTo(c)
		}
		return llmtest.Answer{Text: strings.Join(parts, "\n\n")}
	})
	held := newGate(t)
	w.onSend(func(m telegramtest.Message) telegramtest.Verdict {
		if m.Text != parts[1] {
			return telegramtest.Verdict{}
		}
		held.pass()
		return telegramtest.Drop()
	}, nil)
	p := w.startPolling()
	w.say(1, "m1")
	w.awaitReached("the second part at the platform", held)
	p.kill()
	w.expectState(w.copyDatabase(), 0, 2, 1)

	w.onSend(nil, nil)
	held.Open()
	w.expectSettled(1, parts...)
}

// expectSettled starts the gateway, lets the person write once more, and ends
// the gateway when that is answered. Replies of a chat go out in order, so what
// the chat was to get before has come by then, and nothing more may come.
func (w *world) expectSettled(chat int, want ...string) {
	w.t.Helper()
	p := w.startPolling()
	w.await("the replies that are due", func() bool { return len(w.got(chat)) >= len(want) })
	w.say(chat, "afterwards")
	w.awaitAnswer(chat, "afterwards")
	p.stop()
	w.expectReplies(chat, append(want, "re afterwards")...)
}
