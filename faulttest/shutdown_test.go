package faulttest

import (
	"syscall"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
)

// TestTerminatedUnderLoad ends the gateway during twenty answers: these are finished and delivered,
// and messages from the meantime are answered after the next start.
func TestTerminatedUnderLoad(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		held := w.holdModel("first")
		p := w.startServing()
		for chat := 1; chat <= loadChats; chat++ {
			w.say(chat, "first")
		}
		gatewaytest.Await(w.t, "twenty model calls", func() bool { return w.model.Served() == loadChats })
		for chat := 1; chat <= loadChats; chat++ {
			w.say(chat, "waiting")
		}
		w.awaitStored()
		p.Signal(syscall.SIGTERM)
		w.awaitLog("shutting down")
		for chat := 1; chat <= loadChats; chat++ {
			w.say(chat, "late")
		}
		held.Open()
		p.MustExit(0)

		for chat := 1; chat <= loadChats; chat++ {
			w.expectReplies(chat, "re first")
		}
		w.expectState(w.copyDatabase(), loadChats, 2*loadChats, 0)

		p = w.startServing()
		w.awaitStored()
		w.awaitAllAnswered()
		p.Stop()
		w.expectClean()
		w.expectAnsweredOnce()
	})
}

func TestSecondSignalEndsTheGatewayAtOnce(t *testing.T) {
	onEach(t, settings{drain: "1h"}, func(w *world) {
		held := w.holdModel("m1")
		p := w.startServing()
		w.say(1, "m1")
		w.awaitReached("the model call", held)
		p.Signal(syscall.SIGTERM)
		w.awaitLog("shutting down")
		p.Signal(syscall.SIGINT) // another SIGTERM could count as a repeat of the first one
		w.awaitLog("answers under way interrupted")
		p.MustExit(0)
		w.expectState(w.copyDatabase(), 1, 0, 0)

		held.Open()
		w.expectSettled(1, "re m1")
		w.expectClean()
	})
}

func TestDrainTimeoutShorterThanTheModel(t *testing.T) {
	onEach(t, settings{drain: "50ms"}, func(w *world) {
		held := w.holdModel("m1")
		p := w.startServing()
		w.say(1, "m1")
		w.awaitReached("the model call", held)
		p.Stop()
		w.expectState(w.copyDatabase(), 1, 0, 0)

		held.Open()
		w.expectSettled(1, "re m1")
		w.expectClean()
	})
}

func TestDrainTimeoutShorterThanThePlatformsWait(t *testing.T) {
	onEach(t, settings{drain: "50ms"}, func(w *world) {
		p := w.startServing()
		w.platform.limit(1, time.Hour)
		w.say(1, "m1")
		w.awaitLog("reply not taken")
		p.Stop()
		w.expectState(w.copyDatabase(), 0, 2, 1)

		w.expectSettled(1, "re m1")
		w.expectClean()
	})
}
