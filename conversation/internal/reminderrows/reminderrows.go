// Package reminderrows holds the statements about reminders that run in the transactions of
// others.
package reminderrows

import (
	"context"

	"parley/conversation/internal/db"
	"parley/conversation/schedule"
)

// Advance moves a reminder on from the time at which it is due, and deletes it when no other
// time follows. isDue is false if it is not due at that time any more: another process was
// first, or somebody has deleted it.
func Advance(ctx context.Context, tx db.Tx, o schedule.Occurrence) (isDue bool, err error) {
	statement, args := `DELETE FROM reminders WHERE id = ? AND next_at = ?`, []any{o.Reminder, db.Millis(o.Due)}
	if !o.Next.IsZero() {
		statement, args = `UPDATE reminders SET next_at = ? WHERE id = ? AND next_at = ?`, append([]any{db.Millis(o.Next)}, args...)
	}
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
