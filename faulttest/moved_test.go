package faulttest

import (
	"os"
	"testing"

	"parley/gateway/gatewaytest"
)

// newMovedWorld returns a world whose database can be moved, and a gateway that has answered once.
func newMovedWorld(t *testing.T) (w *world, p *gatewaytest.Process) {
	t.Helper()
	w = newWorld(t, settings{})
	p = w.startServing()
	w.say(1, "before")
	w.awaitAnswer(1, "before")
	w.awaitMarked(1)
	return w, p
}

// takeAway moves the database until the returned function is called.
func (w *world) takeAway() (back func()) {
	w.t.Helper()
	away := w.gw.Database + ".away"
	w.must(os.Rename(w.gw.Database, away))
	return func() { w.must(os.Rename(away, w.gw.Database)) }
}

func TestDatabaseMovedBeforeAccept(t *testing.T) {
	t.Parallel()
	w, p := newMovedWorld(t)
	back := w.takeAway()
	w.awaitLog("database taken away") // nobody writes
	w.say(1, "m1")
	w.awaitLog("messages not stored")
	if w.platform.unstored() == 0 {
		t.Error("a message was acknowledged although its database was taken away")
	}
	w.expectReplies(1, "re before")
	back()
	w.awaitAnswer(1, "m1")
	p.Stop()
	w.expectClean()
	w.expectAnsweredOnce()
}

// The answer waits in memory, like one on a full disk.
func TestDatabaseMovedDuringARun(t *testing.T) {
	t.Parallel()
	w, p := newMovedWorld(t)
	held := w.holdModel("m1")
	w.say(1, "m1")
	w.awaitReached("the model call", held)
	w.awaitStored()
	back := w.takeAway()
	held.Open()
	w.awaitLog("could not store a run")
	w.expectReplies(1, "re before")
	back()
	w.awaitAnswer(1, "m1")
	p.Stop()
	w.expectClean()
	w.expectAnsweredOnce()
	if served := w.model.Served(); served != 2 {
		t.Errorf("the model was called %d times for 2 messages", served)
	}
}

// A message that the gateway has acknowledged is still there after a kill, although the write-ahead
// log that held it was deleted.
func TestDeletedLogLosesNothing(t *testing.T) {
	t.Parallel()
	w, p := newMovedWorld(t)
	w.must(os.Remove(w.gw.Database + "-wal"))
	w.awaitLog("is made anew")
	p.Kill()
	p = w.startServing()
	w.say(1, "m1")
	w.awaitAnswer(1, "m1")
	w.must(os.Remove(w.gw.Database + "-wal"))
	w.say(1, "m2")
	w.awaitAnswer(1, "m2")
	w.awaitMarked(3)
	p.Kill()
	p = w.startServing()
	w.say(1, "m3")
	w.awaitAnswer(1, "m3")
	p.Stop()
	w.expectClean()
	w.expectAnsweredOnce()
}

// When somebody restores a copy under a running gateway, the gateway writes nothing into that file.
func TestReplacedDatabaseWaitsForTheNextStart(t *testing.T) {
	t.Parallel()
	w, p := newMovedWorld(t)
	back := w.takeAway()
	copied, err := os.ReadFile(w.gw.Database + ".away")
	w.must(err)
	w.must(os.WriteFile(w.gw.Database, copied, 0o600))
	w.awaitLog("another file stands at")
	w.say(1, "m1")
	w.awaitLog("messages not stored")
	p.Stop()
	if w.platform.unstored() == 0 {
		t.Error("a message was acknowledged although another file stands in the place of the database")
	}
	back() // the gateway has made it whole when it was taken away
	p = w.startServing()
	w.awaitAnswer(1, "m1")
	p.Stop()
	w.expectClean()
	w.expectAnsweredOnce()
}
