// Package journal stores the finished steps of runs that are not committed, so that a crash repeats none of them: the model's
// messages that ask for tools, which tool calls have begun, and their results. The commit of a run deletes its journal.
//
// A run that calls no tool has no journal.
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

// Run is a run that is not committed, with its journal.
type Run struct {
	ID        int64 // the ID of the first inbound that it took
	Key       conversation.Key
	Channel   string    // the channel of the last inbound that it took
	Account   string    // the platform's id of the bot that received this inbound
	Took      []Message // the inbound that it took
	StartedAt time.Time
	Tries     int     // how many processes have taken it up since its newest entry, see Journal.TakeUp
	Rounds    []Round // the rounds in order; only the last one may lack results
	Waits     bool    // whether an inbound that it took is still unsettled
}

// Message identifies an inbound that a run took, in the wording that the run read.
type Message struct {
	ID       int64 `json:"id"`
	Revision int   `json:"revision,omitempty"` // see conversation.Inbound.Revision
}

// Round is a message of the model that asks for tools, with the state of its tool calls.
type Round struct {
	Said    conversation.Message
	Totals  Totals            // sums over the run's model calls up to this message
	Steps   []steps.Step      // the steps of the run since the previous round
	Begun   map[string]bool   // the calls that may have begun, by their IDs
	Results map[string]Result // the results so far, by the IDs of the calls

	Harmless bool // a failure of the machine may lose the entry, since it is safe to repeat the model call and the tool calls; not stored
}

// Totals are sums over a run's model calls.
type Totals struct {
	Model      string `json:"model,omitempty"`
	Calls      int    `json:"calls,omitempty"`
	Prompt     int    `json:"prompt,omitempty"`     // tokens, as the server counted them
	Cached     int    `json:"cached,omitempty"`     // the tokens of Prompt that the server took from its cache
	Completion int    `json:"completion,omitempty"` // tokens, as the server counted them
}

// Result is the result of a tool call.
type Result struct {
	Message conversation.Message
	Step    steps.Step

	Harmless bool // a failure of the machine may lose the entry, since it is safe to repeat the call; not stored
}

// entry is a row of the journal: a round, calls that have begun, or a result. The row of a round also has the calls that begin
// at once.
type entry struct {
	Round  *roundEntry  `json:"round,omitempty"`
	Begun  []string     `json:"begun,omitempty"`  // the IDs of calls of the newest round
	Unmade string       `json:"unmade,omitempty"` // the ID of a call of the newest round that was not made after all
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

// AddRound stores a message of the model, and begun, the IDs of the tool calls that begin at once. Call it before the first
// of them begins. AddRound stores the pictures of the message, and returns the message with their IDs.
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

// AddBegun stores that a tool call of the newest round begins. Call it before the call begins. call is the ID of the call.
func (j *Journal) AddBegun(ctx context.Context, run Run, call string) error {
	_, err := j.add(ctx, run, false, entry{Begun: []string{call}})
	return err
}

// AddUnmade stores that a tool call that was to begin was not made, since its tool has changed: it may begin later.
func (j *Journal) AddUnmade(ctx context.Context, run Run, call string) error {
	_, err := j.add(ctx, run, false, entry{Unmade: call})
	return err
}

// AddResult stores the result of a tool call of the newest round. It stores the pictures of the message, and returns the message
// with their IDs.
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

// add appends an entry and returns it as it is stored. It resets the run's tries, since the run has made progress. A harmless
// entry survives a crash of the process, but a failure of the machine may lose it.
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

// insertEntry adds an entry to the journal of a run. If the run has no journal, or if its tries are not 0, it calls open first.
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
			return fmt.Errorf("the journal of run %d can't be opened", run.ID)
		}
		if err := open(ctx, tx, run); err != nil {
			return err
		}
	}
}

// withKeptPictures stores the bytes of an entry's pictures, and returns the entry with their IDs. The JSON of an entry does not
// have the bytes.
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

// open creates the journal of a run, or resets the tries if there is one. A run without a journal begins from the start, so open
// deletes the approvals that an earlier attempt may have asked for.
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

// TakeUp stores that this process continues a run whose journal another process has left. It returns how many processes have
// done so since the run's newest entry, this one included. That is how many have died in the run's present step. It returns 0 if
// there is no journal.
func (j *Journal) TakeUp(ctx context.Context, id int64) (tries int, err error) {
	err = j.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		err := tx.QueryRowContext(ctx, `UPDATE journals SET tries = tries + 1 WHERE run_id = ? RETURNING tries`, id).Scan(&tries)
		if errors.Is(err, sql.ErrNoRows) { // the journal was deleted meanwhile
			err = nil
		}
		return err
	})
	return tries, err
}

// Suspend resets the tries of a run, which this process leaves in good order: its attempt does not count as failed.
func (j *Journal) Suspend(ctx context.Context, id int64) error {
	return j.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE journals SET tries = 0 WHERE run_id = ? AND tries > 0`, id)
		return err
	})
}

// Of returns the uncommitted run of a session, the oldest one if there are several. found is false if there is none. If accounts
// are given, it returns only a run that answers messages to one of them; other processes continue the others.
func (j *Journal) Of(ctx context.Context, key conversation.Key, accounts ...conversation.Account) (run Run, found bool, err error) {
	err = j.db.Read(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		if run, found, err = header(ctx, conn, key, accounts); err == nil && found {
			err = run.read(ctx, conn)
		}
		return err
	})
	return run, found, db.Explain(err)
}

// header returns the run that Of describes, without its entries.
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

// read sets the rounds of a run, and whether an inbound that it took is still unsettled.
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
		return errors.New("the first entry is not a message of the model")
	}
	last := &r.Rounds[len(r.Rounds)-1]
	for _, call := range e.Begun {
		last.Begun[call] = true
	}
	delete(last.Begun, e.Unmade)
	if e.Result != nil {
		called, err := steps.Decode(e.Result.Step, "", r.StartedAt)
		if err == nil && len(called) != 1 {
			err = fmt.Errorf("it has %d steps", len(called))
		}
		if err != nil {
			return fmt.Errorf("the step of call %s can't be read: %w", e.Result.Message.ToolCallID, err)
		}
		last.Results[e.Result.Message.ToolCallID] = Result{Message: e.Result.Message, Step: called[0]}
	}
	return nil
}
