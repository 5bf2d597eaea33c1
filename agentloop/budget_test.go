package agentloop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/budgets"
	"parley/conversation/storetest"
	"parley/llm"
	"parley/llm/llmtest"
)

// fourHoursBeforeMidnight is the time in tests with caps, which are reset at midnight.
var fourHoursBeforeMidnight = time.Date(2026, 5, 1, 20, 0, 0, 0, time.UTC)

// newCapped returns a harness with caps, and the clock of its store.
func newCapped(t *testing.T, c budgets.Config) *harness {
	t.Helper()
	c.Timezone = "UTC"
	store := storetest.New(t, conversation.Config{Now: func() time.Time { return fourHoursBeforeMidnight }})
	caps, err := budgets.Open(t.Context(), store, c)
	if err != nil {
		t.Fatal(err)
	}
	return newHarnessOn(t, store, func(d *Deps) {
		d.Budgets = Budgets{Store: caps, Currency: "EUR", AnswerReserve: 100, Cost: func(_ string, prompt, cached, completion int64) (float64, bool) {
			return float64(prompt+completion) / 1000, true
		}}
	})
}

// answerWithTokens returns an answer for which the server reports a number of tokens.
func answerWithTokens(text string, tokens int) llmtest.Answer {
	return llmtest.Answer{Text: text, Usage: &llm.Usage{Prompt: tokens - 1, Completion: 1}}
}

func TestRunOverBudgetIsToldWhenTheBudgetIsReset(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{SessionTokens: 1000})
	h.server.Script(answerWithTokens("Yes.", 1000))
	if got := h.ask(room, "Are you there?"); !strings.Contains(got, "This chat has used today's 1,000 tokens; more from 00:00 (in 4 h).") || !strings.HasPrefix(got, "Yes.") {
		t.Errorf("the answer that used everything up is\n%s", got)
	}
	const want = "This chat has used today's 1,000 tokens; more from 00:00 (in 4 h).\n\nYour message is kept; /retry answers it then."
	for _, said := range []string{"And now?", "/retry"} {
		if got := h.ask(room, said); got != want {
			t.Errorf("%s is answered with\n%s", said, got)
		}
	}
	if calls := len(h.server.Calls()); calls != 1 {
		t.Errorf("the model was called %d times", calls)
	}
	h.router.deps.Budgets.Store = nil // the next day
	h.server.Script(answerWithTokens("Now I am.", 10))
	if got := h.ask(room, "/retry"); got != "Now I am." {
		t.Errorf("/retry is answered with\n%s", got)
	}
}

func TestResetOfABudgetIsToldInThePersonsTimeZone(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{SessionTokens: 1000})
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	h.router.deps.Budgets.Zone = func(_ context.Context, channel, id string) *time.Location {
		if channel != "cli" || id != "7" {
			return nil
		}
		return tokyo
	}
	ask := func(id, text string) string {
		in := h.inbound(room, text)
		in.Sender.ID = id
		h.accept(in)
		return h.reply(room)
	}
	h.server.Script(answerWithTokens("Yes.", 900))
	const there = "more from 09:00 Asia/Tokyo time (in 4 h)."
	if got := ask("7", "Are you there?"); !strings.HasSuffix(got, "90 % of today's 1,000 tokens; "+there) {
		t.Errorf("warned with\n%s", got)
	}
	h.server.Script(answerWithTokens("Yes.", 100))
	ask("7", "And now?")
	for _, said := range []string{"And now?", "/usage"} {
		if got := strings.ToLower(ask("7", said)); !strings.Contains(got, strings.ToLower(there)) {
			t.Errorf("%s is answered with\n%s", said, got)
		}
	}
	if got := ask("8", "And now?"); !strings.Contains(got, "more from 00:00 (in 4 h).") {
		t.Errorf("somebody else is told\n%s", got)
	}
}

func TestReplyWarnsOnceOfABudget(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{SessionCost: 1})
	h.server.Script(answerWithTokens("One.", 100), answerWithTokens("Two.", 750), answerWithTokens("Three.", 10))
	for _, want := range []string{"One.", "Two.\n\n⚠️ This chat has used 85 % of today's 1.00 EUR; more from 00:00 (in 4 h).", "Three."} {
		if got := h.ask(room, "Go on."); got != want {
			t.Errorf("answered with\n%s\nwant\n%s", got, want)
		}
	}
}

func TestRunOverBudgetKeepsItsFinishedRounds(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{TotalTokens: 500, SessionTokens: 600})
	asked := llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call-1", Name: "current_time", Arguments: "{}"}}, Usage: &llm.Usage{Prompt: 490, Completion: 20}}
	h.server.Script(asked)
	got := h.ask(room, "How late is it?")
	if !strings.Contains(got, "Today's 500 tokens for everybody are used") || !strings.Contains(got, "1 tool call is done (current_time)") ||
		!strings.HasSuffix(got, "⚠️ This chat has used 85 % of today's 600 tokens; more from 00:00 (in 4 h).") {
		t.Errorf("answered with\n%s", got)
	}
	run := h.committed(1)
	if n := len(run.Messages); n != 3 || run.Messages[2].Role != conversation.RoleTool {
		t.Errorf("kept are %+v", run.Messages)
	}
	if last := run.Steps[len(run.Steps)-1]; run.Status != conversation.StatusFailed || last.Failure != string(llm.KindOverBudget) || run.Rounds != 1 {
		t.Errorf("the run is %s with %d calls, its last step %+v", run.Status, run.Rounds, last)
	}
	if !strings.Contains(got, "Your message is kept; /continue goes on with it then; /retry begins again, with all its tool calls.") {
		t.Errorf("it does not say how to go on without the calls:\n%s", got)
	}
	h.router.deps.Budgets.Store = nil // the next day
	h.server.Script(answerWithTokens("Half past nine.", 10), answerWithTokens("09:30.", 10))
	if got := h.ask(room, "/continue"); got != "Half past nine." || !strings.Contains(h.asked(), "tool: Friday") {
		t.Errorf("/continue is answered with\n%s\nasked: %s", got, h.asked())
	}
	if got := h.ask(room, "/retry"); got != "09:30." {
		t.Errorf("/retry is answered with\n%s", got)
	}
}

func TestConcurrentRunsExceedACapByOneCallAtMost(t *testing.T) {
	t.Parallel()
	const most, one, runs = 2000, 300, 50
	h := newCapped(t, budgets.Config{TotalTokens: most})
	h.server.Reply(func(llmtest.Call) llmtest.Answer { return answerWithTokens("Yes.", one) })
	key := func(i int) conversation.Key { return conversation.Key(fmt.Sprintf("cli:room-%d", i)) }
	for i := range runs {
		h.say(key(i), "Are you there?")
	}
	answered := 0
	for i := range runs {
		if strings.HasPrefix(h.reply(key(i)), "Yes.") {
			answered++
		}
	}
	if calls := len(h.server.Calls()); calls != answered || answered*one < most || (answered-1)*one >= most {
		t.Errorf("%d runs were answered by %d calls", answered, calls)
	}
}

func TestCallWithoutReportedUsageIsCounted(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{SessionTokens: 100_000})
	h.server.Script(llmtest.Answer{Text: strings.Repeat("word ", 500), NoUsage: true})
	h.ask(room, "Write a lot.")
	list, err := h.router.deps.Budgets.Store.Of(t.Context(), "", room)
	if err != nil || list[0].Used < 500 {
		t.Errorf("used are %+v: %v", list, err)
	}
}

// A server that reports no usage lets a model think for long: the budget is charged for the thoughts, and also for those of a
// call that somebody stops before the first word.
func TestThoughtsAreCountedWithoutReportedUsage(t *testing.T) {
	t.Parallel()
	thought := strings.Repeat("Let me think about that. ", 200)
	for name, answer := range map[string]llmtest.Answer{
		"answered": {Reasoning: thought, Text: "Yes.", NoUsage: true},
		"stopped":  {Reasoning: thought, Text: "Yes.", HoldAt: 2, Hold: make(chan struct{})},
	} {
		h := newCapped(t, budgets.Config{SessionTokens: 1_000_000})
		h.server.Script(answer)
		h.say(room, "Are you sure?")
		if answer.Hold != nil {
			until(t, "the model thinks", func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return h.thought[room] != ""
			})
			h.say(room, "/stop")
		}
		h.reply(room)
		used, err := h.deps.Budgets.Store.Of(t.Context(), "", room)
		if err != nil || used[0].Used < 1000 {
			t.Errorf("%s: %+v, %v", name, used, err)
		}
	}
}

// A model thinks up to its limit of tokens and answers nothing: /usage and the statistics show what that has cost.
func TestFailedCallCountsInTheSumsOfItsRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(llmtest.Answer{Reasoning: "Let me think.", FinishReason: "length", Usage: &llm.Usage{Prompt: 9, Cached: 4, Completion: 100}})
	h.ask(room, "Are you sure?")
	h.mu.Lock()
	defer h.mu.Unlock()
	if run := h.runs[0]; run.Status != conversation.StatusFailed || run.Prompt != 9 || run.Cached != 4 || run.Completion != 100 {
		t.Errorf("the run is %s, with %d tokens of the prompt, %d of them cached, and %d of the answer", run.Status, run.Prompt, run.Cached, run.Completion)
	}
}

func TestRequestWithoutSessionIsOverBudget(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{TotalTokens: 10})
	h.server.Script(answerWithTokens("Yes.", 10))
	request := llm.Request{Messages: []llm.Message{{Role: "user", Content: "Are you there?"}}}
	if _, err := h.router.Complete(t.Context(), "", request, nil); err != nil {
		t.Fatal(err)
	}
	_, err := h.router.Complete(t.Context(), "", request, nil)
	var failed *llm.Error
	if !errors.As(err, &failed) || failed.Kind != llm.KindOverBudget || failed.RetryAfter != 4*time.Hour {
		t.Errorf("the second call: %v", err)
	}
}

func TestUsageShowsWhatIsUsedOfTheCaps(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{PersonTokens: 2000, SessionCost: 5, TotalTokens: 1_000_000})
	h.server.Script(answerWithTokens("Yes.", 1500))
	ask := func(text string) string {
		in := h.inbound(room, text)
		in.Sender = conversation.Sender{ID: "ann", Name: "Ann"}
		h.accept(in)
		return h.reply(room)
	}
	ask("Are you there?")
	want := strings.Join([]string{
		"- **You:** 1,500 tokens (1.50 EUR) today, 1,500 tokens (1.50 EUR) this month",
		"- **This chat:** 1,500 tokens (1.50 EUR) today, 1,500 tokens (1.50 EUR) this month",
		"- **Your cap:** 75 % of 2,000 tokens a day",
		"- **Cap of this chat:** 30 % of 5.00 EUR a day",
		"- **Cap for everybody:** 0 % of 1,000,000 tokens a day",
		"",
		"More from 00:00 (in 4 h).",
	}, "\n")
	if got := ask("/usage"); got != want {
		t.Errorf("/usage shows\n%s\nwant\n%s", got, want)
	}
}

func TestUsageWithoutCaps(t *testing.T) {
	t.Parallel()
	store := storetest.New(t, conversation.Config{Now: func() time.Time { return fourHoursBeforeMidnight }})
	h := newHarnessOn(t, store, nil)
	h.server.Script(answerWithTokens("Yes.", 1500))
	for _, step := range []struct{ say, want string }{
		{"Are you there?", "Yes."},
		{"/usage", "- **You:** 1,500 tokens today, 1,500 tokens this month\n- **This chat:** 1,500 tokens today, 1,500 tokens this month\n\nDays begin at 00:00 UTC. There are no caps."},
	} {
		in := h.inbound(room, step.say)
		in.Sender = conversation.Sender{ID: "ann", Name: "Ann"}
		h.accept(in)
		if got := h.reply(room); got != step.want {
			t.Errorf("%s is answered with\n%s", step.say, got)
		}
	}
}

func TestUsageIsWhatTheServerReports(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{SessionTokens: 1 << 40, TotalCost: 1e9})
	runs, random := 100, rand.New(rand.NewPCG(3, 4))
	if testing.Short() {
		runs = 30
	}
	want, all := map[conversation.Key]int64{}, int64(0)
	for i := range runs {
		key := conversation.Key(fmt.Sprintf("cli:room-%d", random.IntN(3)))
		var answers []llmtest.Answer
		for last := random.IntN(3); last >= 0; last-- {
			answer := answerWithTokens("Yes.", 1+random.IntN(10_000))
			if last > 0 {
				answer.Text, answer.ToolCalls = "", []llm.ToolCall{{ID: fmt.Sprintf("call-%d-%d", i, last), Name: "current_time", Arguments: "{}"}}
			}
			used := int64(answer.Usage.Prompt + answer.Usage.Completion)
			want[key], all = want[key]+used, all+used
			answers = append(answers, answer)
		}
		h.server.Script(answers...)
		if got := h.ask(key, "Are you there?"); got != "Yes." {
			t.Fatalf("answered with %q", got)
		}
	}
	for key, tokens := range want {
		today, month, err := h.router.deps.Budgets.Store.Sums(t.Context(), budgets.Session, string(key))
		if err != nil || today.Tokens != tokens || month != today || today.Cost != tokens*1_000_000 {
			t.Errorf("%s has used %+v, want %d tokens: %v", key, today, tokens, err)
		}
	}
	if total, _, err := h.router.deps.Budgets.Store.Sums(t.Context(), budgets.Total, ""); err != nil || total.Tokens != all {
		t.Errorf("in total %+v, want %d tokens: %v", total, all, err)
	}
}
