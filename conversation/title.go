package conversation

import (
	"context"
	"database/sql"

	"parley/conversation/internal/db"
)

// Retitle gives a conversation another title in place of the one that c has. It
// does nothing, and says so, when somebody has named it meanwhile, or deleted it.
func (s *Store) Retitle(ctx context.Context, c Conversation, title string) (changed bool, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `UPDATE conversations SET title = ? WHERE uuid = ? AND title = ? AND deleted = 0`,
			db.Text(title), c.ID, c.Title)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		changed = n == 1
		return err
	})
	return changed, err
}
