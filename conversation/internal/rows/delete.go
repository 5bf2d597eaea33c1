package rows

import (
	"context"

	"parley/conversation/internal/db"
)

// LockConversation waits for the transactions that change a conversation at this moment, and keeps others from changing it until
// this one ends. The session is locked first, as by the commit of a run.
func LockConversation(ctx context.Context, tx db.Tx, id int64) error {
	_, err := tx.ExecContext(ctx, `SELECT 1 FROM conversations c JOIN sessions s ON s.id = c.session_id WHERE c.id = ?`+db.ToChange(`s, c`), id)
	return err
}

// DeleteConversation marks a conversation as deleted; chores delete its rows later. They delete
// kept and failed replies with its runs, but a reply that is due is sent first. DeleteConversation
// withdraws edits in the active conversation that the model has not been told of. It deletes the
// state that the session carries over to its next conversation, since it may come from this one,
// except the instructions of the session.
func DeleteConversation(ctx context.Context, tx db.Tx, id int64) error {
	if err := forgetCommands(ctx, tx, id); err != nil {
		return err
	}
	for _, statement := range []string{
		Withdraw + `WHERE note = 1 AND run_id IS NULL
			AND session_id = (SELECT session_id FROM conversations WHERE id = ?1 AND active = 1)`,
		keepInstructions,
		`UPDATE sessions SET cleared = 1 WHERE id = (SELECT session_id FROM conversations WHERE id = ?)`,
		`UPDATE conversations SET deleted = 1, active = 0, title = '' WHERE id = ?`,
	} {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return err
		}
	}
	return nil
}

// keepInstructions deletes the state that the session of a conversation ?1 carries over, except
// its instructions. If the conversation is active, its state has the instructions.
var keepInstructions = `
	WITH given AS (
		SELECT s.id, CASE WHEN c.active = 1 THEN c.state ELSE s.carried END AS state
		FROM conversations c JOIN sessions s ON s.id = c.session_id WHERE c.id = ?1)
	UPDATE sessions SET carried = (
		SELECT ` + db.Either(`CASE WHEN json_valid(state) AND json_type(state, '$.instructions') = 'array'
			THEN json_object('instructions', json_extract(state, '$.instructions')) END`,
	`CASE WHEN json_typeof(CAST(state AS json) -> 'instructions') = 'array'
			THEN CAST(json_build_object('instructions', CAST(state AS json) -> 'instructions') AS text) END`) + ` FROM given)
	WHERE id = (SELECT id FROM given WHERE state IS NOT NULL)`

// MessageBytes is the SQL expression for the approximate size of a row of messages, with its
// pictures and files, in bytes.
const MessageBytes = `octet_length(content) + coalesce(octet_length(tool_calls), 0) + CASE WHEN parts IS NULL AND files IS NULL THEN 0
	ELSE (SELECT coalesce(sum(octet_length(data)), 0) FROM images WHERE message_id = messages.id)
		+ (SELECT coalesce(sum(b.size), 0) FROM files f JOIN blobs b ON b.id = f.blob_id WHERE f.message_id = messages.id) END`

// The statements that delete the contents of replies. The text of a deleted conversation is in the
// replies of its runs, and may be in those of the session's commands, which can quote any
// conversation.
const (
	ForgetReply = `UPDATE outbox SET text = '', actions = NULL, transcript = NULL `
	ofCommands  = `session_id = (SELECT session_id FROM conversations WHERE id = ?1)
		AND (SELECT kind FROM runs WHERE runs.id = run_id) = 'command'`
)

// keptRows is Keeps in a form for which the index inbox_kept can be used, as all rows with a kept
// reply have a fingerprint.
const keptRows = `i.fingerprint IS NOT NULL AND ` + Keeps

// forgetCommands deletes the texts of commands of a conversation's session, and the contents of
// their replies, except replies that are being delivered. It does so in one transaction, since
// there are few commands in a week, which is how long the rows are kept.
func forgetCommands(ctx context.Context, tx db.Tx, conversation int64) error {
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

// ForgetAnswer marks a settled inbound as one without a kept reply, and deletes its text. It also
// deletes the contents of the reply, unless they are kept for another inbound of the run. It returns
// the number of inbound that it has found, which is 0 or 1.
func ForgetAnswer(ctx context.Context, tx db.Tx, channel, sourceID string) (n int64, err error) {
	result, err := tx.ExecContext(ctx, `
		UPDATE inbox AS i SET keep = 0, text = '' WHERE channel = ? AND source_id = ? AND run_id IS NOT NULL AND `+Keeps, channel, sourceID)
	if err != nil {
		return 0, err
	}
	if n, err = result.RowsAffected(); err != nil || n == 0 {
		return n, err
	}
	_, err = tx.ExecContext(ctx, ForgetReply+`
		WHERE state IN ('kept', 'failed') AND run_id IN (SELECT run_id FROM inbox WHERE channel = ? AND source_id = ?)
			AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.run_id = outbox.run_id AND `+keptRows+`)`, channel, sourceID)
	return n, err
}

// ForgetRuns removes up to limit runs from a deleted conversation. It deletes imported runs. Rows of
// other runs stay, without their conversation, steps and senders, and so do those of their inbound
// and replies, without texts. It returns the number of runs.
func ForgetRuns(ctx context.Context, tx db.Tx, conversation, limit int64) (n int64, err error) {
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
