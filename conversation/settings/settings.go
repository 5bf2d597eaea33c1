// Package settings stores what was chosen for a session: its model and its agent. They hold in
// all conversations of the session. Commands of the chat change them by conversation.Effect.
package settings

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// Settings are what was chosen for a session, by name; "" = nothing.
type Settings struct {
	Model string
	Agent string
}

// Of returns the settings of a session, or ErrNoSession.
func Of(ctx context.Context, store *conversation.Store, key conversation.Key) (s Settings, err error) {
	err = store.DB().QueryRowContext(ctx, `SELECT coalesce(model, ''), coalesce(agent, '') FROM sessions WHERE key = ?`, string(key)).Scan(&s.Model, &s.Agent)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: %q", conversation.ErrNoSession, key)
	}
	return s, db.Explain(err)
}

// Set replaces the settings of a session, which is made when it is new. They hold from the
// next run on.
func Set(ctx context.Context, store *conversation.Store, key conversation.Key, s Settings) error {
	return store.DB().Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		session, _, err := rows.EnterSession(ctx, tx, string(key), "", db.Millis(store.Now()))
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE sessions SET model = ?, agent = ? WHERE id = ?`, db.Text(s.Model), db.Text(s.Agent), session)
		}
		return err
	})
}
