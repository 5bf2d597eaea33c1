package faulttest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// nextVersion builds a gateway of the next version, whose schema has one column more.
func nextVersion(t *testing.T) (binary string) {
	t.Helper()
	dir := t.TempDir()
	migration := filepath.Join(dir, "migration.sql")
	must(t, os.WriteFile(migration, []byte("-- +goose Up\nALTER TABLE messages ADD COLUMN of_next_version bigint;\n"), 0o600))
	migrations, err := filepath.Abs("../conversation/internal/db/migrations/postgres")
	must(t, err)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(migrations, "09001_next_version.sql"): migration}})
	must(t, err)
	list := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(list, overlay, 0o600))
	binary = filepath.Join(dir, "gateway")
	must(t, gatewaytest.Build(binary, "-overlay", list, "-ldflags", "-X main.linkedVersion=v9.9.9"))
	return binary
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Two nodes, which have made the database at the same moment, are replaced by those of the next version one after the other
// while programs talk to them. Old and new ones share the database meanwhile. Each message is answered once.
func TestClusterIsUpgradedGatewayByGateway(t *testing.T) {
	t.Parallel()
	const newBeside, oldReplaced, lastReplaced = 3, 6, 9
	model := llmtest.New(t)
	model.Reply(answerTo)
	nodes, url := newNodes(t, 3, model)
	next := nextVersion(t)
	awaitReady := func(n *node) {
		gatewaytest.Await(t, "a node to be ready", func() bool {
			if n.process.HasEnded() {
				t.Fatalf("the node has ended: %s", n.process.Stderr)
			}
			status, _ := n.ready()
			return status == http.StatusOK
		})
	}
	start := func(n *node) {
		n.process = n.RunBinary(next, nil, "run")
		awaitReady(n)
	}
	nodes[0].start()
	nodes[1].start()
	awaitReady(nodes[0])
	awaitReady(nodes[1])
	old := nodes[0]
	talks := conversations{sessions: 4, each: 12}
	talks.hold(t, nodes, func(message int) {
		switch message {
		case newBeside:
			start(nodes[2])
			if list := old.MustRun("nodes"); strings.Count(list, "v9.9.9") != 1 || strings.Count(list, "serving") != 3 {
				t.Errorf("an old and a new gateway: %s", list)
			}
		case oldReplaced:
			nodes[0].process.Stop()
			start(nodes[0])
		case lastReplaced:
			nodes[1].process.Stop()
			start(nodes[1])
		}
	})
	talks.expectAnsweredOnce(t, url)
	if list := nodes[0].MustRun("nodes"); strings.Count(list, "v9.9.9") != 3 {
		t.Errorf("three new gateways: %s", list)
	}
	for _, n := range nodes {
		n.process.Stop()
	}
}
