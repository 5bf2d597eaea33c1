// Package waittest has tests wait for what other goroutines do, but not for ever.
package waittest

import (
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen. It is far from what anything takes.
const Patience = 90 * time.Second

// Receive waits for what happens soon, and fails the test with that name where it does not happen.
func Receive[T any](t testing.TB, from <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(Patience):
		t.Fatal("waited in vain: ", what)
	}
	return got
}

// Gate returns a channel that open closes, or else the end of the test: what waits for it, such as a handler of a server,
// would otherwise keep a test from ending that has failed.
func Gate(t testing.TB) (closed <-chan struct{}, open func()) {
	t.Helper()
	c := make(chan struct{})
	open = sync.OnceFunc(func() { close(c) })
	t.Cleanup(open)
	return c, open
}
