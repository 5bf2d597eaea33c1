package faulttest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
)

// wrongClock is a file for package time by which the variable WRONG_CLOCK sets how wrong the clock is.
const wrongClock = `package time

import "syscall"

var wrongBy = func() int64 {
	text, _ := syscall.Getenv("WRONG_CLOCK")
	d, _ := ParseDuration(text)
	return int64(d / Second)
}()
`

// buildWithWrongClock builds a gateway that sees a wrong clock. It compiles nearly all packages of Go anew.
func buildWithWrongClock(t *testing.T) (binary string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	folder := filepath.Join(strings.TrimSpace(string(root)), "src/time")
	text, err := os.ReadFile(filepath.Join(folder, "time.go"))
	must(t, err)
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	now := strings.Replace(string(text), reads, reads+"\tsec += wrongBy\n", 1)
	if now == string(text) {
		t.Fatal("this version of Go reads the clock in another way than the test knows")
	}
	dir := t.TempDir()
	replaced := map[string]string{}
	for name, content := range map[string]string{"time.go": now, "wrong_clock.go": wrongClock} {
		replaced[filepath.Join(folder, name)] = filepath.Join(dir, name)
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	must(t, err)
	list := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(list, overlay, 0o600))
	binary = filepath.Join(dir, "gateway")
	must(t, gatewaytest.Build(binary, "-overlay", list))
	return binary
}

// The clocks of two of three machines are an hour wrong. Only nodes that are killed are declared dead, each message is
// answered once and in order, and all stored times are right.
func TestClusterWithWrongClocks(t *testing.T) {
	if !isTorture() {
		t.Skip("takes minutes to compile: `make torture-cluster` runs it, and cluster.TestWrongClocksKillNobody is its short form")
	}
	t.Parallel()
	url := postgrestest.Database(t)
	g := newCluster(t, url, url, url, url)
	binary := buildWithWrongClock(t)
	restart := func(n *node) {
		n.process = n.RunBinary(binary, nil, "run")
		gatewaytest.Await(t, "all nodes", func() bool { return g.count(servingNodes) == len(g.nodes) })
	}
	for i, off := range []string{"1h", "-1h", "0s"} {
		g.nodes[i].process.Stop()
		g.nodes[i].Env = append(g.nodes[i].Env, "WRONG_CLOCK="+off)
		restart(g.nodes[i])
	}
	quiet := g.talk(6)
	for _, n := range g.nodes {
		g.answeredMore(30)
		n.process.Kill()
		g.answeredMore(30)
		restart(n)
	}
	quiet()
	g.expectOnce()
	const now = `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
	for _, column := range []string{"inbox.sent_at", "messages.created_at", "runs.started_at", "runs.ended_at", "outbox.created_at", "conversations.created_at"} {
		table, name, _ := strings.Cut(column, ".")
		if n := g.count(fmt.Sprintf(`SELECT count(*) FROM %s WHERE abs(%s - %s) > 30 * 60 * 1000`, table, name, now)); n != 0 {
			t.Errorf("%d rows of %s are more than half an hour off", n, column)
		}
	}
	if n := g.count(`SELECT count(*) FROM runs WHERE ended_at < started_at`); n != 0 {
		t.Errorf("%d runs ended before they began", n)
	}
	if n := g.count(deadNodes + ` AND expires_at < dead_at`); n != len(g.nodes) {
		t.Errorf("%d nodes were declared dead, want the %d that were killed", n, len(g.nodes))
	}
}
