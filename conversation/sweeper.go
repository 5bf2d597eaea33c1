package conversation

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"parley/conversation/internal/db"
)

// sweeper deletes the rows of deleted conversations, but for those that damage keeps
// from being deleted.
type sweeper struct {
	mu      sync.Mutex
	unswept []int64 // conversations with damaged rows, left to the next start
}

// sweep is the function sweep for those conversations that can be swept.
func (w *sweeper) sweep(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	return sweepBut(ctx, tx, w.left())
}

func (w *sweeper) left() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unswept
}

// maxUnswept is how many conversations are passed over one by one.
const maxUnswept = 1000

// skip leaves the next conversation that would be swept to the next start.
func (w *sweeper) skip(ctx context.Context, s *db.Skipper) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, err := nextToDelete(ctx, s, w.unswept)
	if err == nil && len(w.unswept) == maxUnswept {
		err = fmt.Errorf("%w: rows of %d conversations can't be deleted", db.ErrStuck, maxUnswept)
	}
	if err != nil {
		return err
	}
	w.unswept = append(w.unswept, id)
	return nil
}

// closedConversations are those that nothing can be added to, because the file is
// damaged.
type closedConversations struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (c *closedConversations) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[string]bool{}
	}
	c.ids[id] = true
}

func (c *closedConversations) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[id]
}
