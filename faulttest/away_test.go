package faulttest

import (
	"fmt"
	"testing"
)

// TestAway lets everybody write while no gateway runs, and while one starts:
// all of it is answered once, in order.
func TestAway(t *testing.T) {
	onEach(t, settings{}, func(w *world) {
		w.meetEverybody()
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
		w.awaitTaken()
		w.awaitAllAnswered()
		p.Stop()
		w.expectClean()
		w.expectAnsweredOnce()
	})
}
