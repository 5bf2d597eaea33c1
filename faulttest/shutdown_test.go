package faulttest

import (
	"syscall"
	"testing"

	"parley/channels/telegram/telegramtest"
)

// TestTerminatedUnderLoad ends the gateway while twenty answers are being
// made: those are finished and delivered, and what was written meanwhile is
// answered after the next start.
func TestTerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	held := w.holdModel("first")
	p := w.startPolling()
	for chat := 1; chat <= loadChats; chat++ {
		w.say(chat, "first")
	}
	w.await("twenty model calls", func() bool { return w.model.Served() == loadChats })
	for chat := 1; chat <= loadChats; chat++ {
		w.say(chat, "waiting")
	}
	w.awaitConfirmed()
	p.signal(syscall.SIGTERM)
	w.awaitLog("msg=ending")
	for chat := 1; chat <= loadChats; chat++ {
		w.say(chat, "late")
	}
	held.Open()
	p.expectExit(0)

	for chat := 1; chat <= loadChats; chat++ {
		w.expectReplies(chat, "re first")
	}
	if w.telegram.Pending() == 0 {
		t.Error("messages that came after SIGTERM were taken")
	}
	w.expectState(w.copyDatabase(), loadChats, 2*loadChats, 0)

	p = w.startPolling()
	w.awaitConfirmed()
	w.awaitAllAnswered()
	p.stop()
	w.expectClean()
	w.expectDoublesOnlyFrom(nil)
}

func TestSecondSignalHurries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{drain: "1h"})
	held := w.holdModel("m1")
	p := w.startPolling()
	w.say(1, "m1")
	w.awaitReached("the model call", held)
	p.signal(syscall.SIGTERM)
	w.awaitLog("msg=ending")
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	w.expectState(w.copyDatabase(), 1, 0, 0)

	held.Open()
	w.expectSettled(1, "re m1")
	w.expectClean()
}

func TestDrainTimeoutShorterThanTheModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{drain: "50ms"})
	held := w.holdModel("m1")
	p := w.startPolling()
	w.say(1, "m1")
	w.awaitReached("the model call", held)
	p.stop()
	w.expectState(w.copyDatabase(), 1, 0, 0)

	held.Open()
	w.expectSettled(1, "re m1")
	w.expectClean()
}

func TestDrainTimeoutShorterThanThePlatformsWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{drain: "50ms"})
	p := w.startPolling()
	w.telegram.Refuse(1, telegramtest.TooMany(3600), 1)
	w.say(1, "m1")
	w.awaitLog("reply not taken")
	p.stop()
	w.expectState(w.copyDatabase(), 0, 2, 1)

	w.expectSettled(1, "re m1")
	w.expectClean()
}
