package approvals

import (
	"context"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Standing is a tool that is allowed for a whole session.
type Standing struct {
	Tool string
	By   string // name of the person who allowed the tool
	At   time.Time

	Definition string // see Question; a tool that its server describes otherwise is asked about again
}

// Standing returns the tools that are allowed for a session, by name.
func (a *Approvals) Standing(ctx context.Context, key conversation.Key) ([]Standing, error) {
	rows, err := a.db.QueryContext(ctx, `
		SELECT tool, allowed_by, allowed_at, definition FROM session_approvals WHERE session_id = (SELECT id FROM sessions WHERE key = ?) ORDER BY tool`, string(key))
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Standing
	for rows.Next() {
		var s Standing
		var at int64
		if err := rows.Scan(&s.Tool, &s.By, &at, &s.Definition); err != nil {
			return nil, err
		}
		s.At = db.FromMillis(at)
		list = append(list, s)
	}
	return list, db.Explain(rows.Err())
}

// Revoke has a tool asked about again in a session, or every tool if tool is "". It returns how many were allowed.
func (a *Approvals) Revoke(ctx context.Context, key conversation.Key, tool string) (revoked int64, err error) {
	err = a.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		result, err := tx.ExecContext(ctx, `
			DELETE FROM session_approvals WHERE session_id = (SELECT id FROM sessions WHERE key = ?1) AND (?2 = '' OR tool = ?2)`, string(key), tool)
		if err == nil {
			revoked, err = result.RowsAffected()
		}
		return err
	})
	return revoked, err
}
