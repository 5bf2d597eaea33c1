package usage

import (
	"context"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/steps"
)

// Trace is the history of a conversation's runs, with sums over all of them and over its messages.
type Trace struct {
	Conversation conversation.Conversation
	Runs         []conversation.RunRecord // the oldest first
	Older        bool                     // there are runs before them
	Roles        []RoleTotals
	Tools        []ToolTotals
	Models       []ModelTotals
}

// RoleTotals are sums over the messages of a role.
type RoleTotals struct {
	Role     conversation.Role
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
	Totals
}

// Trace returns the trace of the conversation whose ID begins with id, with its newest runs: at most limit, 0 = all, of
// those before the run with the ID before, 0 = the newest. Errors are those of conversation.Store.Find.
func (u *Usage) Trace(ctx context.Context, id string, before int64, limit int) (Trace, error) {
	c, err := u.store.Find(ctx, id)
	if err != nil {
		return Trace{}, err
	}
	t := Trace{Conversation: c}
	var row int64
	if err := u.db.QueryRowContext(ctx, `SELECT id FROM conversations WHERE uuid = ?`, c.ID).Scan(&row); err != nil {
		return Trace{}, db.Explain(err)
	}
	for _, sum := range []func(context.Context, *Trace, int64) error{u.sumRoles, u.sumTools, u.sumModels, u.sumBackground} {
		if err := sum(ctx, &t, row); err != nil {
			return Trace{}, db.Explain(err)
		}
	}
	if err = u.readRuns(ctx, &t, row, before, limit); err == nil {
		err = u.addBackground(ctx, &t, row)
	}
	return t, db.Explain(err)
}

func (u *Usage) readRuns(ctx context.Context, t *Trace, row, before int64, limit int) error {
	most := limit + 1 // one more shows whether there are older ones
	if limit <= 0 {
		most = -1 // all
	}
	runs, err := conversation.ReadRuns(ctx, u.db, `
		WHERE conversation_id = ?1 AND (?2 = 0 OR id < ?2) ORDER BY id DESC LIMIT ?3`, row, before, most)
	if limit > 0 && len(runs) > limit {
		t.Older, runs = true, runs[:limit]
	}
	slices.Reverse(runs)
	t.Runs = runs
	return err
}

// addBackground adds to the runs of a trace the model calls that were made behind their
// commits.
func (u *Usage) addBackground(ctx context.Context, t *Trace, row int64) error {
	if len(t.Runs) == 0 {
		return nil
	}
	rows, err := u.db.QueryContext(ctx, `
		SELECT run_id, step, started_at FROM background_steps WHERE conversation_id = ? AND run_id BETWEEN ? AND ? ORDER BY id`,
		row, t.Runs[0].ID, t.Runs[len(t.Runs)-1].ID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, started int64
		var step string
		if err := rows.Scan(&id, &step, &started); err != nil {
			return err
		}
		list, err := steps.Decode([]byte("["+step+"]"), "", db.FromMillis(started))
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(t.Runs, func(r conversation.RunRecord) bool { return r.ID == id }); i >= 0 {
			t.Runs[i].Steps = append(t.Runs[i].Steps, list...)
		}
	}
	return rows.Err()
}

// sumBackground adds to the totals of the models the tokens of the calls that were made
// behind the commits of runs.
func (u *Usage) sumBackground(ctx context.Context, t *Trace, row int64) error {
	rows, err := u.db.QueryContext(ctx, `
		SELECT coalesce(step ->> 'name', ''), coalesce(sum(step ->> 'in'), 0), coalesce(sum(step ->> 'cached'), 0),
			coalesce(sum(step ->> 'out'), 0)
		FROM background_steps WHERE conversation_id = ? GROUP BY 1`, row)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var m ModelTotals
		if err := rows.Scan(&m.Model, &m.Prompt, &m.Cached, &m.Completion); err != nil {
			return err
		}
		if i := slices.IndexFunc(t.Models, func(known ModelTotals) bool { return known.Model == m.Model }); i >= 0 {
			t.Models[i].Add(m.Totals)
		} else {
			t.Models = append(t.Models, m)
		}
	}
	return rows.Err()
}

func (u *Usage) sumRoles(ctx context.Context, t *Trace, row int64) error {
	rows, err := u.db.QueryContext(ctx, `
		SELECT role, internal, count(*), sum(tokens) FROM messages WHERE conversation_id = ? GROUP BY role, internal`, row)
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

func (u *Usage) sumTools(ctx context.Context, t *Trace, row int64) error {
	list, err := u.db.QueryContext(ctx, `
		SELECT step.value ->> 'name', count(*), count(step.value ->> 'error'), coalesce(sum(step.value ->> 'took'), 0)
		FROM `+rows.Runs+` r, json_each(r.steps) AS step WHERE r.conversation_id = ? AND step.value ->> 'tool' GROUP BY 1`, row)
	if err != nil {
		return err
	}
	defer list.Close()
	for list.Next() {
		var tool ToolTotals
		var took int64
		if err := list.Scan(&tool.Name, &tool.Calls, &tool.Failed, &took); err != nil {
			return err
		}
		tool.Took = time.Duration(took) * time.Millisecond
		t.Tools = append(t.Tools, tool)
	}
	return list.Err()
}

func (u *Usage) sumModels(ctx context.Context, t *Trace, row int64) error {
	list, err := u.db.QueryContext(ctx, `
		SELECT model, count(*), sum(status = 'failed'), sum(status = 'stopped'), sum(messages), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),
			sum(max(ended_at - started_at, 0))
		FROM `+rows.Runs+` WHERE conversation_id = ? AND kind = 'agent' GROUP BY model`, row)
	if err != nil {
		return err
	}
	defer list.Close()
	for list.Next() {
		var m ModelTotals
		var took int64
		if err := list.Scan(append([]any{&m.Model}, m.fields(&took)...)...); err != nil {
			return err
		}
		m.Took = time.Duration(took) * time.Millisecond
		t.Models = append(t.Models, m)
	}
	return list.Err()
}

// maxMessageBytes is how much text Messages reads; the last message may exceed it.
const maxMessageBytes = 1 << 20

// Messages returns what runs of a conversation have added to it, by the runs' IDs, the oldest first: about 1 MiB of text
// in all, the newest. It walks back from the end of the conversation until it has them, so that the newest runs cost the
// least.
func (u *Usage) Messages(ctx context.Context, id string, runs []conversation.RunRecord) (map[int64][]conversation.Message, error) {
	found := map[int64][]conversation.Message{}
	if len(runs) == 0 {
		return found, nil
	}
	ids, added := make([]int64, len(runs)), int64(0)
	for i, run := range runs {
		ids[i], added = run.ID, added+run.Messages
	}
	size := 0
	for r, err := range conversation.ReadMessages(ctx, u.db, `
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0)
			AND run_id IN (SELECT value FROM json_each(?)) ORDER BY seq DESC LIMIT ?`, id, db.IDs(ids), added) {
		if err != nil {
			return nil, db.Explain(err)
		}
		found[r.RunID] = append(found[r.RunID], r)
		if size += len(r.Content); size >= maxMessageBytes {
			break
		}
	}
	for _, list := range found {
		slices.Reverse(list)
	}
	return found, nil
}
