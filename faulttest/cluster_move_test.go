package faulttest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/llm/llmtest"
)

// A database is moved from a file to PostgreSQL; the move is killed and repeated. Two gateways go on there, and then one with the
// file into which all is moved back. Nothing is missing, and nothing is there twice.
func TestClusterMovesFromAFileAndBack(t *testing.T) {
	t.Parallel()
	model := llmtest.New(t)
	model.Reply(answerTo)
	dir := t.TempDir()
	for round := range clusterRounds(t, 1) {
		file, back, url := filepath.Join(dir, fmt.Sprint(round, ".db")), filepath.Join(dir, fmt.Sprint(round, "-back.db")), postgrestest.Database(t)
		talks := conversations{sessions: 3, each: 4}
		serve := func(database string, count, from int) {
			var nodes []*node
			for range count {
				n := &node{programs: newPrograms(&world{t: t}).(programs)}
				n.Gateway = gatewaytest.New(t, gatewaytest.Options{Database: database, Config: fmt.Sprintf(
					"[llm]\nbase_url = %q\n[http]\nlisten = %q\nauth = \"none\"\n", model.URL(), n.listen)})
				n.start()
				gatewaytest.Await(t, "a gateway to be ready", func() bool {
					if n.process.HasEnded() {
						t.Fatalf("the gateway has ended: %s", n.process.Stderr)
					}
					status, _ := n.ready()
					return status == http.StatusOK
				})
				nodes = append(nodes, n)
			}
			talks.from = from
			talks.hold(t, nodes, func(int) {})
			for _, n := range nodes {
				n.process.Stop()
			}
		}
		mover := gatewaytest.New(t, gatewaytest.Options{})
		move := func(from, to string) {
			for range 3 {
				mover.Run(nil, "migrate", from, to).KillWithin(time.Second)
			}
			p := mover.Run(nil, "migrate", from, to)
			gatewaytest.Await(t, "the end of the move", p.HasEnded)
			said := p.Stdout.String() + p.Stderr.String()
			if !slices.ContainsFunc([]string{"Moved ", "is not empty", "exists already"}, func(text string) bool { return strings.Contains(said, text) }) {
				t.Fatalf("the move from %s to %s: %s", from, to, said) // if it is refused, one of those before was done
			}
		}
		serve(file, 1, 0)
		move(file, url)
		serve(url, 2, talks.each)
		talks.each *= 2
		talks.expectAnsweredOnce(t, url)
		talks.each /= 2
		move(url, back)
		serve(back, 1, 2*talks.each)
		db := openSQLite(t, back)
		for s := range talks.sessions {
			got := column(t, db, `
				SELECT m.content FROM messages m JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
				WHERE s.key = ? ORDER BY m.id`, fmt.Sprint("api:task-", s))
			var want []string
			for i := range 3 * talks.each {
				want = append(want, fmt.Sprintf("s%dm%d", s, i), fmt.Sprintf("re s%dm%d", s, i))
			}
			if !slices.Equal(got, want) {
				t.Errorf("session %d: stored are %q, want %q", s, got, want)
			}
		}
	}
}
