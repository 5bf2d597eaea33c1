package faulttest

import (
	"fmt"
	"testing"
)

// TestMessagesFromWhileNoGatewayRanAreAnsweredInOrder has people write while no gateway runs, and while one starts:
// each message is answered once, in order.
func TestMessagesFromWhileNoGatewayRanAreAnsweredInOrder(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		w.answerEverybodyOnce()
		everybody := func(text string) {
			for chat := 1; chat <= loadChats; chat++ {
				w.say(chat, text)
			}
		}
		for n := range 5 {
			everybody(fmt.Sprintf("away%d", n))
		}
		p := w.start()
		for n := range 5 {
			everybody(fmt.Sprintf("starting%d", n))
		}
		w.awaitStored()
		w.awaitAllAnswered()
		p.Stop()
		w.expectClean()
		w.expectAnsweredOnce()
	})
}
