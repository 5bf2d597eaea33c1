package search

import (
	"context"
	"errors"
	"sync/atomic"
)

// each calls do for all numbers from 0 to n-1, with the lookup to use. Most of the time of a long query goes into looking up its
// words, and SQLite uses one processor for each connection. So on SQLite a second connection takes a share of the calls, as soon
// as one is free. After an error, each begins no further calls.
func (l *lookup) each(ctx context.Context, n int, do func(l *lookup, i int) error) error {
	var begun atomic.Int64
	work := func(l *lookup) error {
		for i := int(begun.Add(1)) - 1; i < n; i = int(begun.Add(1)) - 1 {
			if err := do(l, i); err != nil {
				begun.Store(int64(n))
				return err
			}
		}
		return nil
	}
	if n <= 1 || l.postgres {
		return work(l)
	}
	waiting, giveUp := context.WithCancel(ctx)
	second := make(chan error, 1)
	go func() {
		conn, err := l.db.Conn(waiting)
		if err != nil { // none was free in time, or the first connection meets the same error
			second <- nil
			return
		}
		defer conn.Close()
		other := *l
		other.conn = conn
		second <- work(&other)
	}()
	err := work(l)
	giveUp()
	return errors.Join(err, <-second)
}
