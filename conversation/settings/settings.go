// Package settings stores what was chosen for a session: its model and its agent. They hold in
// all conversations of the session. Commands of the chat change them by conversation.Effect.
package settings

import (
	"context"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// Settings are what was chosen for a session, by name; "" = nothing.
type Settings struct {
	Model string
	Agent string
}

// Set replaces the settings of a session, which is made when it is new. They hold from the
// next run on.
func Set(ctx context.Context, store *conversation.Store, key conversation.Key, s Settings) error {
	return store.DB().Write(ctx, func(ctx context.Context, tx db.Tx) error {
		session, _, err := rows.EnterSession(ctx, tx, string(key), "", db.Millis(store.Now()))
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE sessions SET model = ?, agent = ? WHERE id = ?`, db.Text(s.Model), db.Text(s.Agent), session)
		}
		return err
	})
}
