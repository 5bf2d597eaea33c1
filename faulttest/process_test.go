package faulttest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is one run of the binary.
type process struct {
	w      *world
	cmd    *exec.Cmd
	stdout *record
	stderr *record
	ended  chan struct{} // closed when it has ended
}

// start runs the daemon.
func (w *world) start() *process {
	w.t.Helper()
	return w.run(binary, nil, "run")
}

// run runs a subcommand with the world's configuration. With stdin nil its
// standard input is /dev/null. What still runs at the test's end is killed.
func (w *world) run(binary string, stdin io.Reader, args ...string) *process {
	w.t.Helper()
	p := &process{w: w, stdout: &record{}, stderr: &record{}, ended: make(chan struct{})}
	p.cmd = exec.Command(binary, append(args, "-c", w.configPath())...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, p.stdout, io.MultiWriter(p.stderr, w.log)
	p.cmd.Dir = w.dir
	// The race detector would wait a second at each exit.
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "GORACE=atexit_sleep_ms=10"}
	p.cmd.Env = append(p.cmd.Env, w.env...)
	w.mu.Lock()
	w.process++
	fmt.Fprintf(w.log, "--- process %d: %v\n", w.process, args)
	w.mu.Unlock()
	w.must(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // how it ended stands in ProcessState
		close(p.ended)
	}()
	w.t.Cleanup(p.kill)
	return p
}

// startServing runs the daemon until it is connected to the platform.
func (w *world) startServing() *process {
	w.t.Helper()
	before := w.platform.connections()
	p := w.start()
	w.await("the connection", func() bool { return w.platform.connections() > before || p.hasEnded() })
	if p.hasEnded() {
		w.t.Fatalf("the gateway ended at its start: %s", p.stderr)
	}
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *process) signal(s syscall.Signal) {
	p.w.t.Helper()
	p.w.must(p.cmd.Process.Signal(s))
}

// stop ends the gateway in order, and expects that.
func (p *process) stop() {
	p.w.t.Helper()
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
}

// expectExit waits for the end of the process.
func (p *process) expectExit(status int) {
	p.w.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.signal(syscall.SIGQUIT) // for the goroutines in the log
		p.kill()
		p.w.t.Fatal("the gateway does not end")
	}
	if got := p.cmd.ProcessState; got.ExitCode() != status {
		p.w.t.Fatalf("the gateway ended with %s, want exit status %d; it said:\n%s", got, status, tail(p.stderr.String(), 2000))
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}
