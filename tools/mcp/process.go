package mcp

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// How long a server has to end after its input was closed, then after a signal, and after it was killed.
const (
	closeGrace = 2 * time.Second
	termGrace  = time.Second
	killGrace  = 5 * time.Second
)

// markName is the environment variable with the mark of a server. By it, processes are found
// that the server has started and that have left its group.
const markName = "PARLEY_MCP_SERVER"

// process is a server that runs as a child of the gateway, in a process group of its own.
type process struct {
	cmd    *exec.Cmd
	mark   string // random value of the environment variable markName, which no other server has
	stdin  *os.File
	stdout *os.File
	said   *tail
	guard  *Guard
	done   chan struct{} // closed when the process and its group have ended
	err    error         // how the process ended; set before done is closed
	end    sync.Once
}

// start starts a server. Its environment is what Inherited names and its section lists.
func start(c Config, getenv func(string) string, guard *Guard) (*process, error) {
	p := &process{mark: rand.Text(), said: &tail{}, guard: guard, done: make(chan struct{})}
	p.cmd = exec.Command(c.Command, c.Args...)
	p.cmd.Dir, p.cmd.Env = c.Folder, append(environment(c, getenv), markName+"="+p.mark)
	p.cmd.Stderr = p.said
	p.cmd.WaitDelay = time.Second // for a grandchild that keeps standard error open
	p.cmd.SysProcAttr = ownGroup()
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), stdin.Close())
	}
	p.stdin, p.stdout = stdin, stdout
	p.cmd.Stdin, p.cmd.Stdout = in, out
	started := make(chan error)
	go p.run(started)
	err = <-started
	in.Close()
	out.Close()
	if err != nil {
		stdin.Close()
		stdout.Close()
		return nil, err
	}
	return p, nil
}

// run starts the program and waits for its end. The kernel kills it when the thread that has
// started it ends, so that thread serves it alone.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	err := p.cmd.Start()
	if err == nil {
		p.guard.watch(p.cmd.Process.Pid, p.mark)
	}
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	killGroup(p.cmd.Process.Pid) // what it has left behind
	killMarked(p.mark)
	p.guard.forget(p.cmd.Process.Pid)
	p.stdin.Close()
	close(p.done)
	time.AfterFunc(time.Second, func() { p.stdout.Close() }) // kept open by a process that was not found
}

// Close ends the server: its input is closed, then its group gets a signal, then it is killed.
// It returns when the server has ended, and soon in any case: one that runs as another user can't be killed.
func (p *process) Close() {
	p.end.Do(func() {
		p.stdin.Close()
		if p.endsWithin(closeGrace) {
			return
		}
		terminateGroup(p.cmd.Process.Pid)
		if !p.endsWithin(termGrace) {
			killGroup(p.cmd.Process.Pid)
			_ = p.cmd.Process.Kill() // it may have left its group
			p.endsWithin(killGrace)
		}
	})
}

func (p *process) endsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return p.hasEnded()
	}
}

// hasEnded reports whether the process has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// environment returns the environment of a server.
func environment(c Config, getenv func(string) string) []string {
	list := []string{}
	for _, name := range Inherited {
		if value := getenv(name); value != "" {
			if _, given := c.Env[name]; !given {
				list = append(list, name+"="+value)
			}
		}
	}
	for name, value := range c.Env {
		list = append(list, name+"="+value)
	}
	return list
}

// tail keeps the end of what a server writes to standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailSize):]...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// lastLine returns the last line that is not empty.
func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.text), ""))
	if len(t.text) == tailSize && !strings.Contains(text, "\n") { // it begins within a word, perhaps a secret
		_, text, _ = strings.Cut(text, " ")
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}
