// Package reminderrows holds the statements on reminders that run in transactions of other
// packages.
package reminderrows

import (
	"context"

	"parley/conversation/internal/db"
	"parley/conversation/schedule"
)

// Advance sets the next time of a reminder that is due, or deletes the reminder if there is none.
// isDue is false if the reminder was not due at this time: another process has advanced it, or it was
// deleted.
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
