package gatewaytest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"parley/internal/waittest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is one run of the binary.
type Process struct {
	Stdout, Stderr *Log

	t     testing.TB
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// RunBinary is Run with another binary than the one that is tested.
func (g *Gateway) RunBinary(path string, stdin io.Reader, args ...string) *Process {
	g.t.Helper()
	p := &Process{Stdout: &Log{}, Stderr: &Log{}, t: g.t, ended: make(chan struct{})}
	p.cmd = exec.Command(path, append(args, "-c", g.Config)...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, p.Stdout, io.MultiWriter(p.Stderr, g.Log)
	p.cmd.Dir, p.cmd.Env = g.Dir, g.Environ()
	fmt.Fprintf(g.Log, "--- %v\n", args)
	g.must(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // the result is in ProcessState
		close(p.ended)
	}()
	g.t.Cleanup(p.Kill)
	return p
}

// MustRun runs a subcommand, which must succeed, and returns its output without the space around
// it.
func (g *Gateway) MustRun(args ...string) string {
	g.t.Helper()
	p := g.Run(nil, args...)
	p.MustExit(0)
	return strings.TrimSpace(p.Stdout.String())
}

// Environ returns the environment of the gateway's processes.
func (g *Gateway) Environ() []string {
	// The race detector would wait a second at each exit.
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.Dir, "GORACE=atexit_sleep_ms=10"}, g.Env...)
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill kills the process with SIGKILL, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// KillWithin kills the process after a random time of at most limit. It returns earlier if the
// process ends by itself.
func (p *Process) KillWithin(limit time.Duration) {
	select {
	case <-p.ended:
	case <-time.After(rand.N(limit)):
	}
	p.Kill()
}

// Signal sends a signal to the running process.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Stop ends the process with SIGTERM, and fails the test unless it exits with status 0.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	p.MustExit(0)
}

// MustExit waits for the end of the process, and fails the test unless it has the exit status. A
// process that does not end is made to log its goroutines.
func (p *Process) MustExit(status int) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(waittest.Patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it may end now
		p.Kill()
		p.t.Fatal("the gateway does not end")
	}
	if is := p.cmd.ProcessState; is.ExitCode() != status {
		p.t.Fatalf("the gateway ended with %s, want exit status %d; it said:\n%s", is, status, tail(p.Stderr.String(), 2000))
	}
}

// HasEnded reports whether the process has ended.
func (p *Process) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Log collects what several goroutines write.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }
