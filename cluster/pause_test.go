package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helperURL is the environment variable that makes the test binary the process that TestPausedProcessIsFenced pauses.
const helperURL = "PARLEY_CLUSTER_HELPER"

// A process is paused during transactions for longer than the TTL, like on a laptop that is closed or a
// virtual machine that is moved, and another node takes over. When the process continues, it knows that it
// is not valid, its transactions are refused, and it joins anew.
func TestPausedProcessIsFenced(t *testing.T) {
	t.Parallel()
	if url := os.Getenv(helperURL); url != "" {
		writeUntilFenced(t, url)
		return
	}
	url := database(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPausedProcessIsFenced$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), helperURL+"="+url)
	cmd.Stderr = t.Output()
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(output)
	id, err := strconv.ParseInt(said(t, lines, "node "), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	observer := join(t, quickConfig(t, url, "observer"))
	rows := func() int64 { return number(t, url, `SELECT count(*) FROM written WHERE node_id = $1`, id) }
	eventually(t, "it writes", func() bool { return rows() > 20 })

	paused := time.Now()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "declared dead", func() bool {
		return number(t, url, `SELECT count(*) FROM nodes WHERE id = $1 AND dead_at IS NOT NULL`, id) == 1
	})
	time.Sleep(time.Until(paused.Add(quickTTL + quickTTL/4))) // it renewed before the pause, and tells a pause by its length
	before := rows()
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if valid := said(t, lines, "valid "); valid != "false" {
		t.Error("after the pause the node calls itself valid")
	}
	said(t, lines, "fenced")
	anew := said(t, lines, "anew ")
	if after := rows(); after != before {
		t.Errorf("the dead node has stored %d rows after its death", after-before)
	}
	if anew == fmt.Sprint(id) {
		t.Error("it goes on as the dead node")
	}
	if !observer.Valid() {
		t.Error("the observer is not valid")
	}
}

// said returns the rest of the next line that begins with a word.
func said(t *testing.T, lines *bufio.Scanner, word string) string {
	t.Helper()
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), word); ok {
			return rest
		}
	}
	t.Fatalf("the process ended before it said %q", word)
	return ""
}

// writeUntilFenced writes one row after the other, and says what happens after a pause.
func writeUntilFenced(t *testing.T, url string) {
	n := join(t, quickConfig(t, url, "paused"))
	id := n.ID()
	fmt.Println("node", id)
	db, lane := opened(t, fmt.Sprint(url, "&idle_in_transaction_session_timeout=", quickTTL.Milliseconds())), n.Lane(0)
	latest := time.Now()
	for {
		written, _, err := write(t.Context(), db, lane)
		if time.Since(latest) > quickTTL {
			fmt.Println("valid", n.Valid() && n.ID() == id)
		}
		latest = time.Now()
		if errors.Is(err, ErrFenced) || written != 0 && written != id {
			break
		}
	}
	fmt.Println("fenced")
	for n.ID() == id || !n.Valid() {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("anew", n.ID())
}
