package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools/mcp/mcptest"
)

// tools measures what a round of tools costs a run over the call of the tool and the call of
// the model that it needs, and that many sessions share one process of a server.
func (b *bench) tools(ctx context.Context) error {
	const runs, sessions = 100, 1000
	cost := b.report.figure("a round of tools, over the tool and the model's call", "ms", atMost(1))
	work := b.report.figure("a round of tools, CPU of the gateway", "ms", bar{})
	alone := b.report.figure("the tool alone, by MCP", "ms", bar{})
	processes := b.report.figure(fmt.Sprintf("processes of a server of tools that %d sessions use", sessions), "", atMost(1))
	f, err := startFakes()
	if err != nil {
		return err
	}
	defer f.close()
	f.model.Reply(lookOnce)
	command, args, err := mcptest.Command("strict", b.dir)
	if err != nil {
		return err
	}
	section, err := mcptest.Section("shop", "strict", b.dir, "")
	if err != nil {
		return err
	}
	return b.serving(ctx, f, filepath.Join(b.dir, "tools.db"), func(at front, p *process) error {
		if err := at.awaitTool(ctx); err != nil {
			return err
		}
		for round := range b.rounds {
			tool, err := toolAlone(ctx, command, args, runs)
			if err != nil {
				return err
			}
			model, err := at.sendBare(ctx, f.modelURL, 0, 0, 0, runs)
			if err != nil {
				return err
			}
			took, used := map[string]float64{}, map[string]float64{}
			for _, text := range []string{"talk", "look"} {
				if took[text], used[text], err = at.sendEach(ctx, p, fmt.Sprintf("api:%s-%d", text, round), text, runs); err != nil {
					return err
				}
			}
			alone.gateway = append(alone.gateway, tool)
			cost.gateway = append(cost.gateway, took["look"]-took["talk"]-undisturbed(model)-tool)
			work.gateway = append(work.gateway, used["look"]-used["talk"])
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(50)
		for n := range sessions {
			g.Go(func() error { return at.send(ctx, fmt.Sprintf("api:tools-%d", n), "look", nil) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		n, err := p.childrenNamed(command)
		processes.gateway = append(processes.gateway, n)
		return err
	}, section)
}

// sendEach sends a message in so many sessions, one after the other, so that no history grows. It
// returns how long an answer took and how much CPU the gateway used for it, in milliseconds.
func (at front) sendEach(ctx context.Context, p *process, session, text string, runs int) (took, used float64, err error) {
	before, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	var all []float64
	for n := range runs {
		began := time.Now()
		if err := at.send(ctx, fmt.Sprintf("%s-%d", session, n), text, nil); err != nil {
			return 0, 0, err
		}
		all = append(all, milliseconds(time.Since(began)))
	}
	after, err := p.cpu()
	return undisturbed(all), milliseconds(after-before) / float64(runs), err
}

// undisturbed returns how long something takes while nothing else uses the machine: the lowest tenth.
func undisturbed(values []float64) float64 { return quantile(values, 0.1) }

// lookOnce asks for a tool in sessions whose messages do so, and then answers.
func lookOnce(c llmtest.Call) llmtest.Answer {
	last := c.Messages[len(c.Messages)-1]
	if last.Role == "user" && strings.Contains(last.Content, "look") {
		return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: fmt.Sprint("call-", c.N), Name: "shop_look", Arguments: "{}"}}}
	}
	return llmtest.Answer{Text: "done"}
}

// awaitTool waits until the model is offered the tool.
func (at front) awaitTool(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for {
		var is struct {
			Parts struct {
				MCP map[string]struct{ Tools int }
			}
		}
		body, err := at.get(ctx, "/readyz")
		if err == nil {
			err = errors.Join(json.NewDecoder(body).Decode(&is), body.Close())
		}
		if err == nil && is.Parts.MCP["shop"].Tools > 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the server of tools is not ready: %w", errors.Join(err, ctx.Err()))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// toolAlone returns how long a call of the tool takes a client, in milliseconds.
func toolAlone(ctx context.Context, command string, args []string, calls int) (float64, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(ctx, &sdk.CommandTransport{Command: exec.CommandContext(ctx, command, args...)}, nil)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	var all []float64
	for range calls {
		began := time.Now()
		if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "look", Arguments: map[string]any{}}); err != nil {
			return 0, err
		}
		all = append(all, milliseconds(time.Since(began)))
	}
	return undisturbed(all), nil
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
