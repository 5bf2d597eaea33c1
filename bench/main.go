// Bench measures the built gateway against in-repo fakes of Telegram and of a
// model's API, beside a floor: a bare loop that does the same without store or
// sessions. Both run as processes of their own, and by turns, so that what
// else the machine does falls on both. It prints a table; a bar that is missed
// is told there and is no failure, an answer that is missing or wrong is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"parley/tools/mcp/mcptest"
)

func main() {
	mcptest.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// sizes are what the flags set.
type sizes struct {
	rounds   int
	chats    int // chats that talk at once
	messages int // messages of each of these chats
	pings    int // messages in one chat, one after the other
	slow     int // chats that wait for a slow model
	silent   int // sessions that speak once
	stored   int // messages of the large database
	long     int // messages of the long conversation

	listeners int // listeners to the events of sessions

	slots     int // runs that a node of a cluster has at a time
	failovers int // nodes of a cluster that are killed
}

// bench is one run.
type bench struct {
	sizes
	dir     string // holds the programs and the databases, and is removed at the end
	gateway string // path of the program
	floor   string // path of the program
	report  *report
	listen  string // where the next gateway serves HTTP, "" for not at all
}

// scenario is a part of a run that can be chosen by name.
type scenario struct {
	name string
	run  func(b *bench, ctx context.Context) error
}

var scenarios = []scenario{
	{"load", (*bench).load},
	{"latency", (*bench).latency},
	{"slow", (*bench).slowModel},
	{"memory", (*bench).memory},
	{"open", (*bench).open},
	{"start", (*bench).start},
	{"reading", (*bench).reading},
	{"listening", (*bench).listening},
	{"streaming", (*bench).streaming},
	{"pictures", (*bench).pictures},
	{"tools", (*bench).tools},
	{"postgres", (*bench).postgres},
	{"nodes", (*bench).nodes},
	{"failover", (*bench).failover},
}

func run(ctx context.Context, args []string) error {
	b := &bench{report: newReport()}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "run only these `SCENARIOS`, by comma: "+names())
	jsonPath := flags.String("json", "", "write the figures to `FILE`, too")
	flags.StringVar(&b.gateway, "gateway", "", "measure this `PROGRAM` instead of building one")
	flags.IntVar(&b.rounds, "rounds", 3, "how often floor and gateway take turns")
	flags.IntVar(&b.chats, "chats", 200, "chats that talk at once")
	flags.IntVar(&b.messages, "messages", 20, "messages of each of them")
	flags.IntVar(&b.pings, "pings", 50, "messages in one chat")
	flags.IntVar(&b.slow, "slow", 100, "chats that wait for a model of 1 s")
	flags.IntVar(&b.silent, "silent", 10_000, "sessions that speak once")
	flags.IntVar(&b.stored, "stored", 1_000_000, "messages of the large database")
	flags.IntVar(&b.long, "long", 100_000, "messages of the long conversation")
	flags.IntVar(&b.slots, "slots", 50, "runs that a node of a cluster has at a time")
	flags.IntVar(&b.failovers, "failovers", 5, "nodes of a cluster that are killed")
	flags.IntVar(&b.listeners, "listeners", 1000, "listeners to the events of sessions")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	for _, s := range chosen {
		fmt.Fprintf(os.Stderr, "%s …\n", s.name)
		if err := s.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	b.report.print(os.Stdout)
	if *jsonPath == "" {
		return nil
	}
	return b.report.writeJSON(*jsonPath)
}

func names() string {
	var list []string
	for _, s := range scenarios {
		list = append(list, s.name)
	}
	return strings.Join(list, ", ")
}

// choose finds the scenarios of a list; "" is all.
func choose(list string) ([]scenario, error) {
	if list == "" {
		return scenarios, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("no scenario %q: there are %s", name, names())
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

// build makes the folder and the programs that are measured.
func (b *bench) build(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "parley-bench-"); err != nil {
		return err
	}
	b.floor = filepath.Join(b.dir, "floor")
	programs := map[string]string{b.floor: "parley/bench/floor"}
	if b.gateway == "" {
		b.gateway = filepath.Join(b.dir, "gateway")
		programs[b.gateway] = "parley/cmd/gateway"
	}
	for path, source := range programs {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, source)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			os.RemoveAll(b.dir)
			return fmt.Errorf("build %s: %w", source, err)
		}
	}
	return nil
}
