package faulttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// node is one of several gateways on a PostgreSQL database.
type node struct {
	*gatewaytest.Gateway
	programs
	process *gatewaytest.Process
}

func (n *node) start() { n.process = n.Run(nil, "run") }

// newNodes returns gateways on a new PostgreSQL database, which are not started yet. Programs need no token.
func newNodes(t *testing.T, count int, model *llmtest.Server) (nodes []*node, url string) {
	t.Helper()
	url = postgrestest.Database(t)
	for range count {
		n := &node{programs: newPrograms(&world{t: t}).(programs)}
		n.Gateway = gatewaytest.New(t, gatewaytest.Options{Database: url, Config: fmt.Sprintf(
			"[llm]\nbase_url = %q\n[http]\nlisten = %q\nauth = \"none\"\n", model.URL(), n.listen)})
		nodes = append(nodes, n)
	}
	return nodes, url
}

// conversations describes the load of programs, which send each message to another node.
type conversations struct {
	sessions, each int
	from           int // the number of the first message
}

// hold sends all messages, and waits for their answers. before is called before each message of the first session.
func (c conversations) hold(t *testing.T, nodes []*node, before func(message int)) {
	var talking sync.WaitGroup
	for s := range c.sessions {
		talking.Go(func() {
			for i := c.from; i < c.from+c.each; i++ {
				if s == 0 {
					before(i)
				}
				postToAny(t, nodes, s+i, fmt.Sprint("api:task-", s), fmt.Sprintf("s%dm%d", s, i))
			}
		})
	}
	talking.Wait()
}

// expectAnsweredOnce checks that each message is stored once, with one answer, in order.
func (c conversations) expectAnsweredOnce(t *testing.T, url string) {
	t.Helper()
	for s := range c.sessions {
		var want []string
		for i := range c.each {
			want = append(want, fmt.Sprintf("s%dm%d", s, i), fmt.Sprintf("re s%dm%d", s, i))
		}
		if diff := cmp.Diff(want, contents(t, url, fmt.Sprint("api:task-", s))); diff != "" {
			t.Errorf("session %d: %s", s, diff)
		}
	}
}

// Three gateways share a PostgreSQL database. Programs send each message to one of them, and to the next one when that
// does not answer. One gateway is killed meanwhile, and later started anew. Each message is answered once and in order.
func TestClusterGoesOnWithoutOneGateway(t *testing.T) {
	t.Parallel()
	const killed, startedAnew = 4, 8
	model := llmtest.New(t)
	model.Reply(answerTo)
	nodes, url := newNodes(t, 3, model)
	for _, n := range nodes {
		n.start()
	}
	talks := conversations{sessions: 4, each: 12}
	talks.hold(t, nodes, func(message int) {
		switch message {
		case killed:
			nodes[1].process.Kill()
		case startedAnew:
			nodes[1].start()
		}
	})
	talks.expectAnsweredOnce(t, url)
	gatewaytest.Await(t, "health to name all gateways", func() bool { // the one that was started anew may be slow
		return strings.Count(nodes[0].MustRun("health"), " serves postgres://") == len(nodes)
	})
	for _, n := range nodes {
		n.process.Stop()
	}
}

// answerTimeout is the time after which a program sends its message to the next gateway.
const answerTimeout = 3 * time.Second

// postToAny sends a message to one node after the other, from number first on, until it is answered.
func postToAny(t *testing.T, nodes []*node, first int, session, id string) {
	end := time.Now().Add(waittest.Patience)
	for n := first; time.Now().Before(end); n++ {
		ctx, cancel := context.WithTimeout(t.Context(), answerTimeout)
		a, err := nodes[n%len(nodes)].post(ctx, session, id, id)
		late := ctx.Err() != nil
		cancel()
		switch {
		case err == nil && slices.Contains(strings.Fields(a.Reply), id):
			return
		case !late:
			t.Errorf("%s is answered %+v, %v", id, a, err)
			return
		}
	}
	t.Errorf("%s is not answered", id)
}

// contents reads the messages of a session on a PostgreSQL server, in order.
func contents(t *testing.T, url, session string) []string {
	t.Helper()
	return rows(t, url, `
		SELECT m.content FROM messages m JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE s.key = $1 ORDER BY m.id`, session)
}
