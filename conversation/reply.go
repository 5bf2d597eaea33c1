package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"parley/conversation/internal/db"
)

// The state of a reply in the outbox.
const (
	replyDue    = "due"
	replySent   = "sent"
	replyFailed = "failed"
	replyKept   = "kept"
)

// insertReplies stores a run's replies, and gives those that are to be sent.
func insertReplies(ctx context.Context, tx *sql.Tx, run Run, session int64, done Committed, at time.Time) ([]Delivery, error) {
	var due []Delivery
	for _, d := range run.Replies {
		d.Key, d.Text, d.At = run.Key, db.Text(d.Text), at
		if d.Channel == "" {
			d.Channel, d.Account = run.Took[0].Channel(), run.Took[0].Account
		}
		actions, err := jsonOrNull(d.Actions, len(d.Actions) == 0)
		if err != nil {
			return nil, err
		}
		transcript, err := jsonOrNull(d.Transcript, d.Transcript == nil)
		if err != nil {
			return nil, err
		}
		state := replyDue
		if d.Keep {
			state = replyKept
		}
		result, err := tx.ExecContext(ctx, `
			INSERT INTO outbox (session_id, run_id, channel, account, address, text, actions, transcript, state, through, notice, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			session, run.ID(), d.Channel, d.Account, d.Address, d.Text, actions, transcript, state,
			sql.NullInt64{Int64: done.Conversation.Messages, Valid: d.Keep}, d.Keep && !holdsReply(done.Messages), db.Millis(at))
		if err != nil {
			return nil, err
		}
		if d.ID, err = result.LastInsertId(); err != nil {
			return nil, err
		}
		if !d.Keep {
			due = append(due, d)
		}
	}
	return due, nil
}

// unmarshalReply reads what is stored beside the text of a reply.
func unmarshalReply(actions, transcript []byte, intoActions *[]Action, intoTranscript **Transcript) error {
	if len(actions) > 0 {
		if err := json.Unmarshal(actions, intoActions); err != nil {
			return err
		}
	}
	if len(transcript) > 0 {
		return json.Unmarshal(transcript, intoTranscript)
	}
	return nil
}

// holdsReply says whether the messages of a run end with what was replied.
func holdsReply(messages []Message) bool {
	n := len(messages)
	return n > 0 && messages[n-1].Role == RoleAssistant
}

// Where people may have been told words of a conversation that is deleted: the
// replies of its own runs, and those of the session's commands, which quote any
// of its conversations.
const (
	forgetReply = `UPDATE outbox SET text = '', actions = NULL, transcript = NULL `
	ofCommands  = `session_id = (SELECT session_id FROM conversations WHERE id = ?1)
		AND (SELECT kind FROM runs WHERE runs.id = run_id) = 'command'`
)

// keptRows is keeps as a condition that the index inbox_kept answers: all rows whose reply
// is kept have a fingerprint.
const keptRows = `i.fingerprint IS NOT NULL AND ` + keeps

// forgetCommands forgets what the commands of a conversation's session were
// asked and have replied, where that is not on its way. It is not much: nobody
// gives commands by the thousand, and they are kept for a week.
func forgetCommands(ctx context.Context, tx *sql.Tx, conversation int64) error {
	for _, statement := range []string{
		`UPDATE inbox AS i SET text = '' WHERE ` + keptRows + ` AND text <> ''
			AND run_id IN (SELECT run_id FROM outbox WHERE notice = 1 AND ` + ofCommands + `)`,
		forgetReply + `WHERE notice = 1 AND text <> '' AND ` + ofCommands,
		forgetReply + `WHERE state = 'failed' AND text <> '' AND ` + ofCommands,
	} {
		if _, err := tx.ExecContext(ctx, statement, conversation); err != nil {
			return err
		}
	}
	return nil
}

// forgetRuns takes up to limit runs out of a deleted conversation, and forgets
// what they were asked, by whom, and have replied. It says how many it took.
func forgetRuns(ctx context.Context, tx *sql.Tx, conversation, limit int64) (n int64, err error) {
	const some = `IN (SELECT id FROM runs WHERE conversation_id = ?1 ORDER BY id LIMIT ?2)`
	for _, statement := range []string{
		`UPDATE inbox AS i SET text = '' WHERE ` + keptRows + ` AND run_id ` + some,
		forgetReply + `WHERE state IN ('kept', 'failed') AND run_id ` + some,
		`UPDATE runs SET conversation_id = NULL, error = '', steps = NULL, sender = NULL WHERE id ` + some,
	} {
		result, err := tx.ExecContext(ctx, statement, conversation, limit)
		if err != nil {
			return 0, err
		}
		if n, err = result.RowsAffected(); err != nil {
			return 0, err
		}
	}
	return n, nil
}
