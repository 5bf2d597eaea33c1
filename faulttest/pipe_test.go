package faulttest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/internal/waittest"
)

// TestPipedChatEndsWithItsReader runs `gateway chat | head -1` with a model that hangs at the second
// question: the chat ends at once with SIGPIPE, like other filters, and the next chat shows the answer.
func TestPipedChatEndsWithItsReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{drain: "1h"})
	held := w.holdModel("two")
	reader, out, err := os.Pipe()
	w.must(err)
	chat := exec.Command(gatewaytest.Binary(w.t), "chat", "--lines", "-c", w.gw.Config)
	chat.Dir, chat.Env = w.gw.Dir, w.gw.Environ()
	chat.Stdout, chat.Stderr = out, w.gw.Log
	typed, err := chat.StdinPipe()
	w.must(err)
	w.must(chat.Start())
	t.Cleanup(func() { _ = chat.Process.Kill() }) // it may have ended
	w.must(out.Close())
	fmt.Fprintln(typed, "one\ntwo")
	if line, err := bufio.NewReader(reader).ReadString('\n'); err != nil || line != "re one\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	w.awaitReached("the second model call", held)
	w.must(reader.Close())

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = chat.Wait() // how it ended stands in ProcessState
	}()
	select {
	case <-ended:
	case <-time.After(waittest.Patience):
		t.Fatal("the chat goes on although nobody reads its output")
	}
	if status := chat.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGPIPE {
		t.Errorf("the chat ended with %s, want SIGPIPE", chat.ProcessState)
	}

	held.Open()
	next := w.run(strings.NewReader("three\n"), "chat")
	next.MustExit(0)
	if !strings.Contains(next.Stdout.String(), "two") {
		t.Errorf("the next chat does not have the answer to what was asked before:\n%s", next.Stdout)
	}
}
