package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"parley/channels/telegram/telegramtest"
)

// process is a program under measurement. Its figures come from /proc:
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
type process struct {
	cmd *exec.Cmd
	log bytes.Buffer // what it said; read after stop
}

// httpToken is what the bench sends to the gateway's HTTP server.
const httpToken = "a-token-of-the-bench"

// startGateway starts the gateway on a database, without its own rate limits
// and with further sections of its configuration.
func (b *bench) startGateway(ctx context.Context, f *fakes, database string, sections ...string) (*process, error) {
	config := filepath.Join(b.dir, "config.toml")
	text := fmt.Sprintf(`database = %q
[llm]
base_url = %q
api_key = "none"
model = "test-model"
vision = true
[agent]
titles = false # calls of the model that the floor does not make
[http]
listen = %q
token = %q
[telegram]
token = %q
api_url = %q
access = "open"
send_rate = 0
chat_rate = 0
%s`, database, f.modelURL, b.listen, httpToken, telegramtest.Token, f.telegram.URL, strings.Join(sections, ""))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, b.gateway, "run", "-c", config)
}

// startFloor starts the floor, with further arguments.
func (b *bench) startFloor(ctx context.Context, f *fakes, args ...string) (*process, error) {
	args = append([]string{"-telegram", f.telegram.URL, "-token", telegramtest.Token, "-model", f.model.URL()}, args...)
	return start(ctx, b.floor, args...)
}

func start(ctx context.Context, program string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	return p, p.cmd.Start()
}

// kill ends the process without warning, so that what it stored is what it
// had made durable before it answered.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// told adds to an error what the process, which is ended, had said.
func (p *process) told(err error) error {
	if err == nil {
		return nil
	}
	const most = 4000
	said := p.log.Bytes()
	return fmt.Errorf("%w\n%s said:\n%s", err, filepath.Base(p.cmd.Path), said[max(0, len(said)-most):])
}

// ticksPerSecond is the unit of /proc, the same on every Linux.
const ticksPerSecond = 100

// cpu returns the time that the process has used, in user and system mode.
func (p *process) cpu() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the name before may hold spaces
	fields := strings.Fields(rest)
	const user, system = 11, 12 // fields 14 and 15 of the line, counted from the state
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat has only %d fields", p.cmd.Process.Pid, len(fields))
	}
	ticks := 0
	for _, field := range []int{user, system} {
		n, err := strconv.Atoi(fields[field])
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// Of the memory of a process: all that is resident, and what is its own of that.
// The rest are pages of the program's file, as many as the kernel has read of it:
// https://man7.org/linux/man-pages/man5/proc_pid_status.5.html
const (
	resident = "VmRSS"
	private  = "RssAnon"
)

// idleFor is how long a program must do nothing to count as idle, and idleShare the share of a processor that counts as nothing.
const (
	idleFor   = 500 * time.Millisecond
	idleShare = 0.03
)

// awaitIdle waits until the program has ended its work in the background. The error is that of ctx.
func (p *process) awaitIdle(ctx context.Context) error {
	for {
		before, err := p.cpu()
		if err != nil {
			return err
		}
		select {
		case <-time.After(idleFor):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := p.cpu()
		if err != nil || float64(after-before) < idleShare*float64(idleFor) {
			return err
		}
	}
}

// memory returns one kind of the process's memory in MiB.
func (p *process) memory(kind string) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, kind+":"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return float64(kib) / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has ended", p.cmd.Process.Pid)
}
