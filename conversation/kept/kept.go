// Package kept reads replies that are kept in the store instead of being sent. Programs and the
// pages of the web chat request their replies, possibly several times. The store keeps a reply
// for as long as it keeps settled inbound.
package kept

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/media"
	"parley/conversation/steps"
)

// ErrNoAnswer says that no message with this id was accepted, or that it is no longer kept.
var ErrNoAnswer = errors.New("no such message was accepted")

// Replies reads the kept replies of a store.
type Replies struct{ db *db.DB }

// New returns the kept replies of a store.
func New(store *conversation.Store) Replies { return Replies{store.DB()} }

// Answer is the state of an inbound with Keep, and the reply to it. While the inbound waits,
// and if it was withdrawn, only the fields up to AskedAt are set. If the reply was deleted, State
// is StatusGone and the reply's contents are not set.
type Answer struct {
	ID          int64 // the ID of the inbound
	Key         conversation.Key
	State       conversation.Status
	Fingerprint string // the Fingerprint of the inbound
	AskedAt     time.Time

	RunID        int64
	Kind         conversation.Kind
	Conversation string // the ID of the conversation, "" if the run has none
	Began        bool   // the run began the conversation, since the previous one had expired; see conversation.Store.Expire
	Through      int64  // the seq of the conversation's newest message when the run ended; the messages of the run end there
	Text         string // the reply in Markdown
	Actions      []conversation.Action
	Transcript   *conversation.Transcript
	Agent        string // "" for the default agent
	Model        string
	Rounds       int                // the number of model calls
	Prompt       int                // tokens, as the server counted them
	Completion   int                // tokens, as the server counted them
	FinishReason steps.FinishReason // why the answer is incomplete; "" if it is complete
	At           time.Time          // when the run ended
	Warnings     []string           // further notes for the readers of the reply, in Markdown
	Pictures     []Picture          // pictures that the model made, and pictures from tools that the reply names
}

// Picture is a picture of a reply, and its place in the conversation.
type Picture struct {
	media.Image
	Seq int64 // the seq of its message
	N   int   // its place among the pictures of the message, from 0
}

// Answer returns the state of an inbound with Keep, and the reply to it. sourceID is the id of the
// inbound in the channel. The error is ErrNoAnswer if there is no such inbound.
func (r Replies) Answer(ctx context.Context, channel, sourceID string) (Answer, error) {
	var a Answer
	var asked int64
	var run, reply, through, prompt, completion, rounds, ended sql.NullInt64
	var kind, status, model, finish, uuid, text sql.NullString
	var deleted, pictured bool
	var withdrawn sql.NullBool // NULL while the inbound waits
	var actions, transcript, warnings []byte
	err := r.db.QueryRowContext(ctx, `
		SELECT i.id, s.key, i.fingerprint, i.sent_at, i.run_id, `+rows.IsWithdrawn+`, r.kind, r.status, r.model, r.rounds, r.prompt_tokens, r.completion_tokens, r.finish_reason, r.ended_at,
			coalesce(r.new_conversation, 0), coalesce(r.agent, ''), r.warnings,
			c.uuid, r.conversation_id IS NOT NULL AND c.id IS NULL, o.id, o.text, o.actions, o.transcript, o.pictures IS NOT NULL, o.through
		FROM inbox i JOIN sessions s ON s.id = i.session_id
			LEFT JOIN runs r ON r.id = i.run_id
			LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
			LEFT JOIN outbox o ON o.run_id = r.id AND o.state IN ('kept', 'failed') AND o.state = 'kept'
		WHERE i.channel = ? AND i.source_id = ? AND `+rows.Keeps+` ORDER BY o.id LIMIT 1`, channel, sourceID).Scan(
		&a.ID, &a.Key, &a.Fingerprint, &asked, &run, &withdrawn, &kind, &status, &model, &rounds, &prompt, &completion, &finish, &ended,
		&a.Began, &a.Agent, &warnings,
		&uuid, &deleted, &reply, &text, &actions, &transcript, &pictured, &through)
	a.AskedAt = db.FromMillis(asked)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return a, fmt.Errorf("%w: %q by %s", ErrNoAnswer, sourceID, channel)
	case err != nil:
		return a, db.Explain(err)
	case !run.Valid:
		a.State = conversation.StatusWaiting
		return a, nil
	case withdrawn.Bool:
		a.State = conversation.StatusWithdrawn
		return a, nil
	}
	a.RunID, a.Kind, a.Model, a.At = run.Int64, conversation.Kind(kind.String), model.String, db.FromMillis(ended.Int64)
	a.Rounds, a.Prompt, a.Completion = int(rounds.Int64), int(prompt.Int64), int(completion.Int64)
	if deleted || text.String == "" {
		a.State = conversation.StatusGone
		return a, nil
	}
	a.FinishReason = steps.FinishReason(finish.String)
	a.State, a.Conversation, a.Through, a.Text = conversation.Status(status.String), uuid.String, through.Int64, text.String
	if pictured {
		a.Pictures, err = r.pictures(ctx, reply.Int64)
	}
	return a, errors.Join(err, db.FromJSON(actions, &a.Actions), db.FromJSON(transcript, &a.Transcript), db.FromJSON(warnings, &a.Warnings))
}

// Forget deletes the kept reply to a settled inbound, and the text of the inbound. Answer then
// returns ErrNoAnswer for it. If the reply answers several inbound with Keep, it stays for the
// others. The messages of the conversation stay. The error is ErrNoAnswer if there is no such
// inbound.
func (r Replies) Forget(ctx context.Context, channel, sourceID string) error {
	return r.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		n, err := rows.ForgetAnswer(ctx, tx, channel, sourceID)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: %q by %s", ErrNoAnswer, sourceID, channel)
		}
		return err
	})
}

// pictures returns the pictures of a reply that are in messages.
func (r Replies) pictures(ctx context.Context, reply int64) ([]Picture, error) {
	rows, err := r.db.QueryContext(ctx, `
		SELECT p.value, m.seq, e.key
		FROM outbox o CROSS JOIN `+db.EachOf("o.pictures")+` p JOIN files f ON f.id = CAST(p.value ->> 'id' AS BIGINT) JOIN messages m ON m.id = f.message_id
			CROSS JOIN `+db.EachOf("m.parts")+` e
		WHERE o.id = ? AND CAST(e.value ->> 'id' AS BIGINT) = f.id ORDER BY p.key`, reply)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Picture
	for rows.Next() {
		var picture Picture
		var stored []byte
		if err := rows.Scan(&stored, &picture.Seq, &picture.N); err != nil {
			return nil, err
		}
		if err := db.FromJSON(stored, &picture.Image); err != nil {
			return nil, err
		}
		list = append(list, picture)
	}
	return list, db.Explain(rows.Err())
}

// Notice is a kept reply that is not in a message of a conversation: the reply to a command,
// or that of a run that failed or was stopped before it had written anything.
type Notice struct {
	ID           int64 // later notices have higher IDs
	RunID        int64
	Kind         conversation.Kind
	Status       conversation.Status
	Conversation string // the ID of the conversation, "" if the run has none
	Began        bool   // the run began the conversation, since the previous one had expired; see conversation.Store.Expire
	After        int64  // the seq of the message after which the notice is shown; 0 = at the beginning
	Asked        string // the text of the command or question; "" if a message has it
	Text         string // the reply in Markdown
	Actions      []conversation.Action
	Transcript   *conversation.Transcript
	Warnings     []string // further notes for the readers of the reply, in Markdown
	At           time.Time
}

// Notices returns the notices of a session with IDs higher than after, in the order of their
// IDs, at most limit.
func (r Replies) Notices(ctx context.Context, key conversation.Key, after int64, limit int) ([]Notice, error) {
	rows, err := r.db.QueryContext(ctx, `
		SELECT o.id, o.run_id, r.kind, r.status, coalesce(c.uuid, ''), o.through, coalesce(i.text, ''), o.text, o.actions, o.transcript, r.warnings, o.created_at
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
	var actions, transcript, warnings []byte
	var at int64
	err = rows.Scan(&n.ID, &n.RunID, &n.Kind, &n.Status, &n.Conversation, &n.After, &n.Asked, &n.Text, &actions, &transcript, &warnings, &at)
	if err != nil {
		return n, err
	}
	n.At = db.FromMillis(at)
	return n, errors.Join(db.FromJSON(actions, &n.Actions), db.FromJSON(transcript, &n.Transcript), db.FromJSON(warnings, &n.Warnings))
}
