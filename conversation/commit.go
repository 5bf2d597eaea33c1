package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/conversation/state"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/talkrows"
	"parley/conversation/internal/turns"
	"parley/conversation/internal/uploads"
	"parley/conversation/steps"
)

// Status is how a run ended, or what has become of an inbound with Keep.
type Status string

const (
	StatusDone    Status = "done"
	StatusFailed  Status = "failed"  // the model gave no answer; the reply says so, and the user's messages are kept
	StatusStopped Status = "stopped" // ended by /stop

	StatusWaiting   Status = "waiting"   // of an inbound: no run has settled it; one may be under way
	StatusWithdrawn Status = "withdrawn" // of an inbound: taken back before a run settled it
	StatusGone      Status = "gone"      // of an inbound: its answer was deleted with the conversation
)

// Kind says whether a run asked the model or executed a command.
type Kind string

const (
	KindAgent   Kind = "agent"
	KindCommand Kind = "command"
)

// Effect is what a command does to its session's conversations. The zero value
// does nothing.
type Effect struct {
	Archive                bool        // the active conversation is archived and a fresh one begins
	Carry                  state.Carry // with Archive: what the fresh one begins with
	Title                  string      // with Archive: title of the fresh conversation; else a new title for the run's conversation
	Delete                 bool        // the run's conversation is deleted for good, with every copy of its words
	Resume                 string      // ID of the session's conversation that becomes the active one; "" = the active one stays
	Replace                int64       // the answer after this seq is replaced by the run's; 0 = nothing
	Model, Agent, Fallback *string     // what is chosen for the session from now on, see Conversation; nil = no change
	Instructions           *string     // replace all instructions of the session; "" = none, nil = no change

	Undo int64 // before the run's messages are added, those from this seq on are taken out of the talk, and kept in the archive; 0 = none
}

// Run is one finished cycle of the agent, or one command. Commit stores it whole or not at all.
type Run struct {
	Key          Key
	Kind         Kind
	Status       Status
	Took         []Inbound // the inbound that the run settles, in order; never empty
	Shares       []Share   // for whom its calls were made; none or one = for the sender of the first inbound
	Journal      int64     // the run whose journal ends with this one, see package journal; 0 = none
	Conversation Conversation
	Title        string // title for a conversation that has none yet
	Effect       Effect
	Messages     []Message     // in order; Seq and RunID are given by Commit
	Events       []state.Event // what the messages add to the conversation's state
	Window       Window        // where the window of the run's last call begins; zero = no change
	Replies      []Delivery
	Agent        string // the agent that answered; "" for the default one
	Model        string
	Rounds       int // model calls
	Prompt       int // tokens, as the server counted them
	Cached       int // tokens of Prompt that the server took from its cache
	Completion   int
	Steps        []steps.Step
	Instructions []string           // the session's instructions that the model was told
	FinishReason steps.FinishReason // why the answer is incomplete; "" if it is complete
	Warnings     []string           // what readers should know beside the answer, as Markdown
	Error        string             // why the run failed, for the operator, without secrets
	StartedAt    time.Time

	follows *int64 // seq of the message after which Messages begin a branch; nil = they follow the last message of the chosen branch
}

// ID returns the run's number, which is that of the first inbound that it took. So it is known before the commit, and
// the same when the run begins again after a crash. What a program appends takes no inbound and has the number 0.
func (r Run) ID() int64 {
	if len(r.Took) == 0 {
		return 0
	}
	return r.Took[0].ID
}

// Committed is what Commit or Append has stored.
type Committed struct {
	Replies      []Delivery   // the replies, which are due now
	Conversation Conversation // the conversation after the commit
	Messages     []Message    // the run's messages, with Seq and RunID
	Repeated     bool         // only from Append: the messages were stored before
}

// Commit stores a run in one transaction: its messages, the inbound that it
// settles, its replies to be delivered, and the totals. A run that archives a
// conversation whose record is damaged begins the new one all the same.
//
// Nearly every run only adds to a conversation that nobody else has changed meanwhile. So Commit first stores it on the
// condition that this holds, which takes one round trip to a server, and else commits it anew with what the store has now.
func (s *Store) Commit(ctx context.Context, run Run) (done Committed, err error) {
	var replies []newReply
	commit := func(unchanged bool) error {
		return s.db.WriteOwned(ctx, string(run.Key), func(ctx context.Context, tx db.Tx) error {
			done, replies, err = commitRun(ctx, tx, run, unchanged, s.Now())
			if err != nil {
				return fmt.Errorf("commit run %d of %s: %w", run.ID(), run.Key, err)
			}
			return nil
		})
	}
	if err = commit(run.onlyAdds()); errors.Is(err, errChanged) {
		err = commit(false)
	}
	if err == nil {
		done.Replies, err = s.dueReplies(ctx, run, replies)
		return done, err
	}
	switch {
	case !IsDamaged(err):
	case run.Effect.Archive:
		return s.commitInNewSession(ctx, run)
	case len(run.Messages) > 0:
		s.closed.add(run.Conversation.ID)
	}
	return done, err
}

// onlyAdds reports whether a run adds messages to a conversation that was there before, and does nothing else.
func (r Run) onlyAdds() bool {
	return r.Effect == (Effect{}) && len(r.Messages) > 0 && r.Conversation.row != 0 && !r.Conversation.Succeeds()
}

// errChanged says that a run's messages or its conversation are not as the run has read them.
var errChanged = errors.New("the messages or the conversation were changed since the run began")

func whereChanged() error { return errChanged }

// commitRun stores a run. With unchanged it fails with errChanged where the store does not hold what the run has read.
func commitRun(ctx context.Context, tx db.Tx, run Run, unchanged bool, at time.Time) (done Committed, replies []newReply, err error) {
	session, err := sessionOf(ctx, tx, run)
	if err != nil {
		return done, nil, err
	}
	if err := settle(ctx, tx, run, unchanged); err != nil {
		return done, nil, err
	}
	if err := setSession(ctx, tx, &run, session); err != nil {
		return done, nil, err
	}
	if unchanged {
		done.Conversation, done.Messages, err = extend(ctx, tx, run, session, at)
	} else {
		done, err = change(ctx, tx, run, session, at)
	}
	if err != nil {
		return done, nil, err
	}
	if err := dropUnclaimed(ctx, tx, run); err != nil {
		return done, nil, err
	}
	if run.Journal != 0 {
		if err := endJournal(ctx, tx, run.Journal, at); err != nil {
			return done, nil, err
		}
	}
	if err := insertRun(ctx, tx, run, session, done.Conversation.row, db.Millis(at)); err != nil {
		return done, nil, err
	}
	if err := addParticipants(ctx, tx, run, done.Conversation.row); err != nil {
		return done, nil, err
	}
	replies, err = insertReplies(ctx, tx, run, session, done, at)
	return done, replies, err
}

// endJournal deletes the journal of a run, closes its questions and removes the arguments
// from them, which its messages have, and what was asked and answered in forms.
func endJournal(ctx context.Context, tx db.Tx, run int64, at time.Time) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE approvals SET arguments = '', definition = '', answers = '{}', form = CASE WHEN form IS NOT NULL THEN '{}' END,
			answered_at = CASE WHEN state = 'open' THEN ? ELSE answered_at END,
			state = CASE WHEN state = 'open' THEN 'cancelled' ELSE state END
		WHERE run_id = ?`, db.Millis(at), run)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM journals WHERE run_id = ?`, run)
	}
	return err
}

// change applies a run's effect and messages to its conversation.
func change(ctx context.Context, tx db.Tx, run Run, session int64, at time.Time) (done Committed, err error) {
	done.Conversation = run.Conversation
	switch {
	case run.Effect.Archive:
		done.Conversation, err = startConversation(ctx, tx, run, session, at)
	case run.Effect.Delete:
		done.Conversation = Conversation{}
		if err = rows.DeleteConversation(ctx, tx, run.Conversation.row); err == nil {
			err = talkrows.Forget(ctx, tx, string(run.Key))
		}
	case run.Effect.Resume != "":
		done.Conversation, err = resume(ctx, tx, run.Key, run.Effect.Resume, at)
	case run.Effect.Title != "":
		done.Conversation, err = rename(ctx, tx, run, session, at)
	case run.Effect.Undo > 0 && len(run.Messages) > 0:
		if run, err = branchOff(ctx, tx, run); err == nil {
			done.Conversation, done.Messages, err = appendMessages(ctx, tx, run, session, at)
		}
	case run.Effect.Undo > 0:
		done.Conversation, err = undo(ctx, tx, run)
	case run.Effect.Replace > 0 && len(run.Messages) > 0:
		if run, err = replaceAnswer(ctx, tx, run); err == nil {
			done.Conversation, done.Messages, err = appendMessages(ctx, tx, run, session, at)
		}
	case len(run.Messages) > 0:
		done.Conversation, done.Messages, err = appendMessages(ctx, tx, run, session, at)
	}
	return done, err
}

// sessionOf returns the row id of the run's session.
func sessionOf(ctx context.Context, tx db.Tx, run Run) (id int64, err error) {
	if run.Conversation.session != 0 {
		return run.Conversation.session, nil
	}
	err = tx.QueryRowContext(ctx, `SELECT id FROM sessions WHERE key = ?`, string(run.Key)).Scan(&id)
	return id, err
}

// settle marks the inbound that a run took as done. It fails with ErrSettled if another run has settled one. If one was
// edited meanwhile, it fails with errChanged where unchanged is true.
func settle(ctx context.Context, tx db.Tx, run Run, unchanged bool) error {
	const statement = `
		UPDATE inbox AS i SET run_id = ?, withdrawn = 0, title = '', text = ?, attachments = NULL, options = NULL, overheard = NULL, address = ?
		WHERE id = ? AND revision = ? AND (run_id IS NULL OR ` + rows.IsWithdrawn + `)`
	for _, in := range run.Took {
		values := []any{run.ID(), keptText(run, in), keptAddress(run, in), in.ID, in.Revision}
		if unchanged {
			if err := db.Require(ctx, tx, whereChanged, statement, values...); err != nil {
				return err
			}
		} else if n, err := db.Changed(tx.ExecContext(ctx, statement, values...)); err != nil {
			return err
		} else if n == 0 {
			if err := settleEdited(ctx, tx, run, in.ID); err != nil {
				return err
			}
		}
		if err := moveUploads(ctx, tx, in, uploads.Accepted, uploads.Taken); err != nil {
			return err
		}
	}
	return nil
}

// keptText returns what is kept of an inbound's text: all of it, for the notice that
// answers it, unless a message has it.
func keptText(run Run, in Inbound) string {
	if !in.Keep || slices.ContainsFunc(run.Messages, func(m Message) bool { return m.SourceID == in.SourceID }) {
		return ""
	}
	return in.Text
}

// keptAddress returns what is kept of an inbound's address: all of it after a failed run, which may be repeated without
// another message of the person.
func keptAddress(run Run, in Inbound) string {
	if run.Status != StatusFailed || run.Kind != KindAgent {
		return ""
	}
	return in.Address
}

// settleEdited marks an inbound as done that was edited while the run answered it. The
// next run is told how it reads now, unless it was taken back as well. It fails with ErrSettled if another run has
// settled it.
func settleEdited(ctx context.Context, tx db.Tx, run Run, id int64) error {
	var text string
	var waits bool
	err := tx.QueryRowContext(ctx, `
		SELECT text, run_id IS NULL FROM inbox i WHERE id = ? AND (run_id IS NULL OR `+rows.IsWithdrawn+`)`, id).Scan(&text, &waits)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrSettled
	}
	if err == nil && waits && run.Kind == KindAgent {
		err = insertNote(ctx, tx, id, ":late", text)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE inbox SET run_id = ?, withdrawn = 0, title = '', text = '', attachments = NULL, options = NULL, overheard = NULL, address = '' WHERE id = ?`, run.ID(), id)
	}
	return err
}

func appendMessages(ctx context.Context, tx db.Tx, run Run, session int64, at time.Time) (Conversation, []Message, error) {
	c, tip, err := grow(ctx, tx, run, session, at)
	if err != nil {
		return c, nil, err
	}
	if err := beginBranch(ctx, tx, run, c, tip); err != nil {
		return c, nil, err
	}
	return insertMessages(ctx, tx, run, c, session, at)
}

// extend adds a run's messages to its conversation. It fails with errChanged if that is not as the run has read it.
func extend(ctx context.Context, tx db.Tx, run Run, session int64, at time.Time) (Conversation, []Message, error) {
	c, err := growKnown(ctx, tx, run, at)
	if err != nil {
		return c, nil, err
	}
	return insertMessages(ctx, tx, run, c, session, at)
}

// insertMessages stores the messages of a run in a conversation that has grown by them.
func insertMessages(ctx context.Context, tx db.Tx, run Run, c Conversation, session int64, at time.Time) (_ Conversation, _ []Message, err error) {
	if c.Messages == int64(len(run.Messages)) && run.ID() != 0 {
		if err := takeAsides(ctx, tx, run.ID(), session, c.row); err != nil {
			return c, nil, err
		}
	}
	stored := make([]Message, len(run.Messages))
	for i, m := range run.Messages {
		m.Seq, m.RunID = c.Messages-int64(len(run.Messages)-1-i), run.ID()
		if m.At.IsZero() {
			m.At = at
		}
		m.At = db.FromMillis(db.Millis(m.At))
		if stored[i], err = insertMessage(ctx, tx, c.row, m); err != nil {
			return c, nil, err
		}
	}
	return c, stored, nil
}

// takeAsides gives the commands that were carried out at once while the first message of a conversation waited, such
// as the answer to a question, to that conversation: their replies are shown in it, and deleted with it. They
// were stored before there was one, or while the session still had another. Where a later message was answered first, as
// with several bots, the later commands belong to its conversation.
func takeAsides(ctx context.Context, tx db.Tx, run, session, conversation int64) error {
	const asides = `session_id = ?1 AND kind = 'command' AND NOT EXISTS (SELECT 1 FROM runs WHERE session_id = ?1 AND id > ?2 AND kind = 'agent')`
	_, err := tx.ExecContext(ctx, `UPDATE outbox SET through = 0 WHERE session_id = ?1 AND notice = 1 AND run_id IN (SELECT id FROM runs WHERE id > ?2 AND `+asides+`)`, session, run)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE runs SET conversation_id = ?3 WHERE id > ?2 AND `+asides, session, run, conversation)
	}
	return err
}

// undo marks the last turn that the run knew of as taken back. What a program
// has appended meanwhile stays. Where the conversation was deleted meanwhile, it does
// nothing.
func undo(ctx context.Context, tx db.Tx, run Run) (Conversation, error) {
	known := run.Conversation
	turn, err := turns.Of(ctx, tx, known.row, run.Effect.Undo)
	if err != nil {
		return known, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE messages SET state = ? WHERE conversation_id = ? AND seq BETWEEN ? AND ? AND `+turns.Visible,
		rows.Undone, known.row, run.Effect.Undo, known.Messages)
	if err == nil { // a summary that covers it goes too, and the one before it counts again
		_, err = tx.ExecContext(ctx, `DELETE FROM summaries WHERE conversation_id = ? AND through >= ?`, known.row, run.Effect.Undo)
	}
	if err != nil {
		return known, err
	}
	return withoutTurns(ctx, tx, known, turn)
}

func insertRun(ctx context.Context, tx db.Tx, run Run, session, conversation, now int64) error {
	sender, err := db.JSONOrNull(run.Took[0].Sender, run.Took[0].Sender == Sender{})
	if err != nil {
		return err
	}
	called, err := steps.Encode(run.Steps, run.Model, run.StartedAt)
	if err != nil {
		return err
	}
	instructions, err := addInstructions(ctx, tx, run, conversation)
	if err != nil {
		return err
	}
	warnings, err := db.JSONOrNull(run.Warnings, len(run.Warnings) == 0)
	if err != nil {
		return err
	}
	cost := steps.Cost(run.Steps)
	if len(run.Steps) == 0 && run.Prompt+run.Completion > 0 {
		cost = nil
	}
	people, err := run.people(cost)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO runs (id, session_id, conversation_id, kind, status, model, rounds, prompt_tokens, cached_tokens, completion_tokens, error, started_at, ended_at,
			sender, messages, steps, finish_reason, new_conversation, instructions, agent, warnings, cost, people)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		run.ID(), session, sql.NullInt64{Int64: conversation, Valid: conversation != 0}, run.Kind, run.Status, run.Model, run.Rounds, run.Prompt, run.Cached, run.Completion,
		db.Text(run.Error), db.Millis(run.StartedAt), now, sender, len(run.Messages), db.Nullable(string(called)), db.Nullable(string(run.FinishReason)), run.Conversation.Succeeds() && conversation != 0, instructions, db.Nullable(run.Agent), warnings, cost, db.Nullable(string(people)))
	return err
}

// addInstructions stores the instructions that were in force in a run and returns their
// hash, null for none.
func addInstructions(ctx context.Context, tx db.Tx, run Run, conversation int64) (sql.NullString, error) {
	if len(run.Instructions) == 0 || conversation == 0 {
		return sql.NullString{}, nil
	}
	hash, _, err := rows.HashInstructions(run.Instructions)
	if err != nil {
		return sql.NullString{}, err
	}
	return db.Nullable(hash), rows.InsertInstructions(ctx, tx, conversation, run.Instructions)
}

// addParticipants stores whose messages a run has answered. They are stored beside the conversation: a message of a
// private chat has no author, and inbound is kept for a week only.
func addParticipants(ctx context.Context, tx db.Tx, run Run, conversation int64) error {
	if run.Kind != KindAgent || conversation == 0 {
		return nil
	}
	var last Sender
	for _, in := range run.Took {
		if in.Sender.ID == "" || in.Sender == last {
			continue
		}
		last = in.Sender
		_, err := tx.ExecContext(ctx, `
			INSERT INTO participants (conversation_id, user_id, name) VALUES (?, ?, ?)
			ON CONFLICT (conversation_id, user_id) DO UPDATE SET name = excluded.name WHERE participants.name <> excluded.name`,
			conversation, last.ID, db.Text(last.Name))
		if err != nil {
			return err
		}
	}
	return nil
}
