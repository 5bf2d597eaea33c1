package move

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"parley/conversation/internal/db"
)

// compare reads both databases side by side, and fails at the first row that is not the same.
func (m *mover) compare(ctx context.Context) error {
	total, err := m.rowsOf(ctx, m.to)
	if err != nil {
		return err
	}
	m.replaced = 0
	for _, t := range m.tables {
		if err := m.compareTable(ctx, t, total); err != nil {
			return fmt.Errorf("table %s: %w", t.name, db.Explain(err))
		}
	}
	m.result.Replaced, m.result.LostFiles = m.replaced, m.from.lostFiles()
	return nil
}

func (m *mover) compareTable(ctx context.Context, t table, total int64) error {
	next, stop := iter.Pull2(t.read(ctx, m.to, nil))
	defer stop()
	following := func() (row, bool, error) {
		for {
			r, err, more := next()
			if !more || err != nil || !isOfIndex(t, r) {
				return r, more, err
			}
		}
	}
	for want, err := range m.rows(ctx, t, nil) {
		if err != nil {
			return err
		}
		got, more, err := following()
		if err != nil {
			return err
		}
		if !more || !same(want.values, got.values) {
			return m.difference(t, want.key)
		}
		m.result.Rows++
		if m.result.Rows%1000 == 0 {
			m.Progress.Report(Comparing, m.result.Rows, max(total, m.result.Rows))
		}
	}
	if extra, more, err := following(); err != nil || more {
		if err != nil {
			return err
		}
		return m.difference(t, extra.key)
	}
	return nil
}

func (m *mover) difference(t table, key []any) error {
	return fmt.Errorf("the row %v of %s is not the same in both databases: somebody has written to one of them meanwhile. "+
		"Delete what was copied, and move again: %s", key, t.name, m.to.discarding())
}

func same(a, b []any) bool {
	for i := range a {
		x, bytesX := a[i].([]byte)
		y, bytesY := b[i].([]byte)
		if bytesX != bytesY || bytesX && !bytes.Equal(x, y) || !bytesX && a[i] != b[i] {
			return false
		}
	}
	return true
}
