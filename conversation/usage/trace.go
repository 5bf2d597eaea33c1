package usage

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/metadata"
	"parley/conversation/runs"
	"parley/conversation/steps"
)

// Trace is the history of a conversation's runs, with sums over all of them and over its messages.
type Trace struct {
	Conversation conversation.Conversation
	Runs         []runs.Record // the runs that the query selects, the oldest first
	Older        bool          // whether the query selects older runs, too, which its limit leaves out
	Roles        []RoleTotals
	Tools        []ToolTotals
	Models       []ModelTotals
}

// RoleTotals are sums over the messages of a role, separately for internal messages.
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
	Failed int64         // the calls that failed
	Took   time.Duration // the sum of the calls' durations
}

// ModelTotals are sums over the runs of a model.
type ModelTotals struct {
	Model string
	Cost  Cost
	Totals
}

// TraceQuery selects the runs of a trace. If there are more than Limit, the newest ones are returned.
type TraceQuery struct {
	Conversation string          // the ID of the conversation, or its beginning
	Before       int64           // only runs with lower IDs; 0 = all
	Limit        int             // the number of runs to return at most; 0 = all
	Metadata     metadata.Filter // only runs with a message that has this metadata
}

// Trace returns the trace of a conversation: the runs that the query selects, and sums over all runs and messages. Errors are
// those of catalog.Catalog.Find.
func (u *Usage) Trace(ctx context.Context, q TraceQuery) (Trace, error) {
	c, err := catalog.New(u.store).Find(ctx, q.Conversation)
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
	if err = u.readRuns(ctx, &t, row, q); err == nil {
		err = u.addBackground(ctx, &t, row)
	}
	return t, db.Explain(err)
}

func (u *Usage) readRuns(ctx context.Context, t *Trace, row int64, q TraceQuery) error {
	filter, err := q.Metadata.Parameter()
	if err != nil {
		return err
	}
	runs, err := runs.Read(ctx, u.db, `
		WHERE conversation_id = ?1 AND (?2 = 0 OR id < ?2) AND (CAST(?4 AS TEXT) IS NULL OR id IN (
			SELECT run_id FROM messages WHERE conversation_id = ?1 AND `+metadata.Matches("?4", "messages.metadata")+`))
		ORDER BY id DESC LIMIT ?3`, row, q.Before, db.OneMore(q.Limit), filter) // one more shows whether there are older ones
	if q.Limit > 0 && len(runs) > q.Limit {
		t.Older, runs = true, runs[:q.Limit]
	}
	slices.Reverse(runs)
	t.Runs = runs
	return err
}

// addBackground adds the model calls that were made after the commits of a trace's runs to the steps of these runs.
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
		if i := slices.IndexFunc(t.Runs, func(r runs.Record) bool { return r.ID == id }); i >= 0 {
			t.Runs[i].Steps = append(t.Runs[i].Steps, list...)
		}
	}
	return rows.Err()
}

// sumBackground adds the tokens of the model calls that were made after the commits of runs to the totals of the models.
func (u *Usage) sumBackground(ctx context.Context, t *Trace, row int64) error {
	rows, err := u.db.QueryContext(ctx, `
		SELECT `+sumSpent+` FROM (`+backgroundCalls(``)+`WHERE b.conversation_id = ?) AS calls GROUP BY model ORDER BY model`, row)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var s Spent
		if err := rows.Scan(s.fields()...); err != nil {
			return err
		}
		m := ModelTotals{s.Model, s.Cost, Totals{Prompt: s.Prompt, Cached: s.Cached, Completion: s.Completion}}
		if i := slices.IndexFunc(t.Models, func(known ModelTotals) bool { return known.Model == m.Model }); i >= 0 {
			t.Models[i].Add(m.Totals)
			t.Models[i].Cost.add(m.Cost)
		} else {
			t.Models = append(t.Models, m)
		}
	}
	return rows.Err()
}

func (u *Usage) sumRoles(ctx context.Context, t *Trace, row int64) error {
	rows, err := u.db.QueryContext(ctx, `
		SELECT role, internal, count(*), sum(tokens) FROM messages WHERE conversation_id = ? GROUP BY role, internal ORDER BY role, internal`, row)
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
		SELECT step.value ->> 'name', count(*), count(step.value ->> 'error'), coalesce(sum(CAST(step.value ->> 'took' AS BIGINT)), 0)
		FROM `+rows.Runs+`CROSS JOIN `+db.EachOf("r.steps")+` AS step WHERE r.conversation_id = ? AND step.value ->> 'tool' IS NOT NULL GROUP BY 1 ORDER BY 1`, row)
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
		SELECT model, count(*), count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'stopped'),
			sum(messages), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(CASE WHEN ended_at > started_at THEN ended_at - started_at ELSE 0 END), `+sumCosts+`
		FROM `+rows.Runs+` WHERE conversation_id = ? AND kind = 'agent' GROUP BY model ORDER BY model`, row)
	if err != nil {
		return err
	}
	defer list.Close()
	for list.Next() {
		var m ModelTotals
		var took int64
		if err := list.Scan(slices.Concat([]any{&m.Model}, m.fields(&took), m.Cost.fields())...); err != nil {
			return err
		}
		m.Took = time.Duration(took) * time.Millisecond
		t.Models = append(t.Models, m)
	}
	if err := list.Err(); err != nil {
		return err
	}
	return u.subtractWaits(ctx, t, row)
}

// subtractWaits subtracts the time in which runs waited for answers of people from the totals of their models.
func (u *Usage) subtractWaits(ctx context.Context, t *Trace, row int64) error {
	waited, err := runs.Read(ctx, u.db, `
		WHERE conversation_id = ? AND kind = 'agent' AND EXISTS (
			SELECT 1 FROM `+db.EachOf("steps")+` AS step WHERE step.value ->> 'approval' IS NOT NULL)`, row)
	if err != nil {
		return err
	}
	for _, run := range waited {
		i := slices.IndexFunc(t.Models, func(m ModelTotals) bool { return m.Model == run.Model })
		if i >= 0 {
			t.Models[i].Took = max(0, t.Models[i].Took-steps.Waited(run.Steps))
		}
	}
	return nil
}

// maxMessageBytes limits the text that Messages reads. The message that exceeds it is the last one read.
const maxMessageBytes = 1 << 20

// Messages returns the messages that runs of a conversation have added to it, by the IDs of the runs, the oldest first. It
// reads from the end of the conversation back, until it has all of them or more than 1 MiB of text; older messages are missing
// then. So the newest runs cost the least.
func (u *Usage) Messages(ctx context.Context, id string, runs []runs.Record) (map[int64][]conversation.Message, error) {
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
			AND run_id IN (SELECT value FROM `+db.EachID("?")+` ids) ORDER BY seq DESC LIMIT ?`, id, db.IDs(ids), added) {
		if err != nil {
			return nil, db.Explain(err)
		}
		found[r.RunID] = append(found[r.RunID], r)
		if size += len(r.Content) + len(r.Reasoning); size >= maxMessageBytes {
			break
		}
	}
	for _, list := range found {
		slices.Reverse(list)
	}
	return found, nil
}

// Run returns a run of a session by its ID. known is false if the session has no ended run with this ID.
func (u *Usage) Run(ctx context.Context, key conversation.Key, id int64) (run runs.Record, known bool, err error) {
	list, err := runs.Read(ctx, u.db, `
		WHERE id = ?1 AND EXISTS (SELECT 1 FROM runs r JOIN sessions s ON s.id = r.session_id WHERE r.id = ?1 AND s.key = ?2) LIMIT 1`, id, string(key))
	if err != nil || len(list) == 0 {
		return run, false, db.Explain(err)
	}
	return list[0], true, nil
}

// Instructions returns the lists of instructions that were in force in runs of a conversation, by their hashes, which the runs
// have as Record.Instructions.
func (u *Usage) Instructions(ctx context.Context, id string, of []runs.Record) (map[string][]string, error) {
	hashes := make([]string, len(of))
	for i, run := range of {
		hashes[i] = run.Instructions
	}
	wanted, err := json.Marshal(hashes)
	if err != nil {
		return nil, err
	}
	list, err := u.db.QueryContext(ctx, `
		SELECT hash, list FROM run_instructions
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0) AND hash IN (SELECT value FROM `+db.EachText("?")+` hashes)`, id, string(wanted))
	if err != nil {
		return nil, db.Explain(err)
	}
	defer list.Close()
	found := map[string][]string{}
	for list.Next() {
		var hash, text string
		var texts []string
		if err := list.Scan(&hash, &text); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(text), &texts); err != nil {
			return nil, err
		}
		found[hash] = texts
	}
	return found, db.Explain(list.Err())
}
