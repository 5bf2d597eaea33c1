// Package waittest lets tests wait for other goroutines, but not for ever.
package waittest

import (
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for something that must happen. It is far longer than anything takes.
const Patience = 90 * time.Second

// Receive receives from a channel, and fails the test with the name what if nothing comes within Patience.
func Receive[T any](t testing.TB, from <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(Patience):
		t.Fatal("waited in vain: ", what)
	}
	return got
}

// Gate returns a channel that open closes. The end of the test closes it, too: otherwise a handler of a server that waits for
// it would keep a failed test from ending.
func Gate(t testing.TB) (closed <-chan struct{}, open func()) {
	t.Helper()
	c := make(chan struct{})
	open = sync.OnceFunc(func() { close(c) })
	t.Cleanup(open)
	return c, open
}
