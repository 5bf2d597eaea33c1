package faulttest

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools/mcp/mcptest"
)

// toolWorld is a world whose model answers each message "jobN" with three rounds of calls of an MCP
// server's tools, and then in words. The tool look may be repeated, order takes an idempotency key, and
// pay must never be repeated. The server is a program that records each effect.
type toolWorld struct {
	*world
	folder string // that the server writes into
	server string // its section of the configuration

	// Under mu of the world:
	steps []modelCall
	told  map[string]string // by call, the result that the model read
	early []string          // effects, as they were when the model read all results of their round
}

// modelCall is a call of the model. The answer in round 0 requests the first tools of a job.
type modelCall struct {
	job            string
	round, process int
	begun          bool // a tool of the round was called already
}

const toolRounds = 3

func newToolWorld(t *testing.T, kind string) *toolWorld {
	s := &toolWorld{world: newWorld(t, settings{}), folder: t.TempDir(), told: map[string]string{}}
	var err error
	s.server, err = mcptest.Section("shop", kind, s.folder, "[mcp.shop.tools.order]\nkey = true")
	s.must(err)
	s.model.Reply(s.answer)
	s.model.Quiet()
	return s
}

// open starts a gateway whose model calls name the process.
func (s *toolWorld) open() *gatewaytest.Process {
	s.t.Helper()
	config := strings.Replace(s.config(settings{}), "[llm]\n", fmt.Sprintf("[llm]\nmodel = \"process-%d\"\n", s.process+1), 1)
	config = strings.Replace(config, "[agent]\n", "[agent]\nmax_parallel_tools = 2\n", 1)
	s.gw.Configure(config + s.server)
	return s.startServing()
}

// listTools runs the gateway until it knows the tools of the server, which it stores: the
// model is offered them from the first message on.
func (s *toolWorld) listTools() {
	s.t.Helper()
	p := s.open()
	s.awaitLog("MCP server ready")
	p.Stop()
}

// callsOf returns the tool calls that the model requests in a round of a job. Those of the last round
// only read.
func callsOf(job string, round int) (list []llm.ToolCall) {
	tools := []string{"pay", "look", "order"}
	if round == toolRounds-1 {
		tools = []string{"look"}
	}
	for i, tool := range tools {
		id := fmt.Sprintf("%s-%d", job, round)
		list = append(list, llm.ToolCall{ID: tool + "-" + id, Name: "shop_" + tool, Arguments: fmt.Sprintf(`{"id": %q, "ms": %d}`, id, 5*i)})
	}
	return list
}

var jobName = regexp.MustCompile(`job\d+`)

// answer answers a call of the model, and records the results that the model was told.
func (s *toolWorld) answer(c llmtest.Call) llmtest.Answer {
	job := jobName.FindString(c.LastUser())
	round := 0
	results := map[string]string{}
	for _, m := range c.Messages {
		if len(m.ToolCalls) > 0 {
			round++
		}
		if m.Role == "tool" {
			results[m.ToolCallID] = m.Content
		}
	}
	var process int
	_, _ = fmt.Sscanf(c.Model, "process-%d", &process) // 0 shows in the check
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.effects()
	begun := slices.ContainsFunc(done, func(e string) bool { return strings.Contains(e+" ", fmt.Sprintf(" %s-%d ", job, round)) })
	s.steps = append(s.steps, modelCall{job, round, process, begun})
	for id, text := range results {
		if before, known := s.told[id]; known && before != text {
			s.t.Errorf("the model is told of %s first %q and then %q", id, before, text)
		}
		s.told[id] = text
	}
	for _, e := range done {
		if round > 0 && strings.Contains(e+" ", fmt.Sprintf(" %s-%d ", job, round-1)) {
			s.early = append(s.early, e)
		}
	}
	if round < toolRounds {
		return llmtest.Answer{ToolCalls: callsOf(job, round)}
	}
	return llmtest.Answer{Text: "re " + job}
}

// effects returns the effects of the server's tools in order, each as tool, call and key.
func (s *toolWorld) effects() []string { return mcptest.Lines(s.folder, "effects") }

// events returns the number of model calls and effects so far.
func (s *toolWorld) events() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.steps) + len(s.effects())
}

// TestToolCallsKilledAtRandom kills the gateway repeatedly at random steps of runs with tool calls.
func TestToolCallsKilledAtRandom(t *testing.T) {
	t.Parallel()
	s := newToolWorld(t, "plain")
	kills, seed := fromEnv(t, "FAULT_KILLS", 6), fromEnv(t, "FAULT_SEED", time.Now().UnixNano())
	t.Logf("FAULT_KILLS=%d FAULT_SEED=%d", kills, seed)
	random := rand.New(rand.NewPCG(uint64(seed), 2))
	s.listTools()
	for range kills {
		s.giveJobs(3)
		p := s.open()
		s.awaitStep(p, random)
		s.killInAStep(p)
		gatewaytest.Await(t, "the end of the server", func() bool { return len(mcptest.Alive(s.folder)) == 0 })
	}
	p := s.open()
	s.awaitStored()
	s.awaitAllAnswered()
	p.Stop()
	s.expectClean()
	s.expectNothingPaidTwice()
	s.expectEffects()
	t.Logf("%d jobs, %d model calls, %d effects", len(s.said), len(s.steps), len(s.effects()))
}

// giveJobs has people write, each in a new chat, until a number of messages wait for their answers.
func (s *toolWorld) giveJobs(waiting int) {
	for chat := range s.said {
		if !s.answered(chat, s.said[chat][0]) {
			waiting--
		}
	}
	for ; waiting > 0; waiting-- {
		chat := len(s.said) + 1
		s.say(chat, fmt.Sprintf("job%d", chat))
	}
}

// awaitStep waits for a random number of events since the start of a process, or until all messages
// are answered.
func (s *toolWorld) awaitStep(p *gatewaytest.Process, random *rand.Rand) {
	s.t.Helper()
	from, some := s.events(), 1+random.IntN(15)
	gatewaytest.Await(s.t, "a step of a run", func() bool {
		return p.HasEnded() || s.events() >= from+some || s.count(`SELECT count(*) FROM inbox WHERE run_id IS NULL`) == 0 && s.platform.unstored() == 0
	})
	time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
	if p.HasEnded() {
		s.t.Fatalf("the gateway ended by itself: %s", p.Stderr)
	}
}

// killInAStep kills a process in whatever step its runs are. It first lets a run finish its step if two processes have
// died in it, since the run would be given up after the third. If the process resumed such a run right before the kill,
// the counted deaths are reset.
func (w *world) killInAStep(p *gatewaytest.Process) {
	w.t.Helper()
	const most = `SELECT coalesce(max(tries), 0) FROM journals`
	gatewaytest.Await(w.t, "a further step", func() bool { return p.HasEnded() || w.count(most) < 2 })
	p.Kill()
	died := ""
	w.inCopy(func(db *sql.DB) { died = column(w.t, db, most)[0] })
	if died < "2" {
		return
	}
	db := openSQLite(w.t, w.gw.Database)
	_, err := db.Exec(`UPDATE journals SET tries = 1 WHERE tries > 1`)
	w.must(errors.Join(err, db.Close()))
}

// expectNothingPaidTwice checks that no model call is repeated once a process has begun the tool calls
// that it requested.
func (s *toolWorld) expectNothingPaidTwice() {
	s.t.Helper()
	slices.SortStableFunc(s.steps, func(a, b modelCall) int {
		return cmp.Or(strings.Compare(a.job, b.job), cmp.Compare(a.process, b.process))
	})
	for i, call := range s.steps {
		if call.begun {
			s.t.Errorf("process %d has the model called for round %d of %s although a tool of that round was called", call.process, call.round, call.job)
		}
		if i == 0 || s.steps[i-1].job != call.job {
			continue
		}
		before := s.steps[i-1]
		if call.round < before.round || call.round == before.round && call.process == before.process {
			s.t.Errorf("%s: round %d in process %d, then round %d in process %d", call.job, before.round, before.process, call.round, call.process)
		}
	}
}

// expectEffects compares the effects of the tools with the results that the model was told.
func (s *toolWorld) expectEffects() {
	s.t.Helper()
	keys := map[string][]string{} // by call
	for _, e := range s.effects() {
		tool, rest, _ := strings.Cut(e, " ")
		id, key, _ := strings.Cut(rest, " ")
		keys[tool+"-"+id] = append(keys[tool+"-"+id], key)
	}
	unknown := 0
	for chat := range s.said {
		for round := range toolRounds {
			for _, call := range callsOf(s.said[chat][0], round) {
				times, told := len(keys[call.ID]), s.told[call.ID]
				isUnknown := strings.HasPrefix(told, "outcome unknown: ")
				switch {
				case call.Name == "shop_pay" && isUnknown && times <= 1:
					unknown++
				case told != "did "+strings.TrimPrefix(call.Name, "shop_"):
					s.t.Errorf("%s was done %d times, and the model was told %q", call.ID, times, told)
				case call.Name == "shop_pay" && times != 1, times < 1:
					s.t.Errorf("%s was done %d times", call.ID, times)
				}
				if distinct := slices.Compact(slices.Sorted(slices.Values(keys[call.ID]))); len(distinct) > 1 || call.Name == "shop_order" && slices.Contains(distinct, "") {
					s.t.Errorf("%s had the keys %q", call.ID, distinct)
				}
			}
		}
	}
	s.expectNoLateEffects()
	s.t.Logf("the model was told of %d calls that their outcome is unknown", unknown)
}

// expectNoLateEffects checks that no call was made again once the model had read its result.
func (s *toolWorld) expectNoLateEffects() {
	s.t.Helper()
	seen := map[string]int{}
	for _, e := range s.effects() {
		seen[e]++
	}
	for _, e := range s.early {
		seen[e]--
	}
	for e, n := range seen {
		if n > 0 {
			s.t.Errorf("%s: done %d times after the model had read its result", e, n)
		}
	}
}

// TestKilledGatewayLeavesNoServer kills a gateway whose server and two of its children ignore the end
// of their input and signals.
func TestKilledGatewayLeavesNoServer(t *testing.T) {
	t.Parallel()
	s := newToolWorld(t, "stubborn")
	s.server = strings.Replace(s.server, "[mcp.shop]\n", "[mcp.shop]\neager = true\n", 1)
	p := s.open()
	gatewaytest.Await(t, "the server and its children", func() bool { return len(mcptest.Alive(s.folder)) == 3 })
	s.awaitLog("MCP server ready")
	p.Kill()
	killed := time.Now()
	gatewaytest.Await(t, "the end of the server and its children", func() bool { return len(mcptest.Alive(s.folder)) == 0 })
	t.Logf("they ended after %s", time.Since(killed).Round(100*time.Millisecond))
}
