package waittest

import (
	"bytes"
	"sync"
)

// Buffer collects what other goroutines write, mostly a log, and may be read meanwhile. Its zero value is empty.
type Buffer struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

// Write adds bytes.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}

// String returns all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.String()
}
