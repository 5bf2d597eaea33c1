// Package mcp offers the model the tools of servers that speak the Model Context Protocol
// (https://modelcontextprotocol.io): programs that the gateway runs, one process each, and
// servers at an address.
//
// Each server has at most one connection. It is opened by the first call, or at the start for
// a server that is eager, and again after it has ended, less and less often while that fails.
// A call waits for its own server alone.
package mcp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/conversation/toollists"
	"parley/tools"
)

// Options are what Servers work with. The zero value of each is allowed.
type Options struct {
	Version string           // version of the gateway, which servers are told
	Log     *slog.Logger     // nil: nothing is logged
	Lists   *toollists.Lists // where lists of tools are kept between starts; nil: nowhere

	// Offer is called with the tools of a server when they are known, and when they have
	// changed. It returns the names that other tools have already.
	Offer func(server string, list []tools.Tool) (refused []string)
	// Called is called after each call of a tool, and must not block.
	Called func(Call)

	Getenv       func(string) string // looks up environment variables of the gateway; nil: os.Getenv
	Guard        []string            // command line of a process that calls Serve; empty: there is no guard
	StartTimeout time.Duration       // how long a server may take to connect and list its tools; 0: a minute

	// AnswerTimeout is how long the question of a server waits for an answer of people. It
	// comes into play where nothing else ends the question. 0: an hour.
	AnswerTimeout time.Duration
}

// Call is a call that has ended.
type Call struct {
	Server, Tool string // Tool is the server's name of the tool
	Failed       bool
	Took         time.Duration
}

// Servers are the configured servers. They are safe for concurrent use.
type Servers struct {
	list   []*server // by name
	guard  *Guard
	cancel context.CancelFunc
}

// New returns the servers of a configuration. None is started yet.
func New(config map[string]Config, o Options) *Servers {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Offer == nil {
		o.Offer = func(string, []tools.Tool) []string { return nil }
	}
	if o.Called == nil {
		o.Called = func(Call) {}
	}
	o.StartTimeout = cmp.Or(o.StartTimeout, time.Minute)
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	all := &Servers{cancel: cancel, guard: NewGuard(o.Guard, o.Log)}
	for name, c := range config {
		all.list = append(all.list, newServer(ctx, name, c, all.guard, o))
	}
	slices.SortFunc(all.list, func(a, b *server) int { return strings.Compare(a.name, b.name) })
	return all
}

// Load offers the tools that the servers listed when they ran last.
func (all *Servers) Load(ctx context.Context) error {
	for _, s := range all.list {
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Run keeps eager servers running, and starts the others until their tools are known, until
// ctx ends.
func (all *Servers) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range all.list {
		running.Go(func() { s.keep(ctx) })
	}
	running.Wait()
}

// AwaitTools returns when the tools of each server are known or it has failed, and when ctx
// ends. Run must be running. It returns the names of the servers that are still starting.
func (all *Servers) AwaitTools(ctx context.Context) (starting []string) {
	for _, s := range all.list {
		select {
		case <-s.asked:
		case <-ctx.Done():
			select {
			case <-s.asked:
			default:
				starting = append(starting, s.name)
			}
		}
	}
	return starting
}

// Close ends all servers and returns when none is left.
func (all *Servers) Close() {
	all.cancel()
	var closing sync.WaitGroup
	for _, s := range all.list {
		closing.Go(s.close)
	}
	closing.Wait()
	all.guard.close()
}

// Status is the state of a server.
type Status struct {
	Name     string
	State    string // Idle, Starting, Ready or Failed
	Error    string // why the latest attempt failed or the connection ended; "" once the server is ready again
	Since    time.Time
	Tools    int      // number of tools that the model is offered
	Starts   int      // how often the server was started or connected to
	LeftOut  []string // tools that are not offered, with the reason
	Eager    bool
	Endpoint string // the server's program or address

	LastError   string // the latest Error, also when the server is ready again
	LastErrorAt time.Time
}

// The states of a server.
const (
	Idle     = "idle"     // the server is started by the next call
	Starting = "starting" // the server has not answered yet
	Ready    = "ready"
	Failed   = "failed" // the server is tried again later
)

// Status returns the states of the servers, by name.
func (all *Servers) Status() []Status {
	list := make([]Status, len(all.list))
	for i, s := range all.list {
		list[i] = s.status()
	}
	return list
}

// Tools returns the tools of a server as they are known, also those that it may not use, and
// nil for a server that is not configured.
func (all *Servers) Tools(name string) []FoundTool {
	s, err := all.find(name)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found()
}

// find returns a server by its name.
func (all *Servers) find(name string) (*server, error) {
	var names []string
	for _, s := range all.list {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no server is configured; add a section [mcp.NAME]")
	}
	return nil, fmt.Errorf("found the server %q, allowed: %s", name, strings.Join(names, ", "))
}
