package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools/mcp/mcptest"
)

// tools measures what a round of tools adds to a run. The floor makes the same calls of the tool and of the model, and
// stores nothing. Then it counts the processes of a server that many sessions use.
func (b *bench) tools(ctx context.Context) error {
	const runs, sessions = 100, 1000
	figures := []*figure{
		b.report.figure("a round of tools, with its call of the model", "ms", moreAtMost(1)),
		b.report.figure("a round of tools, CPU", "ms", bar{}),
	}
	processes := b.report.figure(fmt.Sprintf("processes of a server of tools that %d sessions use", sessions), "", atMost(1))
	command, args, err := mcptest.Command("strict", b.dir)
	if err != nil {
		return err
	}
	section, err := mcptest.Section("shop", "strict", b.dir, "")
	if err != nil {
		return err
	}
	with := extras{floor: append([]string{"-tools", command}, args...), gateway: []string{section}}
	err = b.turns(ctx, with, figures, func(ctx context.Context, f *fakes, p *process) ([]float64, error) {
		if err := f.awaitTool(ctx); err != nil {
			return nil, err
		}
		talk, talkCPU, err := f.askInTurn(ctx, p, "talk", 1, runs)
		if err != nil {
			return nil, err
		}
		look, lookCPU, err := f.askInTurn(ctx, p, "look", 1+runs, runs)
		return []float64{look - talk, lookCPU - talkCPU}, err
	}, nil)
	if err != nil {
		return err
	}
	counted, err := b.turn(ctx, func(ctx context.Context, f *fakes) (*process, error) {
		return b.startGateway(ctx, f, filepath.Join(b.dir, "tools.db"), section)
	}, func(ctx context.Context, f *fakes, p *process) ([]float64, error) {
		if err := f.awaitTool(ctx); err != nil {
			return nil, err
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(50)
		for chat := range sessions {
			g.Go(func() error {
				_, err := f.talk(int64(chat+1)).askFor(ctx, "look", "done")
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		n, err := p.childrenNamed(command)
		return []float64{n}, err
	})
	processes.gateway = counted
	return err
}

// askInTurn sends a message in each of so many new chats, one after the other, so that no history grows. It
// returns how long an answer takes while nothing else uses the machine, which is the lowest tenth, and how much CPU the program
// uses for it, in milliseconds.
func (f *fakes) askInTurn(ctx context.Context, p *process, text string, first, chats int) (took, used float64, err error) {
	before, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	var all []float64
	for n := range chats {
		d, err := f.talk(int64(first+n)).askFor(ctx, text, "done")
		if err != nil {
			return 0, 0, err
		}
		all = append(all, milliseconds(d))
	}
	after, err := p.cpu()
	return quantile(all, 0.1), milliseconds(after-before) / float64(chats), err
}

// awaitTool waits until the model is offered the tool, and has it asked for from then on in chats whose messages do so.
func (f *fakes) awaitTool(ctx context.Context) error {
	const probe = int64(1_000_000) // a chat
	var offered atomic.Bool
	f.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if slices.ContainsFunc(c.Tools, func(t llm.Tool) bool { return t.Name == "shop_look" }) {
			offered.Store(true)
		}
		return lookOnce(c)
	})
	for began := time.Now(); !offered.Load(); {
		if _, err := f.talk(probe).askFor(ctx, "talk", "done"); err != nil {
			return err
		}
		if time.Since(began) > answerTimeout {
			return errors.New("the model is not offered the tool")
		}
	}
	return nil
}

// lookOnce asks for a tool in sessions whose messages do so, and then answers.
func lookOnce(c llmtest.Call) llmtest.Answer {
	last := c.Messages[len(c.Messages)-1]
	if last.Role == "user" && strings.Contains(last.Content, "look") {
		return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: fmt.Sprint("call-", c.N), Name: "shop_look", Arguments: "{}"}}}
	}
	return llmtest.Answer{Text: "done"}
}

// childrenNamed returns how many children of the process run a program.
func (p *process) childrenNamed(program string) (float64, error) {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, folder := range folders {
		stat, err := os.ReadFile(filepath.Join("/proc", folder.Name(), "stat"))
		if err != nil {
			continue // no process, or one that has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		path, err := os.Readlink(filepath.Join("/proc", folder.Name(), "exe"))
		if err == nil && path == program && len(fields) > 1 && fields[1] == strconv.Itoa(p.cmd.Process.Pid) {
			n++
		}
	}
	return float64(n), nil
}
