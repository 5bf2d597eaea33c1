package faulttest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestHangingAndRateLimitedChatsDelayNoOther holds back the model's answer to one chat, and lets the
// platform rate-limit another one for an hour.
func TestHangingAndRateLimitedChatsDelayNoOther(t *testing.T) {
	onEach(t, settings{drain: "1s"}, func(w *world) {
		const slow, limited, rounds = 1, 2, 10
		held := w.holdModel("slow")
		w.platform.limit(limited, time.Hour)
		p := w.startServing()
		w.say(slow, "slow")
		w.say(limited, "limited")
		w.awaitReached("the slow call", held)
		w.awaitLog("reply not taken")
		for round := range rounds {
			for chat := limited + 1; chat <= loadChats; chat++ {
				w.say(chat, fmt.Sprintf("m%d", round))
			}
			for chat := limited + 1; chat <= loadChats; chat++ {
				w.awaitAnswer(chat, fmt.Sprintf("m%d", round))
			}
		}
		w.expectReplies(slow)
		w.expectReplies(limited)

		held.Open()
		w.awaitAnswer(slow, "slow")
		p.Stop()
		w.expectReplies(limited)
		p = w.startServing()
		w.awaitAnswer(limited, "limited")
		p.Stop()
		w.expectClean()
		w.expectAnsweredOnce()
	})
}

// TestBatchKeepsOrder lets many messages of several chats arrive at once, and then all of them again.
func TestBatchKeepsOrder(t *testing.T) {
	t.Parallel()
	const chats, messages = 5, 60 // more than one getUpdates takes
	w := newWorld(t, settings{})
	for m := range messages {
		for chat := 1; chat <= chats; chat++ {
			w.say(chat, fmt.Sprintf("m%d", m))
		}
	}
	p := w.startServing()
	w.awaitStored()
	w.awaitAllAnswered()
	if again := w.telegram.Redeliver(0); again != chats*messages {
		t.Fatalf("%d updates are delivered again, want %d", again, chats*messages)
	}
	w.awaitStored()
	for chat := 1; chat <= chats; chat++ {
		w.say(chat, "afterwards")
	}
	w.awaitAllAnswered()
	p.Stop()
	w.expectClean()
	w.expectAnsweredOnce()
	for _, r := range w.platform.sent(1) {
		if strings.Contains(r, "afterwards") && r != "re afterwards" {
			t.Errorf("repeated messages were answered again: %q", r)
		}
	}
}
