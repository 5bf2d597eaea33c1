// Package runs reads the runs of conversations, also those that were imported with them.
package runs

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/steps"
)

// Record is a run as it was stored.
type Record struct {
	ID         int64 // see Message.RunID
	Kind       conversation.Kind
	Status     conversation.Status
	Asked      conversation.Sender // the sender of the first message that the run took
	Agent      string              // the agent that answered; "" for the default one
	Model      string
	Rounds     int    // model calls
	Prompt     int    // tokens
	Cached     int    // tokens of Prompt that the model's server took from its cache
	Completion int    // tokens
	Cost       *int64 // billionths of the currency of the prices, by the prices of its time; nil if it is not known
	Messages   int64  // number of messages that the run added
	Error      string // why the run failed, for the operator, without secrets

	FinishReason    steps.FinishReason // why the answer is incomplete; "" if it is complete
	NewConversation bool               // the run began the conversation, since the one before was over
	Instructions    string             // hash of the instructions that the model was told; "" for none, or not known

	Warnings []string // what its readers should know beside the answer, as Markdown

	Steps     []steps.Step // none for commands, and for runs from before steps were recorded
	StartedAt time.Time
	EndedAt   time.Time
}

// Select is the beginning of a query whose rows Scan reads.
const Select = `
	SELECT id, kind, status, sender, model, rounds, prompt_tokens, cached_tokens, completion_tokens, messages, error, finish_reason, new_conversation,
		instructions, agent, warnings, steps, started_at, ended_at, cost
	FROM ` + rows.Runs

// Answered says what has made an answer, by their names.
type Answered struct {
	Model string
	Agent string // the agent that answered; "" for the default one

	Warnings []string // what readers should know beside the answer, as Markdown
}

// Of returns what has answered in the runs of messages of a conversation, by the ids of the runs.
func Of(ctx context.Context, store *conversation.Store, c conversation.Conversation, messages []conversation.Message) (map[int64]Answered, error) {
	by := map[int64]Answered{}
	first, last := int64(0), int64(0)
	for _, m := range messages {
		if m.RunID == 0 {
			continue
		}
		if first == 0 || m.RunID < first {
			first = m.RunID
		}
		last = max(last, m.RunID)
	}
	if last == 0 {
		return by, nil
	}
	found, err := store.DB().QueryContext(ctx, `SELECT id, model, coalesce(agent, ''), warnings FROM `+rows.Runs+` WHERE conversation_id = ? AND id BETWEEN ? AND ?`, c.Row(), first, last)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer found.Close()
	for found.Next() {
		var id int64
		var a Answered
		var warnings []byte
		if err := found.Scan(&id, &a.Model, &a.Agent, &warnings); err != nil {
			return nil, err
		}
		if err := db.FromJSON(warnings, &a.Warnings); err != nil {
			return nil, err
		}
		by[id] = a
	}
	return by, db.Explain(found.Err())
}

// Read returns the runs that a condition selects, for the packages of the store:
// "WHERE … ORDER BY …" on rows.Runs.
func Read(ctx context.Context, q db.Querier, condition string, args ...any) (list []Record, err error) {
	rows, err := q.QueryContext(ctx, Select+condition, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		run, err := Scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, run)
	}
	return list, rows.Err()
}

// Scan reads a row of Select.
func Scan(rows *sql.Rows) (run Record, err error) {
	var sender, warnings, called []byte
	var finish, instructions, agent sql.NullString
	var started, ended int64
	err = rows.Scan(&run.ID, &run.Kind, &run.Status, &sender, &run.Model, &run.Rounds, &run.Prompt, &run.Cached, &run.Completion,
		&run.Messages, &run.Error, &finish, &run.NewConversation, &instructions, &agent, &warnings, &called, &started, &ended, &run.Cost)
	if err != nil {
		return run, err
	}
	run.FinishReason, run.Instructions, run.Agent = steps.FinishReason(finish.String), instructions.String, agent.String
	run.StartedAt, run.EndedAt = db.FromMillis(started), db.FromMillis(ended)
	if len(sender) > 0 {
		if err := json.Unmarshal(sender, &run.Asked); err != nil {
			return run, err
		}
	}
	if err := db.FromJSON(warnings, &run.Warnings); err != nil {
		return run, err
	}
	run.Steps, err = steps.Decode(called, run.Model, run.StartedAt)
	return run, err
}
