package mcp

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Guard is a small process beside the gateway. After a kill -9 of the gateway it lives on for two
// seconds, and ends the processes that servers have started and left running. The kernel itself ends
// only the servers. A nil Guard does nothing.
type Guard struct {
	command []string
	log     *slog.Logger

	mu    sync.Mutex
	stdin io.WriteCloser // standard input of the guard; nil while the guard does not run
	alive map[int]string // marks of running servers, by the IDs of their process groups
}

// NewGuard returns a guard that is started with the first server, nil without a command.
// Serve is what the command must call.
func NewGuard(command []string, log *slog.Logger) *Guard {
	if len(command) == 0 {
		return nil
	}
	return &Guard{command: command, log: log, alive: map[int]string{}}
}

// watch has the guard end a group, and all processes with the mark of its server, when the
// gateway ends without having done so.
func (g *Guard) watch(group int, mark string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alive[group] = mark
	if g.stdin != nil && g.say(group, mark) {
		return
	}
	if err := g.start(); err != nil {
		g.log.Warn("guard of MCP servers not started", "error", err)
	}
}

// forget has the guard leave a group alone, which has ended.
func (g *Guard) forget(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.alive, group)
	if g.stdin != nil {
		g.say(-group, "")
	}
}

// start starts the guard and tells it of all groups.
func (g *Guard) start() error {
	cmd := exec.Command(g.command[0], g.command[1:]...)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C in the terminal is for the gateway
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // the next server starts another one
	g.stdin = stdin
	for group, mark := range g.alive {
		g.say(group, mark)
	}
	return nil
}

// say reports whether the guard has heard of a group.
func (g *Guard) say(group int, mark string) bool {
	_, err := fmt.Fprintln(g.stdin, group, mark)
	return err == nil
}

// close ends the guard. All servers have ended.
func (g *Guard) close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stdin != nil {
		g.stdin.Close()
		g.stdin = nil
	}
}

// Serve is the process of a Guard: it reads which groups to watch, and kills those that are
// left some time after its input has ended.
func Serve(in io.Reader) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	groups := map[int]string{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		first, mark, _ := strings.Cut(lines.Text(), " ")
		group, err := strconv.Atoi(first)
		switch {
		case err != nil:
		case group > 1:
			groups[group] = mark
		default:
			delete(groups, -group)
		}
	}
	if len(groups) == 0 {
		return
	}
	time.Sleep(closeGrace)
	for group, mark := range groups {
		killGroup(group)
		killMarked(mark)
	}
}
