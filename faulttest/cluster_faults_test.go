package faulttest

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation/dbfile"
	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/llm/llmtest"
)

// The tests of this file break parts of a cluster of real gateways on a real PostgreSQL server while programs send
// messages. FAULT_CLUSTER_ROUNDS sets how often.

// gateways are several gateways on one database.
type gateways struct {
	t     *testing.T
	url   string // of the database, past any proxy
	db    *sql.DB
	model *llmtest.Server
	nodes []*node

	mu   sync.Mutex
	said map[string][]string // by session, what programs wrote, in order
}

// newCluster makes a gateway for each URL of the database, and starts them.
func newCluster(t *testing.T, url string, urls ...string) *gateways {
	t.Helper()
	return newClusterWith(t, "", url, urls...)
}

// newClusterWith is newCluster with further sections of the configuration.
func newClusterWith(t *testing.T, sections, url string, urls ...string) *gateways {
	t.Helper()
	g := &gateways{t: t, url: url, model: llmtest.New(t), said: map[string][]string{}}
	g.model.Quiet()
	g.model.Reply(answerTo)
	for _, own := range urls {
		n := &node{programs: newPrograms(&world{t: t}).(programs)}
		n.Gateway = gatewaytest.New(t, gatewaytest.Options{Database: own, Config: fmt.Sprintf(
			"[log]\nlevel = \"debug\"\n[llm]\nbase_url = %q\n[http]\nlisten = %q\nauth = \"none\"\n%s", g.model.URL(), n.listen, sections)})
		n.start()
		g.nodes = append(g.nodes, n)
	}
	db, err := dbfile.OpenURL(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	g.db = db
	gatewaytest.Await(t, "the nodes", func() bool {
		var n int // stays 0 until the first gateway has created the tables
		return g.db.QueryRowContext(context.Background(), servingNodes).Scan(&n) == nil && n == len(urls)
	})
	g.awaitReady()
	return g
}

// awaitReady waits until all gateways have started: one that starts answers what it finds waiting.
func (g *gateways) awaitReady() {
	g.t.Helper()
	for _, n := range g.nodes {
		gatewaytest.Await(g.t, "a gateway to be ready", func() bool { status, _ := n.ready(); return status == http.StatusOK })
	}
}

// servingNodes counts the gateways that serve.
const servingNodes = `SELECT count(*) FROM nodes WHERE dead_at IS NULL AND command = 'run'`

// deadNodes counts the gateways that were declared dead.
const deadNodes = `SELECT count(*) FROM nodes WHERE dead_at IS NOT NULL AND command = 'run'`

func (g *gateways) count(query string) (n int) {
	g.t.Helper()
	if err := g.db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

// post sends a message to one node after the other, from number first on, until it is answered.
func (g *gateways) post(first int, session, text string) {
	g.mu.Lock()
	g.said[session] = append(g.said[session], text)
	g.mu.Unlock()
	postToAny(g.t, g.nodes, first, session, text)
}

// talk has programs send messages in several sessions until the returned function is called, which waits for the last
// answers.
func (g *gateways) talk(sessions int) (quiet func()) {
	end := make(chan struct{})
	var talking sync.WaitGroup
	for s := range sessions {
		talking.Go(func() {
			for i := 0; ; i++ {
				g.post(s+i, fmt.Sprint("api:task-", s), fmt.Sprintf("s%dm%d", s, i))
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(end)
		talking.Wait()
	})
}

// answeredMore waits until n further messages are answered.
func (g *gateways) answeredMore(n int) {
	g.t.Helper()
	const done = `SELECT count(*) FROM runs WHERE status = 'done'`
	goal := g.count(done) + n
	gatewaytest.Await(g.t, "answers", func() bool { return g.count(done) >= goal })
}

// expectOnce checks that the messages of each session are stored once and in order, and that its answers name each once.
func (g *gateways) expectOnce() {
	g.t.Helper()
	for session, want := range g.said {
		var said, named []string
		for _, text := range contents(g.t, g.url, session) {
			if of, is := strings.CutPrefix(text, "re "); is {
				named = append(named, strings.Fields(of)...)
			} else {
				said = append(said, text)
			}
		}
		if !slices.Equal(said, want) || !slices.Equal(named, want) {
			g.t.Errorf("%s: stored are %q, the answers name %q, want %q", session, said, named, want)
		}
	}
}

const roundsVariable = "FAULT_CLUSTER_ROUNDS"

func clusterRounds(t *testing.T, byDefault int64) int {
	return int(fromEnv(t, roundsVariable, byDefault))
}

// isTorture reports whether the tests are to take as long as it takes.
func isTorture() bool { return os.Getenv(roundsVariable) != "" }

// tries calls try for each round, and then twice more unless it has returned true: a gateway that a busy machine starves
// is as good as dead.
func (g *gateways) tries(what string, try func(round int) bool) {
	g.t.Helper()
	rounds, ok := clusterRounds(g.t, 1), false
	for round := 0; round < rounds || !ok && round < rounds+2; round++ {
		ok = try(round) || ok
	}
	if !ok {
		g.t.Errorf("never: %s", what)
	}
}

// Every two seconds, one of three gateways is killed under load and started anew.
func TestClusterLosesRandomGateways(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	g := newCluster(t, url, url, url, url)
	quiet := g.talk(6)
	defer quiet()
	for range clusterRounds(t, 3) {
		g.answeredMore(1)
		n := g.nodes[rand.IntN(len(g.nodes))]
		n.process.Kill()
		time.Sleep(2 * time.Second) // the load goes on meanwhile
		n.start()
	}
	g.answeredMore(1)
	quiet()
	g.expectOnce()
}

// The owner of a session is killed at each step of handling a message, while another gateway accepts the next message.
func TestClusterLosesOwnersAtEachStep(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	g := newCluster(t, url, url, url)
	const session = "api:task"
	for round := range clusterRounds(t, 1) {
		for i, hold := range []func(text string) (reached func(), release func()){g.holdModelCall, g.holdStream, g.holdCommit} {
			first, second := fmt.Sprintf("r%dm%d", round, 2*i), fmt.Sprintf("r%dm%d", round, 2*i+1)
			reached, release := hold(first)
			var talking sync.WaitGroup
			talking.Go(func() { g.post(0, session, first) })
			reached()
			talking.Go(func() { g.post(1, session, second) })
			gatewaytest.Await(t, "the message that another gateway accepts", func() bool {
				return g.count(`SELECT count(*) FROM inbox WHERE text = '`+second+`'`) == 1
			})
			owner := g.owner(session)
			owner.process.Kill()
			release()
			talking.Wait()
			owner.start()
		}
	}
	g.expectOnce()
}

// owner returns the node that works a session.
func (g *gateways) owner(session string) *node {
	g.t.Helper()
	var url string
	err := g.db.QueryRowContext(context.Background(), `SELECT n.url FROM sessions s JOIN nodes n ON n.id = s.owner WHERE s.key = ?`, session).Scan(&url)
	if err != nil {
		g.t.Fatalf("the owner of %s: %v", session, err)
	}
	for _, n := range g.nodes {
		if strings.HasSuffix(url, n.listen[strings.LastIndex(n.listen, ":"):]) {
			return n
		}
	}
	g.t.Fatalf("no gateway listens at %s", url)
	return nil
}

// holdModelCall holds the first call of the model about a text.
func (g *gateways) holdModelCall(text string) (reached, release func()) {
	held := newGate(g.t)
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.LastUser(), text) {
			held.pass()
		}
		return answerTo(c)
	})
	return func() { g.await(held) }, held.Open
}

// holdStream stops the first answer to a text in its middle.
func (g *gateways) holdStream(text string) (reached, release func()) {
	begun := newGate(g.t) // tells that the model is called, and blocks nobody
	begun.Open()
	var once sync.Once
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		a := answerTo(c)
		if strings.Contains(c.LastUser(), text) {
			once.Do(func() { a.Pieces, a.ChunkDelay = 2, time.Hour })
			begun.pass()
		}
		return a
	})
	return func() { g.await(begun) }, func() {}
}

// holdCommit keeps all gateways from storing runs once the model has answered a text.
func (g *gateways) holdCommit(text string) (reached, release func()) {
	answered := newGate(g.t)
	answered.Open()
	conn, err := g.db.Conn(context.Background())
	if err != nil {
		g.t.Fatal(err)
	}
	exec := func(statement string) {
		if _, err := conn.ExecContext(context.Background(), statement); err != nil {
			g.t.Error(err)
		}
	}
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.LastUser(), text) {
			answered.pass()
		}
		return answerTo(c)
	})
	exec(`BEGIN; LOCK TABLE runs IN SHARE MODE`) // they can still read, and store arriving messages
	reached = func() {
		g.await(answered)
		gatewaytest.Await(g.t, "the commit", func() bool {
			return g.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = CAST('runs' AS regclass)`) > 0
		})
	}
	release = sync.OnceFunc(func() {
		exec(`ROLLBACK`)
		conn.Close()
	})
	g.t.Cleanup(release)
	return reached, release
}

func (g *gateways) await(held *gate) { (&world{t: g.t}).awaitReached("the model call", held) }

// PostgreSQL crashes and recovers, and later is away for longer than a membership lasts. No gateway is declared dead, and
// messages from the meantime are answered.
func TestClusterSurvivesARestartOfPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Options{Fsync: true})
	url := server.Database(t)
	g := newCluster(t, url, url, url)
	quiet := g.talk(4)
	defer quiet()
	times := []time.Duration{0, 8 * time.Second}
	if isTorture() {
		times = append(times, 30*time.Second)
	}
	for range clusterRounds(t, 1) {
		for _, away := range times {
			dead := -1
			for tries := 0; dead != 0 && tries < 3; tries++ { // a gateway may also count as dead since the machine is busy
				g.answeredMore(4)
				before := g.count(deadNodes)
				server.Stop(t, "immediate")
				time.Sleep(away)
				server.Start(t)
				gatewaytest.Await(t, "the server", func() bool { return g.db.PingContext(context.Background()) == nil })
				g.answeredMore(4)
				dead = g.count(deadNodes) - before
			}
			if dead > 0 {
				t.Errorf("%d gateways were declared dead", dead)
			}
		}
	}
	quiet()
	g.expectOnce()
}

// One gateway loses the database while programs still reach it: the other one takes its sessions over, and the first one
// stores nothing any more.
func TestClusterTakesOverFromAGatewayWithoutDatabase(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	g := newCluster(t, url, proxy.URL(), url)
	for round := range clusterRounds(t, 1) {
		for i, cut := range []func(){proxy.Interrupt, proxy.Hang} {
			text := fmt.Sprintf("r%dm%d", round, i)
			reached, release := g.holdModelCall(text)
			before := g.count(deadNodes)
			var talking sync.WaitGroup
			talking.Go(func() { g.post(0, "api:task", text) })
			reached()
			cut()
			gatewaytest.Await(t, "the end of the first gateway's membership", func() bool { return g.count(deadNodes) > before })
			release()
			talking.Wait()
			proxy.Resume()
			gatewaytest.Await(t, "the return of the first gateway", func() bool { return g.count(servingNodes) == 2 })
		}
	}
	g.expectOnce()
}

// Three gateways store messages of one session at the same time.
func TestClusterStoresMessagesOfOneSessionFromAllGateways(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	g := newCluster(t, url, url, url, url)
	const each = 8
	var talking sync.WaitGroup
	for n := range g.nodes {
		talking.Go(func() {
			for i := range each * clusterRounds(t, 1) {
				postToAny(t, g.nodes, n, "api:task", fmt.Sprintf("n%dm%d", n, i))
			}
		})
	}
	talking.Wait()
	next := make([]int, len(g.nodes)) // by node, the number of the next message
	var said, named []string
	for _, text := range contents(t, url, "api:task") {
		var n, i int
		if of, is := strings.CutPrefix(text, "re "); is {
			named = append(named, strings.Fields(of)...)
			continue
		}
		said = append(said, text)
		if _, err := fmt.Sscanf(text, "n%dm%d", &n, &i); err != nil || i != next[n] {
			t.Fatalf("%q is stored in place of message %d of gateway %d", text, next[n], n)
		}
		next[n]++
	}
	for n, i := range next {
		if i != each*clusterRounds(t, 1) {
			t.Errorf("%d messages of gateway %d are stored", i, n)
		}
	}
	if !slices.Equal(named, said) {
		t.Errorf("the answers name %q, stored are %q", named, said)
	}
}
