package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/conversation/usage"
)

// usage runs `gateway usage`, and returns its lines with single spaces.
func (o *operator) usage(args ...string) (lines []string, err error) {
	var printed strings.Builder
	command := usageCommand(&o.config)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetOut(&printed)
	command.SetArgs(args)
	err = command.ExecuteContext(o.t.Context())
	for line := range strings.Lines(printed.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines, err
}

// An operator sees without a browser what was spent: when, by whom, where, by which agent and model.
func TestUsageShowsWhatWasSpent(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	if got, err := o.usage(); err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "No model has been called since ") {
		t.Errorf("before the first call: %q, %v", got, err)
	}
	text, err := os.ReadFile(o.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.config, append(text, "[llm]\ncurrency = \"EUR\"\n[llm.prices]\nmini = { input = 1.0, output = 10.0 }\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	day := now.UTC().Format(time.DateOnly)
	spend := func(key conversation.Key, id int, who conversation.Sender, model, agent string) {
		in := storetest.Say(key, id, "question")
		in.Sender = who
		storetest.Accept(t, o.daemon, in)
		run := storetest.Answered(key, storetest.Begin(t, o.daemon, key, 1000), "answer")
		run.StartedAt, run.Model, run.Agent, run.Prompt, run.Completion = now, model, agent, 200_000, 20_000
		storetest.Commit(t, o.daemon, run)
	}
	ada, bob := conversation.Sender{ID: "1", Name: "Ada"}, conversation.Sender{ID: "2", Name: "Bob"}
	spend("telegram:chat:1", 1, ada, "mini", "")
	spend("telegram:chat:1", 2, ada, "mini", "coder")
	spend("telegram:chat:2", 3, bob, "dear", "coder")
	storetest.Exec(t, o.daemon, `INSERT INTO background_steps (conversation_id, run_id, step, started_at)
		SELECT conversation_id, id, '{"kind":"model","name":"mini","in":1000,"out":10}', ended_at FROM runs WHERE model = 'dear'`)
	for by, want := range map[string][]string{
		"day":     {"DAY SENT CACHED ANSWERED COST", day + " 600,000 0 60,000 unknown", "total 600,000 0 60,000 unknown"},
		"person":  {"PERSON SENT CACHED ANSWERED COST", "telegram:1 (Ada) 400,000 0 40,000 0.80 EUR", "telegram:2 (Bob) 200,000 0 20,000 unknown", "total 600,000 0 60,000 unknown"},
		"session": {"SESSION SENT CACHED ANSWERED COST", "telegram:chat:1 400,000 0 40,000 0.80 EUR", "telegram:chat:2 201,000 0 20,010 unknown", "total 601,000 0 60,010 unknown"},
		"agent":   {"AGENT SENT CACHED ANSWERED COST", "coder 401,000 0 40,010 unknown", "(none) 200,000 0 20,000 0.40 EUR", "total 601,000 0 60,010 unknown"},
		"model":   {"MODEL SENT CACHED ANSWERED COST", "mini 400,000 0 40,000 0.80 EUR", "dear 200,000 0 20,000 unknown", "total 600,000 0 60,000 unknown"},
	} {
		got, err := o.usage("--by", by, "--days", "2")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("--by %s: %v\n%s", by, err, diff)
		}
	}
	printed, err := o.usage("--by", "model", "--json")
	var read usageJSON
	if err == nil {
		err = json.Unmarshal([]byte(strings.Join(printed, "")), &read)
	}
	if err != nil || read.By != usage.ByModel || len(read.Rows) != 2 || read.Rows[0].Cost == nil || read.Rows[1].Cost != nil || read.Total.PromptTokens != 600_000 {
		t.Errorf("as JSON: %+v, %v", read, err)
	}
	for _, wrong := range [][]string{{"--by", "week"}, {"--days", "0"}, {"--days", "3651"}} {
		if _, err := o.usage(wrong...); err == nil || !strings.Contains(err.Error(), "allowed:") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
