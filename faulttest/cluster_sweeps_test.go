package faulttest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// How soon a gateway answers what nobody has told it of is counted in its sweeps, of which it does one each second: on a
// machine that is busy they come late, but there are no more of them.

// mostSweeps is how many sweeps may find a message before it is taken: one that might have come just before the node takes it at
// which the message has arrived, and the next one.
const mostSweeps = 2

// taken is what a gateway logs when it takes a message that its sweeps have found.
var taken = regexp.MustCompile(`msg="waiting message taken" session=(\S+) inbound=\d+ sweeps=(\d+)`)

// expectFewSweeps checks what gateways have taken since their logs had so many bytes, and returns the sessions.
func expectFewSweeps(t *testing.T, nodes []*node, since []int) (sessions []string) {
	t.Helper()
	for i, n := range nodes {
		for _, line := range taken.FindAllStringSubmatch(n.Log.String()[since[i]:], -1) {
			sweeps, err := strconv.Atoi(line[2])
			if err != nil || sweeps > mostSweeps {
				t.Errorf("a message of %s was found by %s sweeps, want at most %d", line[1], line[2], mostSweeps)
			}
			sessions = append(sessions, line[1])
		}
	}
	slices.Sort(sessions)
	return slices.Compact(sessions)
}

func logged(nodes []*node) (bytes []int) {
	for _, n := range nodes {
		bytes = append(bytes, len(n.Log.String()))
	}
	return bytes
}

// No notice arrives. A message is answered all the same, by the gateway at which it has arrived, also if another one works its
// session: that one sees it at its next sweep.
func TestClusterNeedsNoNotices(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	proxies := []*postgrestest.Proxy{postgrestest.NewProxy(t, url), postgrestest.NewProxy(t, url)}
	g := newCluster(t, url, proxies[0].URL(), proxies[1].URL())
	for _, p := range proxies {
		p.DropNotices()
	}
	since := logged(g.nodes)
	for i := range 4 * clusterRounds(t, 1) {
		ctx, cancel := context.WithTimeout(t.Context(), waittest.Patience)
		text := fmt.Sprint("m", i)
		g.said["api:task"] = append(g.said["api:task"], text)
		a, err := g.nodes[i%2].post(ctx, "api:task", text, text) // the gateway before owns the session for a moment
		cancel()
		if err != nil || !slices.Contains(strings.Fields(a.Reply), text) {
			t.Fatalf("%s is answered %+v, %v", text, a, err)
		}
	}
	g.expectOnce()
	if got := expectFewSweeps(t, g.nodes, since); len(got) == 0 {
		t.Error("no message was found by a sweep")
	}
}

// No notice arrives, and one of two gateways polls for all people. It answers some of them, and the other one the rest.
func TestClusterAnswersChatsWithoutNotices(t *testing.T) {
	t.Parallel()
	const chats, mostRounds = 8, 50
	url := postgrestest.Database(t)
	proxies := []*postgrestest.Proxy{postgrestest.NewProxy(t, url), postgrestest.NewProxy(t, url)}
	c := newTelegramNodesAt(t, url, proxies[0].URL(), proxies[1].URL())
	c.awaitOther(-1)
	c.awaitAlive()
	for _, p := range proxies {
		p.DropNotices()
	}
	since := logged(c.nodes)
	var found []string
	for i := 0; i < 2*clusterRounds(t, 1) || len(found) == 0 && i < mostRounds; i++ {
		for chat := 1; chat <= chats; chat++ {
			c.say(chat, fmt.Sprintf("c%dm%d", chat, i))
		}
		c.awaitAnswers()
		gatewaytest.Await(t, "no gateway works a session", func() bool { // then the next message decides which one does
			return rows(t, url, `SELECT count(*)::text FROM sessions WHERE owner IS NOT NULL`)[0] == "0"
		})
		found = expectFewSweeps(t, c.nodes, since)
	}
	c.expectStored()
	if len(found) == 0 {
		t.Error("no message was found by a sweep")
	}
}

// holdRuns has programs say something in some sessions at a gateway, and returns when the model is asked about all of
// it. The model answers when release is called. The programs go away when they hear nothing any more.
func (g *gateways) holdRuns(at *node, round, sessions int) (keys []string, release func()) {
	g.t.Helper()
	opened, release := waittest.Gate(g.t)
	asked := make(chan struct{}, 100*sessions)
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		asked <- struct{}{}
		<-opened
		return answerTo(c)
	})
	ctx, cancel := context.WithCancel(g.t.Context())
	var asking sync.WaitGroup
	for s := range sessions {
		key := fmt.Sprintf("api:round-%d-%d", round, s)
		keys = append(keys, key)
		g.mu.Lock()
		g.said[key] = []string{"m"}
		g.mu.Unlock()
		asking.Go(func() { _, _ = at.post(ctx, key, key, "m") })
	}
	for range sessions {
		waittest.Receive(g.t, asked, "the model is asked")
	}
	cancel()
	asking.Wait()
	return keys, release
}

// awaitAnswersTo waits until each session has an answer.
func (g *gateways) awaitAnswersTo(keys []string) {
	g.t.Helper()
	for _, key := range keys {
		gatewaytest.Await(g.t, "the answer in "+key, func() bool { return len(contents(g.t, g.url, key)) == 2 })
	}
}

// number returns the number of a gateway's latest membership.
func (g *gateways) number(n *node) int {
	g.t.Helper()
	return g.count(fmt.Sprintf(`SELECT max(id) FROM nodes WHERE command = 'run' AND url LIKE '%%%s'`, n.listen[strings.LastIndex(n.listen, ":"):]))
}

// A gateway is killed while it answers in several sessions. The others declare it dead within two heartbeats after its membership
// has expired, not before, and take each of its sessions with their next sweeps.
func TestClusterTakesSessionsOverAtOnce(t *testing.T) {
	t.Parallel()
	const heartbeat = time.Second
	url := postgrestest.Database(t)
	g := newCluster(t, url, url, url, url)
	g.tries("a gateway that was killed is declared dead soon", func(round int) (soon bool) {
		victim := g.nodes[round%len(g.nodes)]
		since := logged(g.nodes)
		keys, release := g.holdRuns(victim, round, 6)
		number := g.number(victim)
		victim.process.Kill()
		release()
		g.awaitAnswersTo(keys)
		late := time.Duration(g.count(fmt.Sprintf(`SELECT dead_at - expires_at FROM nodes WHERE id = %d`, number))) * time.Millisecond
		t.Logf("declared dead %v after the membership had expired", late)
		if late < 0 {
			t.Errorf("a gateway was declared dead %v before its membership expired", -late)
		}
		if got := expectFewSweeps(t, g.nodes, since); !slices.Equal(got, slices.Sorted(slices.Values(keys))) {
			t.Errorf("sweeps have found %q, want %q", got, keys)
		}
		victim.start()
		g.awaitReady()
		return late <= 2*heartbeat
	})
	g.expectOnce()
}

// A gateway that ends in order gives up at once what it has, also the sessions in which it can't finish its answers any more: nothing
// of it has to expire before the others go on with their next sweeps.
func TestClusterGatewayEndsInOrder(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	g := newClusterWith(t, "[agent]\ndrain_timeout = \"0s\"\n", url, url, url)
	g.tries("a gateway leaves before its membership expires", func(round int) (before bool) {
		stopped := g.nodes[round%len(g.nodes)]
		since := logged(g.nodes)
		keys, release := g.holdRuns(stopped, round, 4)
		number := g.number(stopped)
		stopped.process.Stop()
		for what, query := range map[string]string{
			"memberships": `SELECT count(*) FROM nodes WHERE id = %d AND dead_at IS NULL`,
			"lanes":       `SELECT count(*) FROM lanes WHERE node_id = %d`,
			"sessions":    `SELECT count(*) FROM sessions WHERE owner = %d`,
			"roles":       `SELECT count(*) FROM roles WHERE node_id = %d`,
		} {
			if n := g.count(fmt.Sprintf(query, number)); n != 0 {
				t.Errorf("a gateway that has ended in order leaves %d %s", n, what)
			}
		}
		release()
		g.awaitAnswersTo(keys)
		if got := expectFewSweeps(t, g.nodes, since); !slices.Equal(got, slices.Sorted(slices.Values(keys))) {
			t.Errorf("sweeps have found %q, want %q", got, keys)
		}
		stopped.start()
		g.awaitReady()
		return g.count(fmt.Sprintf(`SELECT count(*) FROM nodes WHERE id = %d AND dead_at < expires_at`, number)) == 1
	})
	g.expectOnce()
}
