package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/internal/postgrestest"
	"parley/llm/llmtest"
)

// nodesOf starts so many gateways on a database, which serve HTTP and nothing else, and ends them with stop.
func (b *bench) nodesOf(ctx context.Context, f *fakes, url string, n int) (nodes []*benchNode, stop func(), err error) {
	stop = func() {
		for _, node := range nodes {
			node.process.kill()
			node.at.client.CloseIdleConnections()
		}
	}
	for number := range n {
		node, err := b.startNode(ctx, f, url, number)
		if err == nil {
			nodes = append(nodes, node)
			err = node.at.awaitReady(ctx)
		}
		if err != nil {
			stop()
			return nil, stop, err
		}
	}
	return nodes, stop, nil
}

// benchNode is a gateway of a cluster.
type benchNode struct {
	at      front
	process *process
}

func (b *bench) startNode(ctx context.Context, f *fakes, url string, number int) (*benchNode, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now
	if err != nil {
		return nil, err
	}
	listen := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	config := filepath.Join(b.dir, fmt.Sprintf("node-%d.toml", number))
	text := fmt.Sprintf(`database = %q
[llm]
base_url = %q
api_key = "none"
model = "test-model"
[agent]
titles = false
max_concurrent_runs = %d
[http]
listen = %q
token = %q
`, url, f.modelURL, b.slots, listen, httpToken)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := start(ctx, b.gateway, "run", "-c", config)
	return &benchNode{front{"http://" + listen, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}}, p}, err
}

// nodes measures how much more several gateways answer than one, with a model that takes a second.
func (b *bench) nodes(ctx context.Context) error {
	return b.onPostgres(func(server *postgrestest.Server) error {
		one := b.report.figure(fmt.Sprintf("model of 1 s, %d runs at a time: one node", b.slots), "messages/s", bar{})
		more := map[int]*figure{
			2: b.report.figure("2 nodes, to one", "", atLeast(1.8)),
			4: b.report.figure("4 nodes, to one", "", atLeast(3.4)),
		}
		for range b.rounds {
			alone, err := b.answers(ctx, server, 1)
			if err != nil {
				return err
			}
			one.gateway = append(one.gateway, alone)
			for n, figure := range more {
				rate, err := b.answers(ctx, server, n)
				if err != nil {
					return err
				}
				figure.gateway = append(figure.gateway, rate/alone)
			}
		}
		return nil
	})
}

// answers returns how many messages so many gateways answer a second, when there are twice as many sessions as they have
// room for.
func (b *bench) answers(ctx context.Context, server *postgrestest.Server, nodes int) (float64, error) {
	const each = 4 // messages of a session
	url, err := server.NewDatabase(ctx)
	if err != nil {
		return 0, err
	}
	f, err := startFakes()
	if err != nil {
		return 0, err
	}
	defer f.close()
	f.model.Reply(func(c llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: llmtest.Echo(c).Text, Delay: time.Second}
	})
	list, stop, err := b.nodesOf(ctx, f, url, nodes)
	if err != nil {
		return 0, err
	}
	defer stop()
	sessions := 2 * b.slots * nodes
	began := time.Now()
	g, talking := errgroup.WithContext(ctx)
	for session := range sessions {
		g.Go(func() error {
			for range each {
				body, err := list[session%nodes].at.say(talking, fmt.Sprint("api:", session), "A question.", false)
				if err != nil {
					return err
				}
				if err := body.Close(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	return float64(sessions*each) / time.Since(began).Seconds(), err
}

// failover measures how long messages wait whose gateway is killed while it answers them, until another one has answered, and how
// long an orderly stop takes.
func (b *bench) failover(ctx context.Context) error {
	const sessions = 20
	return b.onPostgres(func(server *postgrestest.Server) error {
		took := b.report.figure("from the death of a node to the answer by another, median", "s", bar{})
		worst := b.report.figure("the same, 99th percentile", "s", atMost(8))
		ended := b.report.figure("orderly stop of a node: until its process has ended", "s", atMost(1))
		handed := b.report.figure("orderly stop: until others have answered in its sessions, 99th percentile", "s", atMost(1))
		url, err := server.NewDatabase(ctx)
		if err != nil {
			return err
		}
		f, err := startFakes()
		if err != nil {
			return err
		}
		defer f.close()
		list, stop, err := b.nodesOf(ctx, f, url, 3)
		if err != nil {
			return err
		}
		defer stop()
		for round := range b.failovers {
			waits, err := b.killOne(ctx, f, list, round, sessions)
			if err != nil {
				return err
			}
			took.gateway = append(took.gateway, waits...)
			if err := b.startAnew(ctx, f, url, list); err != nil {
				return err
			}
		}
		worst.gateway = []float64{quantile(took.gateway, 0.99)}
		f.model.Reply(llmtest.Echo)
		var all []float64
		for range b.failovers {
			end, waits, err := stopOne(ctx, list, sessions)
			if err != nil {
				return err
			}
			ended.gateway, all = append(ended.gateway, end), append(all, waits...)
			if err := b.startAnew(ctx, f, url, list); err != nil {
				return err
			}
		}
		handed.gateway = []float64{quantile(all, 0.99)}
		return nil
	})
}

// startAnew starts the first gateway, which has ended, and waits until it serves.
func (b *bench) startAnew(ctx context.Context, f *fakes, url string, list []*benchNode) (err error) {
	list[0].at.client.CloseIdleConnections()
	if list[0], err = b.startNode(ctx, f, url, 0); err != nil {
		return err
	}
	return list[0].at.awaitReady(ctx)
}

// stopOne has the first gateway answer in some sessions, and stops it in order when it has. It returns after how many seconds the
// process has ended, and how long it then takes from the signal until the others have answered in each session.
func stopOne(ctx context.Context, list []*benchNode, sessions int) (ended float64, waits []float64, err error) {
	say := func(ctx context.Context, node *benchNode, session int) error {
		body, err := node.at.say(ctx, fmt.Sprint("api:stopped-", session), "A question.", false)
		if err != nil {
			return err
		}
		return body.Close()
	}
	before, asking := errgroup.WithContext(ctx)
	for session := range sessions {
		before.Go(func() error { return say(asking, list[0], session) })
	}
	if err := before.Wait(); err != nil {
		return 0, nil, err
	}
	began := time.Now()
	if err := list[0].process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, nil, err
	}
	after, talking := errgroup.WithContext(ctx)
	waits = make([]float64, sessions)
	for session := range sessions {
		after.Go(func() error {
			err := say(talking, list[1+session%(len(list)-1)], session)
			waits[session] = time.Since(began).Seconds()
			return err
		})
	}
	if err := list[0].process.cmd.Wait(); err != nil {
		return 0, nil, err
	}
	ended = time.Since(began).Seconds()
	return ended, waits, after.Wait()
}

// killOne kills the first gateway while it answers in some sessions, and returns how many seconds each then waits.
func (b *bench) killOne(ctx context.Context, f *fakes, list []*benchNode, round, sessions int) (waits []float64, err error) {
	dying, killed := make(chan struct{}), make(chan struct{}) // the model answers after the second one
	all := askedOften(ctx, f.model, sessions, killed)
	doomed, others := list[0], list[1:]
	g, talking := errgroup.WithContext(ctx)
	waits = make([]float64, sessions)
	var died time.Time
	for session := range sessions {
		say := func(node *benchNode) error {
			id := fmt.Sprintf("%d-%d", round, session)
			body, err := node.at.sayOnce(talking, "api:"+id, "A question.", false, id)
			if err != nil {
				return err
			}
			return body.Close()
		}
		g.Go(func() error {
			err := say(doomed)
			select {
			case <-dying:
			default:
				return fmt.Errorf("a message ended before its gateway was killed: %w", err)
			}
			for tried := 0; ; tried++ { // the others refuse no message, but one may not be ready yet
				err := say(others[(session+tried)%len(others)])
				if err == nil {
					waits[session] = time.Since(died).Seconds() // which is set before dying is closed
					return nil
				}
				if talking.Err() != nil || tried > 100 {
					return err
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	select {
	case <-all:
	case <-talking.Done():
		return nil, g.Wait()
	case <-time.After(answerTimeout):
		return nil, fmt.Errorf("the model was not asked about all %d messages", sessions)
	}
	died = time.Now()
	close(dying)
	doomed.process.kill()
	close(killed)
	err = g.Wait()
	return waits, err
}

// askedOften has a model answer once released is closed. The channel that it returns is closed when the model was called so often.
func askedOften(ctx context.Context, model *llmtest.Server, calls int, released <-chan struct{}) <-chan struct{} {
	all := make(chan struct{})
	var called atomic.Int64
	model.Reply(func(c llmtest.Call) llmtest.Answer {
		if called.Add(1) == int64(calls) {
			close(all)
		}
		select {
		case <-released:
		case <-ctx.Done():
		}
		return llmtest.Echo(c)
	})
	return all
}
