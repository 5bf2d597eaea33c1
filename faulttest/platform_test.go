package faulttest

import (
	"testing"
	"time"
)

// platform is a chat platform that goes on when the gateway is killed. Its people are numbered from 1,
// and each writes in a chat of their own.
type platform interface {
	section() string       // of the configuration
	key(chat int) string   // of the chat's session
	partLength() int       // letters that nearly fill a message
	repeats(chat int) bool // a reply comes again when the process died before it knew that it was taken

	load() load // of the test that kills at random

	say(chat int, text string)

	// sent returns the gateway's messages in a chat, oldest first. An answer that is still being
	// written begins with unfinishedMark.
	sent(chat int) []string

	// pictures returns the names of the files in a chat's messages, in their order.
	pictures(chat int) []string

	// onSend sets functions that are called before and after the platform takes a message; nil lets all
	// pass.
	onSend(before, after func(chat int, text string) verdict)

	// limit makes the platform refuse the next message to a chat, and ask the gateway to wait.
	limit(chat int, wait time.Duration)

	connections() int   // that gateways have made so far
	unstored() int      // messages that the gateway has not stored, as far as the platform is told
	secrets() []string  // texts that must appear neither in logs nor in the database
	complaints() string // faults of the gateway's requests, "" if there are none
}

// load describes how the gateway is used while it is killed at random.
type load struct {
	// A kill is of a random instant. Each step at which one is dangerous has a test of its own, so a few kills here
	// are enough to find what breaks at most instants; what breaks at few of them takes the hundreds of `make torture`.
	kills  int64
	life   time.Duration // of a process, at most
	pace   time.Duration // between two messages, at most
	slowly int           // one answer in so many takes seconds; 0: none
}

// verdict is what a platform does with a message.
type verdict int

const (
	answered verdict = iota
	dropped          // the connection is closed without an answer
)

// onEach runs a test on every platform.
func onEach(t *testing.T, s settings, test func(w *world)) {
	t.Parallel()
	for name, newPlatform := range map[string]func(*world) platform{"telegram": newTelegram, "discord": newDiscord} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := s
			of.platform = newPlatform
			test(newWorld(t, of))
		})
	}
}
