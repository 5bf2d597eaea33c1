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

// nextVersion builds a gateway of a later version, whose schema has one more column.
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

// Two nodes, which have made the database at the same moment, get two of the next version beside them, which change the schema at the
// same moment, and are then replaced one after the other, while programs talk to them. Old and new ones share the database meanwhile. Each
// message is answered once.
func TestClusterIsUpgradedGatewayByGateway(t *testing.T) {
	t.Parallel()
	next := nextVersion(t)
	for range clusterRounds(t, 1) {
		upgradeCluster(t, next)
	}
}

func upgradeCluster(t *testing.T, next string) {
	t.Helper()
	const newBeside, oldReplaced, lastReplaced = 3, 6, 9
	model := llmtest.New(t)
	model.Reply(answerTo)
	nodes, url := newNodes(t, 4, model)
	awaitReady := func(n *node) {
		gatewaytest.Await(t, "a node to be ready", func() bool {
			if n.process.HasEnded() {
				t.Fatalf("the node has ended: %s", n.process.Stderr)
			}
			status, _ := n.ready()
			return status == http.StatusOK
		})
	}
	start := func(list ...*node) {
		for _, n := range list {
			n.process = n.RunBinary(next, nil, "run")
		}
		for _, n := range list {
			awaitReady(n)
		}
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
			start(nodes[2], nodes[3])
			if list := old.MustRun("nodes"); strings.Count(list, "v9.9.9") != 2 || strings.Count(list, "serving") != 4 {
				t.Errorf("old and new gateways: %s", list)
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
	if list := nodes[0].MustRun("nodes"); strings.Count(list, "v9.9.9") != 4 {
		t.Errorf("new gateways: %s", list)
	}
	for _, n := range nodes {
		n.process.Stop()
	}
}
