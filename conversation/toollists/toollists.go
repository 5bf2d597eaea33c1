// Package toollists stores the tools that servers of tools have listed, so that the model is
// offered the same ones after a restart, before the servers run.
package toollists

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Lists stores the lists of all servers. It is safe for concurrent use.
type Lists struct {
	db  *db.DB
	now func() time.Time
}

// New returns the lists of a store.
func New(store *conversation.Store) *Lists { return &Lists{store.DB(), store.Now} }

// Of returns what a server has listed when it was started with the same settings, as Store
// was given it, and nil if it never has.
func (l *Lists) Of(ctx context.Context, server, settings string) ([]byte, error) {
	var list string
	err := l.db.QueryRowContext(ctx, `SELECT tools FROM tool_lists WHERE server = ? AND settings = ?`, server, settings).Scan(&list)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return []byte(list), db.Explain(err)
}

// Store stores what a server lists, in place of what it listed before.
func (l *Lists) Store(ctx context.Context, server, settings string, list []byte) error {
	err := l.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO tool_lists (server, settings, tools, updated_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (server) DO UPDATE SET settings = excluded.settings, tools = excluded.tools, updated_at = excluded.updated_at`,
			server, settings, string(list), db.Millis(l.now()))
		return err
	})
	if err != nil {
		return fmt.Errorf("store the tools of %s: %w", server, err)
	}
	return nil
}
