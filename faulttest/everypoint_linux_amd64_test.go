package faulttest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools/mcp/mcptest"
)

// jobWorld is a world in which one person after the other, each in a chat of their own, sends a file and has a job done: the model
// calls tools in two rounds, the first of which sets a reminder, and the second of which needs an approval. Its answer is shown
// while it is written, and then the reminder is due.
type jobWorld struct {
	*world
	disk   *storage
	folder string // that the tool server writes into
	gate   *callGate

	p        *gatewaytest.Process
	job      int               // the number of the latest, which is its chat, too
	approved map[string]bool   // questions that were answered, by chat and number
	files    []string          // SHA-256 of what people have sent
	told     map[string]string // by call, the result that the model read; under mu of the world
}

func newJobWorld(t *testing.T) *jobWorld {
	j := &jobWorld{folder: t.TempDir(), approved: map[string]bool{}, told: map[string]string{}}
	s := settings{platform: func(w *world) platform {
		on := newTelegram(w)
		j.gate = newCallGate(t, w.telegram)
		return on
	}}
	j.world, j.disk = newStoredWorld(t, s)
	server, err := mcptest.Section("shop", "plain", j.folder, "[mcp.shop.tools.order]\nkey = true\n[mcp.shop.tools.pay]\napprove = \"ask\"")
	j.must(err)
	j.gw.Configure(j.config(settings{}) + server)
	j.model.Quiet()
	j.model.Reply(j.answer)
	j.p = j.startServing()
	j.doJob(func(int) {}) // from now on the gateway knows the server's tools
	return j
}

// jobCalls are the tool calls of a job, by round.
func jobCalls(job string) [][]llm.ToolCall {
	call := func(tool, arguments string) llm.ToolCall {
		return llm.ToolCall{ID: tool + "-" + job, Name: tool, Arguments: arguments}
	}
	id := fmt.Sprintf(`{"id": %q}`, job)
	return [][]llm.ToolCall{
		{call("shop_look", id), call("shop_order", id), call("remind", fmt.Sprintf(`{"text": "stand up, %s", "in_minutes": 0.001}`, job))},
		{call("shop_pay", id)},
	}
}

func (j *jobWorld) answer(c llmtest.Call) llmtest.Answer {
	job := jobName.FindString(c.LastUser())
	if strings.Contains(c.LastUser(), "stand up") {
		return llmtest.Answer{Text: "stood up, " + job}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	round := 0
	for _, m := range c.Messages {
		if len(m.ToolCalls) > 0 {
			round++
		}
		if m.Role != "tool" {
			continue
		}
		if before, known := j.told[m.ToolCallID]; known && before != m.Content {
			j.t.Errorf("the model is told of %s first %q and then %q", m.ToolCallID, before, m.Content)
		}
		j.told[m.ToolCallID] = m.Content
	}
	if calls := jobCalls(job); round < len(calls) {
		return llmtest.Answer{ToolCalls: calls[round]}
	}
	return llmtest.Answer{Text: "done, " + job, Pieces: 5, ChunkDelay: 450 * time.Millisecond}
}

// doJob gives the next job, and starts the gateway again when it dies, until the job is done. It calls prepare with 0 before the job
// is given, and with the number of deaths before each further start: prepare decides when the gateway dies. doJob returns how often
// it died, and checks that all was done once.
func (j *jobWorld) doJob(prepare func(deaths int)) (deaths int) {
	j.t.Helper()
	j.job++
	chat, job := j.job, fmt.Sprintf("job%d", j.job)
	data := []byte(job)
	if j.job%2 == 0 {
		data = append(data, make([]byte, 1<<20)...) // it is kept beside the database
	}
	hash := sha256.Sum256(data)
	j.files = append(j.files, hex.EncodeToString(hash[:]))
	prepare(0)
	j.telegram.Say(telegramtest.Private(person(chat)), person(chat), job, telegramtest.WithDocument("plan.bin", "application/octet-stream", data))
	again := map[string]int{} // by text, how often it may come again
	gatewaytest.Await(j.t, job, func() bool {
		if j.p.HasEnded() {
			deaths++
			j.spare()
			j.awaitClosedConnections()
			prepare(deaths)
			due := strings.Join(j.dueNow(), "\n")
			for _, text := range replies(job) {
				if j.said(chat, text) > 0 && strings.Contains(due, text) {
					again[text]++ // it died before the mark
				}
			}
			gatewaytest.Await(j.t, "the end of the server", func() bool { return len(mcptest.Alive(j.folder)) == 0 })
			j.p = j.start()
			return false
		}
		j.approve(chat)
		if j.said(chat, "done, "+job) == 0 || j.said(chat, "stood up, "+job) == 0 {
			return false
		}
		if j.spare() { // it dies as the last reply is taken
			gatewaytest.Await(j.t, "the death of the gateway", j.p.HasEnded)
			return false
		}
		return true
	})
	j.expectDone(chat, job, again)
	// A preview is left behind if the gateway died before it stored which message that is.
	if left := slices.DeleteFunc(j.platform.sent(chat), func(m string) bool { return !strings.HasSuffix(m, telegramPreview) }); len(left) > deaths {
		j.t.Errorf("%d previews are left behind after %d deaths: %q", len(left), deaths, left)
	}
	return deaths
}

// spare lets the gateway live from now on, and reports whether it dies or has died.
func (j *jobWorld) spare() bool {
	byDisk, byGate := j.disk.spare(), j.gate.spare()
	return byDisk || byGate
}

// replies are what the chat of a job is told.
func replies(job string) []string {
	return []string{"May I do this?", "done, " + job, "stood up, " + job}
}

// said returns how many messages to a chat contain a text. The beginnings of answers are left out.
func (j *jobWorld) said(chat int, text string) (n int) {
	for _, m := range j.platform.sent(chat) {
		if strings.Contains(m, text) && !strings.HasSuffix(m, telegramPreview) {
			n++
		}
	}
	return n
}

var question = regexp.MustCompile(`/approve (\d+)`)

// approve answers each question in a chat once.
func (j *jobWorld) approve(chat int) {
	for _, m := range j.platform.sent(chat) {
		found := question.FindStringSubmatch(m)
		if found == nil || j.approved[strconv.Itoa(chat)+" "+found[1]] {
			continue
		}
		j.approved[strconv.Itoa(chat)+" "+found[1]] = true
		j.telegram.Say(telegramtest.Private(person(chat)), person(chat), found[0])
	}
}

// expectDone checks what a job has left behind.
func (j *jobWorld) expectDone(chat int, job string, again map[string]int) {
	j.t.Helper()
	for _, text := range replies(job) {
		if n := j.said(chat, text); n < 1 || n > 1+again[text] {
			j.t.Errorf("chat %d was told %q %d times, want 1 to %d; it was sent %q", chat, text, n, 1+again[text], j.platform.sent(chat))
		}
	}
	gatewaytest.Await(j.t, "the run of the command that approves, which a death may put last", func() bool {
		return j.count(`SELECT count(*) FROM inbox WHERE run_id IS NULL`) == 0
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	keys := map[string][]string{}
	for _, effect := range mcptest.Lines(j.folder, "effects") {
		if words := strings.Fields(effect); words[1] == job {
			keys[words[0]] = append(keys[words[0]], strings.Join(words[2:], " "))
		}
	}
	payments, told := len(keys["pay"]), j.told["shop_pay-"+job]
	if isUnknown := strings.HasPrefix(told, "outcome unknown: "); payments > 1 || !isUnknown && (payments != 1 || told != "did pay") {
		j.t.Errorf("%s: paid %d times, and the model was told %q", job, payments, told)
	}
	if told := j.told["shop_look-"+job]; len(keys["look"]) < 1 || told != "did look" {
		j.t.Errorf("%s: looked %d times, and the model was told %q", job, len(keys["look"]), told)
	}
	if told := j.told["shop_order-"+job]; len(slices.Compact(keys["order"])) != 1 || told != "did order" {
		j.t.Errorf("%s: ordered with the keys %q, and the model was told %q", job, keys["order"], told)
	}
	session := fmt.Sprintf(`FROM messages m JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id WHERE s.key = '%s'`, j.platform.key(chat))
	for what, query := range map[string]string{
		"messages of the person and the reminder": `SELECT count(*) - 2 ` + session + ` AND role = 'user'`,
		"messages in all":                         `SELECT count(*) - 10 ` + session, // two of the person, four calls in two messages, their results, two answers
		"gaps in the history":                     `SELECT count(*) - max(seq) ` + session,
		"questions left open":                     `SELECT count(*) FROM approvals WHERE state = 'open'`,
		"reminders left":                          `SELECT count(*) FROM reminders`,
		"files of the message":                    `SELECT count(*) - 1 FROM files f JOIN messages m ON m.id = f.message_id JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id WHERE s.key = '` + j.platform.key(chat) + `'`,
	} {
		if n := j.count(query); n != 0 {
			j.t.Errorf("%s: %s: off by %d", job, what, n)
		}
	}
}

// end stops the gateway, and checks the database.
func (j *jobWorld) end() {
	j.t.Helper()
	j.p.Stop()
	j.expectClean()
	db := openSQLite(j.t, j.gw.Database)
	defer db.Close()
	kept := column(j.t, db, `SELECT hash FROM blobs ORDER BY hash`)
	if slices.Sort(j.files); !slices.Equal(kept, j.files) {
		j.t.Errorf("%d files are kept, want %d", len(kept), len(j.files))
	}
	for _, path := range column(j.t, db, `SELECT path FROM blobs WHERE path <> ''`) {
		data, err := os.ReadFile(filepath.Join(j.gw.Database+".files", path))
		hash := sha256.Sum256(data)
		if err != nil || !slices.Contains(j.files, hex.EncodeToString(hash[:])) {
			j.t.Errorf("a file is not kept as it was sent: %d bytes, %v", len(data), err)
		}
	}
}

// callGate stands before the platform, and kills the gateway at a given request.
type callGate struct {
	mu    sync.Mutex
	calls int    // since the latest call of strikeAt
	at    int    // the request at which the gateway is killed; 0: none
	taken bool   // the platform has taken the request, else it never comes there
	kill  func() // kills the gateway
}

// newCallGate puts a gate before the server: the adapter, which is not yet configured, goes through it.
func newCallGate(t *testing.T, server *telegramtest.Server) *callGate {
	t.Helper()
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	g := &callGate{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{DisableKeepAlives: true} // awaitClosedConnections counts the server's
	proxy.ErrorLog = log.New(io.Discard, "", 0)                // a killed gateway ends its requests
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kill, taken := g.pass(r.URL.Path)
		if kill == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		if taken {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		kill()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(gate.Close)
	server.URL = gate.URL
	return g
}

// strikeAt has the gateway killed at the n-th request from now on, polls aside: before the platform gets it, or when it has taken
// it and not yet answered.
func (g *callGate) strikeAt(n int, taken bool, kill func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls, g.at, g.taken, g.kill = 0, n, taken, kill
}

// spare lets the gateway live from now on, and reports whether it dies or has died.
func (g *callGate) spare() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	struck := g.at > 0 && g.calls >= g.at
	g.at = 0
	return struck
}

func (g *callGate) pass(path string) (kill func(), taken bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if strings.HasSuffix(path, "/getUpdates") || !strings.Contains(path, "/bot") {
		return nil, false
	}
	if g.calls++; g.calls != g.at {
		return nil, false
	}
	return g.kill, g.taken
}

// everyPoint calls at with points from 1 on until it returns false. Without FAULT_POINTS=all these are about so many points, spread
// over the first of most.
func everyPoint(t *testing.T, sample, most int, at func(point int) bool) {
	t.Helper()
	step := 1
	if os.Getenv("FAULT_POINTS") != "all" {
		step = max(1, most/sample)
	}
	point := 1
	if step > 1 {
		seed := fromEnv(t, "FAULT_SEED", time.Now().UnixNano())
		t.Logf("FAULT_SEED=%d", seed)
		point += rand.New(rand.NewPCG(uint64(seed), 5)).IntN(step)
	}
	for ; at(point); point += step {
		if t.Failed() {
			t.Fatalf("failed at point %d", point)
		}
	}
	t.Logf("every %d. of %d points", step, point-1)
}

// writesOfJob returns how many writes and syncs a job takes.
func (j *jobWorld) writesOfJob() int {
	j.t.Helper()
	j.disk.strikeAt(0)
	j.doJob(func(int) {})
	return j.disk.written()
}

// TestKilledBeforeEachWrite kills the gateway before each write and sync of a job.
func TestKilledBeforeEachWrite(t *testing.T) {
	t.Parallel()
	j := newJobWorld(t)
	everyPoint(t, 6, j.writesOfJob(), func(point int) bool {
		return j.doJob(func(deaths int) {
			if deaths == 0 {
				j.disk.strikeAt(point)
			}
		}) > 0
	})
	j.end()
}

// TestKilledBeforeEachWriteOfTheNextStart kills the gateway somewhere in a job, and then before each write and sync of the start
// after that, and of the rest of the job.
func TestKilledBeforeEachWriteOfTheNextStart(t *testing.T) {
	t.Parallel()
	j := newJobWorld(t)
	writes := j.writesOfJob()
	everyPoint(t, 3, writes, func(point int) bool {
		return j.doJob(func(deaths int) {
			switch deaths {
			case 0:
				j.disk.strikeAt(1 + rand.IntN(writes/2))
			case 1:
				j.disk.strikeAt(point)
			}
		}) > 1
	})
	j.end()
}

// TestPowerFailsBeforeEachWrite fails the power before each write and sync of a job: no tool that must not is called twice, either.
func TestPowerFailsBeforeEachWrite(t *testing.T) {
	t.Parallel()
	j := newJobWorld(t)
	everyPoint(t, 4, j.writesOfJob(), func(point int) bool {
		return j.doJob(func(deaths int) {
			if deaths == 0 {
				j.disk.strikeAt(point)
			} else {
				j.disk.failPower(tornAt(point))
			}
		}) > 0
	})
	j.end()
}

// TestKilledAroundEachCall kills the gateway before and after the platform takes each of its requests.
func TestKilledAroundEachCall(t *testing.T) {
	t.Parallel()
	for name, taken := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJobWorld(t)
			everyPoint(t, 3, 9, func(point int) bool {
				return j.doJob(func(deaths int) {
					if deaths == 0 {
						j.gate.strikeAt(point, taken, j.p.Kill)
					}
				}) > 0
			})
			j.end()
		})
	}
}
