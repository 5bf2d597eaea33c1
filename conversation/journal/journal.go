// Package journal stores what a run has done before it is committed, so that a crash repeats no finished step: the model's
// messages that asked for tools, which calls have begun, and their results. The commit of a run deletes its journal.
//
// A run that calls no tool writes nothing here.
package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/steps"
)

// Journal stores the journals of all sessions. It is safe for concurrent use.
type Journal struct {
	db  *db.DB
	now func() time.Time
}

// New returns the journal of a store.
func New(store *conversation.Store) *Journal { return &Journal{store.DB(), store.Now} }

// Run is what is stored of a run that is not committed.
type Run struct {
	ID        int64 // that of the first message it took
	Key       conversation.Key
	Channel   string // by which the last of them came
	Account   string // the bot that it came to
	Took      []Message
	StartedAt time.Time
	Tries     int     // how many processes have taken it up since its newest entry, see Journal.TakeUp
	Rounds    []Round // in order; only the last one may lack results
	Waits     bool    // one of the messages that it took still waits for an answer
}

// Message is a message that a run took, as it read then.
type Message struct {
	ID       int64 `json:"id"`
	Revision int   `json:"revision,omitempty"` // as [conversation.Inbound] counts them
}

// Round is a message of the model that asks for tools, with what has become of the calls.
type Round struct {
	Said    conversation.Message
	Totals  Totals          // of the run's model calls, this one among them
	Steps   []steps.Step    // of the run since the round before
	Begun   map[string]bool // calls that may have begun, by their ID
	Results map[string]Result

	Harmless bool // to make the calls of the message again, and to ask the model again; not stored
}

// Totals are the sums of a run's model calls.
type Totals struct {
	Model      string `json:"model,omitempty"`
	Calls      int    `json:"calls,omitempty"`
	Prompt     int    `json:"prompt,omitempty"` // tokens, as the server counted them
	Cached     int    `json:"cached,omitempty"`
	Completion int    `json:"completion,omitempty"`
}

// Result is how a tool call ended.
type Result struct {
	Message conversation.Message
	Step    steps.Step

	Harmless bool // to make the call again; not stored
}

// entry is a row of the journal: a round, calls that began, or a result. The calls that begin with a round are in its row.
type entry struct {
	Round  *roundEntry  `json:"round,omitempty"`
	Begun  []string     `json:"begun,omitempty"` // IDs of calls of the newest round
	Result *resultEntry `json:"result,omitempty"`
}

type roundEntry struct {
	Said   conversation.Message `json:"said"`
	Totals Totals               `json:"totals"`
	Steps  json.RawMessage      `json:"steps,omitempty"`
}

type resultEntry struct {
	Message conversation.Message `json:"message"`
	Step    json.RawMessage      `json:"step"`
}

// AddRound stores a message of the model before the first of its calls begins, with the IDs of the calls that begin at
// once. It returns the message with its pictures as they are kept.
func (j *Journal) AddRound(ctx context.Context, run Run, round Round, begun []string) (conversation.Message, error) {
	called, err := steps.Encode(round.Steps, "", run.StartedAt)
	if err != nil {
		return round.Said, err
	}
	stored, err := j.add(ctx, run, round.Harmless, entry{Round: &roundEntry{Said: round.Said, Totals: round.Totals, Steps: called}, Begun: begun})
	if err != nil {
		return round.Said, err
	}
	return stored.Round.Said, nil
}

// AddBegun stores that a call of the newest round begins.
func (j *Journal) AddBegun(ctx context.Context, run Run, call string) error {
	_, err := j.add(ctx, run, false, entry{Begun: []string{call}})
	return err
}

// AddResult stores how a call of the newest round has ended. It returns the message with its pictures as they are kept.
func (j *Journal) AddResult(ctx context.Context, run Run, result Result) (conversation.Message, error) {
	step, err := steps.Encode([]steps.Step{result.Step}, "", run.StartedAt)
	if err != nil {
		return result.Message, err
	}
	stored, err := j.add(ctx, run, result.Harmless, entry{Result: &resultEntry{Message: result.Message, Step: step}})
	if err != nil {
		return result.Message, err
	}
	return stored.Result.Message, nil
}

// add appends an entry and returns it as it is stored. The tries begin anew: the run has got further. An entry that is
// harmless outlasts the process, but perhaps not a failure of the machine.
func (j *Journal) add(ctx context.Context, run Run, harmless bool, e entry) (stored entry, err error) {
	write := j.db.WriteOwned
	if harmless {
		write = j.db.WriteQuickly
	}
	err = write(ctx, string(run.Key), func(ctx context.Context, tx db.Tx) (err error) {
		if stored, err = e.withKeptPictures(ctx, tx, run.ID, j.now()); err != nil {
			return err
		}
		text, err := json.Marshal(stored)
		if err != nil {
			return err
		}
		return insertEntry(ctx, tx, run, string(text))
	})
	if err != nil {
		return entry{}, fmt.Errorf("write the journal of run %d: %w", run.ID, err)
	}
	return stored, nil
}

// insertEntry adds an entry to the journal of a run, which it opens where that is not done.
func insertEntry(ctx context.Context, tx db.Tx, run Run, entry string) error {
	for opened := false; ; opened = true {
		result, err := tx.ExecContext(ctx, `
			INSERT INTO journal_entries (run_id, n, entry)
			SELECT run_id, (SELECT coalesce(max(n), 0) + 1 FROM journal_entries WHERE run_id = ?1), CAST(?2 AS TEXT)
			FROM journals WHERE run_id = ?1 AND tries = 0`, run.ID, entry)
		if err != nil {
			return err
		}
		if added, err := result.RowsAffected(); err != nil || added > 0 {
			return err
		}
		if opened {
			return fmt.Errorf("the journal of run %d does not stay open", run.ID)
		}
		if err := open(ctx, tx, run); err != nil {
			return err
		}
	}
}

// withKeptPictures stores the bytes of the pictures of an entry, which its text does not have.
func (e entry) withKeptPictures(ctx context.Context, tx db.Tx, run int64, at time.Time) (entry, error) {
	var err error
	switch {
	case e.Round != nil:
		round := *e.Round
		round.Said, err = conversation.KeepPictures(ctx, tx, run, round.Said, at)
		e.Round = &round
	case e.Result != nil:
		result := *e.Result
		result.Message, err = conversation.KeepPictures(ctx, tx, run, result.Message, at)
		e.Result = &result
	}
	return e, err
}

// open stores that a run is under way. One that has a journal has got further: its tries begin anew. One that has none
// begins from the start, and what it may have asked before counts no more.
func open(ctx context.Context, tx db.Tx, run Run) error {
	took, err := json.Marshal(run.Took)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM approvals WHERE run_id = ?1 AND NOT EXISTS (SELECT 1 FROM journals WHERE run_id = ?1)`, run.ID)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO journals (run_id, session_id, channel, account, took, started_at)
		VALUES (?1, (SELECT id FROM sessions WHERE key = ?2), ?3, ?4, ?5, ?6)
		ON CONFLICT (run_id) DO UPDATE SET tries = 0 WHERE journals.tries > 0`,
		run.ID, string(run.Key), run.Channel, run.Account, string(took), db.Millis(run.StartedAt))
	return err
}

// TakeUp stores that this process works on a run whose journal another one has left. It returns how many processes have
// done so since the run's newest entry, which is how many have died in its current step.
func (j *Journal) TakeUp(ctx context.Context, id int64) (tries int, err error) {
	err = j.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		err := tx.QueryRowContext(ctx, `UPDATE journals SET tries = tries + 1 WHERE run_id = ? RETURNING tries`, id).Scan(&tries)
		if errors.Is(err, sql.ErrNoRows) { // somebody has deleted it meanwhile
			err = nil
		}
		return err
	})
	return tries, err
}

// Suspend stores that this process leaves a run in good order, so that what it has begun counts as no failed try.
func (j *Journal) Suspend(ctx context.Context, id int64) error {
	return j.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE journals SET tries = 0 WHERE run_id = ? AND tries > 0`, id)
		return err
	})
}

// Of returns the journal of a session's run, the oldest one if there are several. found is false when there is none. Where
// accounts are named, only runs that answer messages to them count: another process goes on with the others.
func (j *Journal) Of(ctx context.Context, key conversation.Key, accounts ...conversation.Account) (run Run, found bool, err error) {
	err = j.db.Read(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		if run, found, err = header(ctx, conn, key, accounts); err == nil && found {
			err = run.read(ctx, conn)
		}
		return err
	})
	return run, found, db.Explain(err)
}

// header reads which run has a journal, without its entries.
func header(ctx context.Context, conn *sql.Conn, key conversation.Key, accounts []conversation.Account) (Run, bool, error) {
	rows, err := conn.QueryContext(ctx, `
		SELECT run_id, channel, account, took, started_at, tries FROM journals
		WHERE session_id = (SELECT id FROM sessions WHERE key = ?) ORDER BY run_id`, string(key))
	if err != nil {
		return Run{}, false, err
	}
	defer rows.Close()
	for rows.Next() {
		run := Run{Key: key}
		var took string
		var started int64
		if err := rows.Scan(&run.ID, &run.Channel, &run.Account, &took, &started, &run.Tries); err != nil {
			return run, false, err
		}
		to := conversation.Account{Channel: run.Channel, ID: run.Account}
		if len(accounts) > 0 && !slices.ContainsFunc(accounts, func(a conversation.Account) bool { return a.Serves(to) }) {
			continue
		}
		run.StartedAt = db.FromMillis(started)
		return run, true, json.Unmarshal([]byte(took), &run.Took)
	}
	return Run{}, false, rows.Err()
}

// read reads the entries of a run, and whether its messages still wait.
func (r *Run) read(ctx context.Context, conn *sql.Conn) error {
	for _, m := range r.Took {
		var waits bool
		err := conn.QueryRowContext(ctx, `SELECT run_id IS NULL FROM inbox WHERE id = ?`, m.ID).Scan(&waits)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		r.Waits = r.Waits || waits
	}
	entries, err := db.Column[string](conn.QueryContext(ctx, `SELECT entry FROM journal_entries WHERE run_id = ? ORDER BY n`, r.ID))
	if err != nil {
		return err
	}
	for _, text := range entries {
		if err := r.addEntry(text); err != nil {
			return fmt.Errorf("the journal of run %d: %w", r.ID, err)
		}
	}
	return nil
}

// addEntry adds a stored entry to the rounds.
func (r *Run) addEntry(text string) error {
	var e entry
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return err
	}
	if e.Round != nil {
		called, err := steps.Decode(e.Round.Steps, "", r.StartedAt)
		if err != nil {
			return err
		}
		r.Rounds = append(r.Rounds, Round{
			Said: e.Round.Said, Totals: e.Round.Totals, Steps: called, Begun: map[string]bool{}, Results: map[string]Result{},
		})
	}
	if len(r.Rounds) == 0 {
		return errors.New("it begins with a call that no message asked for")
	}
	last := &r.Rounds[len(r.Rounds)-1]
	for _, call := range e.Begun {
		last.Begun[call] = true
	}
	if e.Result != nil {
		called, err := steps.Decode(e.Result.Step, "", r.StartedAt)
		if err != nil || len(called) != 1 {
			return fmt.Errorf("the step of call %s can't be read: %w", e.Result.Message.ToolCallID, err)
		}
		last.Results[e.Result.Message.ToolCallID] = Result{Message: e.Result.Message, Step: called[0]}
	}
	return nil
}
