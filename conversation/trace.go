package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"parley/conversation/internal/db"
)

// Trace is how a conversation came about: its runs, and sums over all of them
// and its messages.
type Trace struct {
	Conversation Conversation
	Runs         []TracedRun // oldest first
	Older        bool        // there are runs before them
	Roles        []RoleTotals
	Tools        []ToolTotals
	Models       []ModelTotals
}

// TracedRun is a run as it is stored.
type TracedRun struct {
	ID         int64 // its messages carry it
	Kind       Kind
	Status     Status
	Asked      Sender // who wrote the first message that it took
	Model      string
	Rounds     int // model calls
	Prompt     int // tokens
	Completion int
	Messages   int64  // that it added
	Error      string // for the operator, without secrets

	FinishReason FinishReason // why its answer is not whole

	Steps     []Step // none of commands, and of runs that are older than the recording of steps
	StartedAt time.Time
	EndedAt   time.Time
}

// RoleTotals are sums over the messages of a role.
type RoleTotals struct {
	Role     Role
	Internal bool
	Messages int64
	Tokens   int64
}

// ToolTotals are sums over the calls of a tool.
type ToolTotals struct {
	Name   string
	Calls  int64
	Failed int64 // of Calls
	Took   time.Duration
}

// ModelTotals are sums over the runs of a model.
type ModelTotals struct {
	Model string
	RunTotals
}

// Trace gives the trace of the conversation whose ID begins so, with its newest
// runs: at most limit of those before a run, 0 = all, and from the newest on. The
// error is as that of Find.
func (s *Store) Trace(ctx context.Context, id string, before int64, limit int) (Trace, error) {
	c, err := s.Find(ctx, id)
	if err != nil {
		return Trace{}, err
	}
	t := Trace{Conversation: c}
	for _, part := range []func(context.Context, *Trace) error{s.traceRoles, s.traceTools, s.traceModels} {
		if err := part(ctx, &t); err != nil {
			return Trace{}, db.Explain(err)
		}
	}
	err = s.traceRuns(ctx, &t, before, limit)
	return t, db.Explain(err)
}

func (s *Store) traceRuns(ctx context.Context, t *Trace, before int64, limit int) error {
	rows, err := s.db.QueryContext(ctx, `
		SELECT id, kind, status, sender, model, rounds, prompt_tokens, completion_tokens, messages, error, finish_reason, steps, started_at, ended_at
		FROM runs WHERE conversation_id = ?1 AND (?2 = 0 OR id < ?2) ORDER BY id DESC LIMIT ?3`, t.Conversation.row, before, oneMore(limit))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if limit > 0 && len(t.Runs) == limit {
			t.Older = true
			break
		}
		run, err := scanRun(rows)
		if err != nil {
			return err
		}
		t.Runs = append(t.Runs, run)
	}
	slices.Reverse(t.Runs)
	return rows.Err()
}

func scanRun(rows *sql.Rows) (run TracedRun, err error) {
	var sender, steps []byte
	var finish sql.NullString
	var started, ended int64
	err = rows.Scan(&run.ID, &run.Kind, &run.Status, &sender, &run.Model, &run.Rounds, &run.Prompt, &run.Completion,
		&run.Messages, &run.Error, &finish, &steps, &started, &ended)
	if err != nil {
		return run, err
	}
	run.FinishReason = FinishReason(finish.String)
	run.StartedAt, run.EndedAt = db.FromMillis(started), db.FromMillis(ended)
	if len(sender) > 0 {
		if err := json.Unmarshal(sender, &run.Asked); err != nil {
			return run, err
		}
	}
	run.Steps, err = decodeSteps(steps, run.Model, run.StartedAt)
	return run, err
}

func (s *Store) traceRoles(ctx context.Context, t *Trace) error {
	rows, err := s.db.QueryContext(ctx, `
		SELECT role, internal, count(*), sum(tokens) FROM messages WHERE conversation_id = ? GROUP BY role, internal`, t.Conversation.row)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r RoleTotals
		if err := rows.Scan(&r.Role, &r.Internal, &r.Messages, &r.Tokens); err != nil {
			return err
		}
		t.Roles = append(t.Roles, r)
	}
	return rows.Err()
}

func (s *Store) traceTools(ctx context.Context, t *Trace) error {
	rows, err := s.db.QueryContext(ctx, `
		SELECT step.value ->> 'name', count(*), count(step.value ->> 'error'), coalesce(sum(step.value ->> 'took'), 0)
		FROM runs, json_each(runs.steps) AS step WHERE runs.conversation_id = ? AND step.value ->> 'tool' GROUP BY 1`, t.Conversation.row)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var tool ToolTotals
		var took int64
		if err := rows.Scan(&tool.Name, &tool.Calls, &tool.Failed, &took); err != nil {
			return err
		}
		tool.Took = time.Duration(took) * time.Millisecond
		t.Tools = append(t.Tools, tool)
	}
	return rows.Err()
}

func (s *Store) traceModels(ctx context.Context, t *Trace) error {
	rows, err := s.db.QueryContext(ctx, `
		SELECT model, count(*), sum(status = 'failed'), sum(status = 'stopped'), sum(messages), sum(prompt_tokens), sum(completion_tokens),
			sum(max(ended_at - started_at, 0))
		FROM runs WHERE conversation_id = ? AND kind = 'agent' GROUP BY model`, t.Conversation.row)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var m ModelTotals
		var took int64
		if err := rows.Scan(append([]any{&m.Model}, m.into(&took)...)...); err != nil {
			return err
		}
		m.Took = time.Duration(took) * time.Millisecond
		t.Models = append(t.Models, m)
	}
	return rows.Err()
}
