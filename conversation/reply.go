package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/steps"
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

// holdsReply reports whether the messages of a run end with its reply.
func holdsReply(messages []Message) bool {
	n := len(messages)
	return n > 0 && messages[n-1].Role == RoleAssistant
}

// Programs, and pages in a browser, are not sent replies: they ask for them. So
// what an inbound with Keep was answered is kept for as long as settled inbound
// is, and a request that is repeated gives the first result.

// Answer is what has become of an inbound with Keep. While it waits, and when it
// was withdrawn, only the first four are known; when the answer is gone, no words
// of it.
type Answer struct {
	ID          int64 // of the inbound
	Key         Key
	State       Status
	Fingerprint string // of what was asked, as Inbound.Fingerprint

	RunID        int64
	Kind         Kind
	Conversation string // ID, "" where there was none
	Began        bool   // the run began it, since the one before it was over, see Store.Expire
	Through      int64  // seq of the newest message of the conversation when the run had ended; the run's own are the last up to it
	Text         string // markdown
	Actions      []Action
	Transcript   *Transcript
	Model        string
	Rounds       int // model calls
	Prompt       int // tokens, as the server counted them
	Completion   int
	FinishReason steps.FinishReason // why the answer is not whole
	At           time.Time          // when the run ended
}

// Fingerprint returns a hash by which a repeated request is told from another one with the
// same SourceID: of the session, the text, the files, wherever these are, and the options.
func (in Inbound) Fingerprint() (string, error) {
	asked := struct {
		Key   Key
		Text  string
		Files []Attachment

		Options *RunOptions `json:",omitempty"`
	}{Key: in.Key, Text: db.Text(in.Text), Files: make([]Attachment, len(in.Attachments))}
	if !in.Options.IsZero() {
		asked.Options = &in.Options
	}
	for i, file := range in.Attachments {
		file.Ref = ""
		asked.Files[i] = file
	}
	return hashOf(asked)
}

// Answer returns what has become of an inbound with Keep, also after a restart.
func (s *Store) Answer(ctx context.Context, channel, sourceID string) (Answer, error) {
	var a Answer
	var run, reply, through, prompt, completion, rounds, ended sql.NullInt64
	var kind, status, model, finish, conversation, text sql.NullString
	var deleted bool
	var withdrawn sql.NullBool // null while it waits
	var actions, transcript []byte
	err := s.db.QueryRowContext(ctx, `
		SELECT i.id, s.key, i.fingerprint, i.run_id, `+rows.IsWithdrawn+`, r.kind, r.status, r.model, r.rounds, r.prompt_tokens, r.completion_tokens, r.finish_reason, r.ended_at,
			coalesce(r.new_conversation, 0),
			c.uuid, r.conversation_id IS NOT NULL AND c.id IS NULL, o.id, o.text, o.actions, o.transcript, o.through
		FROM inbox i JOIN sessions s ON s.id = i.session_id
			LEFT JOIN runs r ON r.id = i.run_id
			LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
			LEFT JOIN outbox o ON o.run_id = r.id AND o.state IN ('kept', 'failed') AND o.state = 'kept'
		WHERE i.channel = ? AND i.source_id = ? AND `+rows.Keeps+` ORDER BY o.id LIMIT 1`, channel, sourceID).Scan(
		&a.ID, &a.Key, &a.Fingerprint, &run, &withdrawn, &kind, &status, &model, &rounds, &prompt, &completion, &finish, &ended,
		&a.Began,
		&conversation, &deleted, &reply, &text, &actions, &transcript, &through)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return a, fmt.Errorf("%w: %q by %s", ErrNoAnswer, sourceID, channel)
	case err != nil:
		return a, db.Explain(err)
	case !run.Valid:
		a.State = StatusWaiting
		return a, nil
	case withdrawn.Bool:
		a.State = StatusWithdrawn
		return a, nil
	}
	a.RunID, a.Kind, a.Model, a.At = run.Int64, Kind(kind.String), model.String, db.FromMillis(ended.Int64)
	a.Rounds, a.Prompt, a.Completion = int(rounds.Int64), int(prompt.Int64), int(completion.Int64)
	if deleted || text.String == "" {
		a.State = StatusGone
		return a, nil
	}
	a.FinishReason = steps.FinishReason(finish.String)
	a.State, a.Conversation, a.Through, a.Text = Status(status.String), conversation.String, through.Int64, text.String
	return a, unmarshalReply(actions, transcript, &a.Actions, &a.Transcript)
}

// Notice is a kept reply that no message of a conversation holds: of a command,
// or of a run that failed or was stopped before it had written anything.
type Notice struct {
	ID           int64 // grows with each reply
	RunID        int64
	Kind         Kind
	Status       Status
	Conversation string // ID, "" where there was none
	Began        bool   // the run began it, since the one before it was over, see Store.Expire
	After        int64  // seq of the message that it stands behind, 0 for the beginning
	Asked        string // the command as it was written; "" where messages hold what was asked
	Text         string // markdown
	Actions      []Action
	Transcript   *Transcript
	At           time.Time
}

// Notices returns the notices of a session after the one with the ID after, in order, at
// most limit.
func (s *Store) Notices(ctx context.Context, key Key, after int64, limit int) ([]Notice, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT o.id, o.run_id, r.kind, r.status, coalesce(c.uuid, ''), o.through, coalesce(i.text, ''), o.text, o.actions, o.transcript, o.created_at
		FROM outbox o JOIN runs r ON r.id = o.run_id
			LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
			LEFT JOIN inbox i ON i.id = o.run_id
		WHERE o.notice = 1 AND o.session_id = (SELECT id FROM sessions WHERE key = ?) AND o.id > ?
			AND o.text <> '' AND (r.conversation_id IS NULL OR c.id IS NOT NULL)
		ORDER BY o.id LIMIT ?`, string(key), after, limit)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Notice
	for rows.Next() {
		n, err := scanNotice(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, db.Explain(rows.Err())
}

func scanNotice(rows *sql.Rows) (n Notice, err error) {
	var actions, transcript []byte
	var at int64
	err = rows.Scan(&n.ID, &n.RunID, &n.Kind, &n.Status, &n.Conversation, &n.After, &n.Asked, &n.Text, &actions, &transcript, &at)
	if err != nil {
		return n, err
	}
	n.At = db.FromMillis(at)
	return n, unmarshalReply(actions, transcript, &n.Actions, &n.Transcript)
}
