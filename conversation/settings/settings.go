// Package settings stores what was chosen for a session: its model and its agent. They hold in
// all conversations of the session. Commands of the chat change them by conversation.Effect.
package settings

import (
	"context"
	"database/sql"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// Change says what is chosen for a session from now on, by name; "" = nothing, nil = as before.
type Change struct {
	Model *string
	Agent *string
}

// Set changes the settings of a session, which is made when it is new. They hold from the
// next run on.
func Set(ctx context.Context, store *conversation.Store, key conversation.Key, change Change) error {
	return store.DB().Write(ctx, func(ctx context.Context, tx db.Tx) error {
		session, _, err := rows.EnterSession(ctx, tx, string(key), "", db.Millis(store.Now()))
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE sessions SET model = coalesce(?, model), agent = coalesce(?, agent) WHERE id = ?`,
				nameOrNull(change.Model), nameOrNull(change.Agent), session)
		}
		return err
	})
}

func nameOrNull(name *string) sql.NullString {
	if name == nil {
		return sql.NullString{}
	}
	return sql.NullString{String: db.Text(*name), Valid: true}
}
