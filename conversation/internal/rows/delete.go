package rows

import (
	"context"
	"database/sql"
)

// DeleteConversation hides a conversation for good. Replies that are kept, or
// that failed, are forgotten with its runs; one that is still due is sent first.
// Edits in the active conversation that nobody was told of yet are withdrawn. Rules that
// wait for the session's next conversation may be this one's, and go; its instructions
// stay.
func DeleteConversation(ctx context.Context, tx *sql.Tx, id int64) error {
	if err := forgetCommands(ctx, tx, id); err != nil {
		return err
	}
	for _, statement := range []string{
		Withdraw + `WHERE note = 1 AND run_id IS NULL
			AND session_id = (SELECT session_id FROM conversations WHERE id = ?1 AND active = 1)`,
		`UPDATE sessions SET carried = CASE WHEN json_type(carried, '$.instructions') = 'array' THEN json_object('instructions', json_extract(carried, '$.instructions')) END
			WHERE carried IS NOT NULL AND id = (SELECT session_id FROM conversations WHERE id = ?)`,
		`UPDATE conversations SET deleted = 1, active = 0, title = '' WHERE id = ?`,
	} {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return err
		}
	}
	return nil
}

// MessageBytes is the SQL for how many bytes a row of messages takes in the database
// with its pictures and files, roughly.
const MessageBytes = `octet_length(content) + coalesce(octet_length(tool_calls), 0) + CASE WHEN parts IS NULL AND files IS NULL THEN 0
	ELSE (SELECT coalesce(sum(octet_length(data)), 0) FROM images WHERE message_id = messages.id)
		+ (SELECT coalesce(sum(b.size), 0) FROM files f JOIN blobs b ON b.id = f.blob_id WHERE f.message_id = messages.id) END`

// The statements that forget replies. Words of a deleted conversation stand in the replies
// of its own runs, and in those of the session's commands, which quote any conversation.
const (
	ForgetReply = `UPDATE outbox SET text = '', actions = NULL, transcript = NULL `
	ofCommands  = `session_id = (SELECT session_id FROM conversations WHERE id = ?1)
		AND (SELECT kind FROM runs WHERE runs.id = run_id) = 'command'`
)

// keptRows is Keeps as a condition that the index inbox_kept answers: all rows whose reply
// is kept have a fingerprint.
const keptRows = `i.fingerprint IS NOT NULL AND ` + Keeps

// forgetCommands forgets what the commands of a conversation's session were
// asked and have replied, where that is not on its way. It is not much: nobody
// gives commands by the thousand, and they are kept for a week.
func forgetCommands(ctx context.Context, tx *sql.Tx, conversation int64) error {
	for _, statement := range []string{
		`UPDATE inbox AS i SET text = '' WHERE ` + keptRows + ` AND text <> ''
			AND run_id IN (SELECT run_id FROM outbox WHERE notice = 1 AND ` + ofCommands + `)`,
		ForgetReply + `WHERE notice = 1 AND text <> '' AND ` + ofCommands,
		ForgetReply + `WHERE state = 'failed' AND text <> '' AND ` + ofCommands,
	} {
		if _, err := tx.ExecContext(ctx, statement, conversation); err != nil {
			return err
		}
	}
	return nil
}

// ForgetRuns takes up to limit runs out of a deleted conversation, and forgets
// what they were asked, by whom, and have replied. It returns their number.
func ForgetRuns(ctx context.Context, tx *sql.Tx, conversation, limit int64) (n int64, err error) {
	const some = `IN (SELECT id FROM runs WHERE conversation_id = ?1 ORDER BY id LIMIT ?2)`
	for _, statement := range []string{
		`UPDATE inbox AS i SET text = '' WHERE ` + keptRows + ` AND run_id ` + some,
		ForgetReply + `WHERE state IN ('kept', 'failed') AND run_id ` + some,
		`UPDATE runs SET conversation_id = NULL, error = '', steps = NULL, sender = NULL, instructions = NULL WHERE id ` + some,
	} {
		result, err := tx.ExecContext(ctx, statement, conversation, limit)
		if err != nil {
			return 0, err
		}
		if n, err = result.RowsAffected(); err != nil {
			return 0, err
		}
	}
	imported, err := tx.ExecContext(ctx, `
		DELETE FROM imported_runs WHERE conversation_id = ?1 AND id IN (SELECT id FROM imported_runs WHERE conversation_id = ?1 ORDER BY id LIMIT ?2)`,
		conversation, max(limit-n, 0))
	if err != nil {
		return n, err
	}
	also, err := imported.RowsAffected()
	return n + also, err
}
