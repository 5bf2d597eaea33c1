package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"parley/conversation"
	"parley/llm/llmtest"
)

// turn is one measurement of one program, which is given running.
type turn func(ctx context.Context, f *fakes, p *process) ([]float64, error)

// extras is what the programs are started with beside the usual.
type extras struct {
	floor   []string // arguments of the floor's program
	gateway []string // sections of the gateway's configuration
}

// turns measures floor and gateway by turns, each freshly started, and adds
// what each turn gives to the figures, one for one. settled, if not nil, is
// called with the database of each gateway after it was killed.
func (b *bench) turns(ctx context.Context, with extras, figures []*figure, measure turn, settled func(database string) error) error {
	for round := range b.rounds {
		floor, err := b.turn(ctx, func(ctx context.Context, f *fakes) (*process, error) {
			return b.startFloor(ctx, f, with.floor...)
		}, measure)
		if err != nil {
			return err
		}
		database := filepath.Join(b.dir, fmt.Sprintf("talk-%d-%d.db", len(b.report.Figures), round))
		gateway, err := b.turn(ctx, func(ctx context.Context, f *fakes) (*process, error) {
			return b.startGateway(ctx, f, database, with.gateway...)
		}, measure)
		if err == nil && settled != nil {
			err = settled(database)
		}
		if err != nil {
			return err
		}
		for i, f := range figures {
			f.floor = append(f.floor, floor[i])
			f.gateway = append(f.gateway, gateway[i])
		}
	}
	return nil
}

func (b *bench) turn(ctx context.Context, start func(context.Context, *fakes) (*process, error), measure turn) ([]float64, error) {
	f, err := startFakes()
	if err != nil {
		return nil, err
	}
	defer f.close()
	p, err := start(ctx, f)
	if err != nil {
		return nil, err
	}
	values, err := measure(ctx, f, p)
	if err == nil {
		err = f.silence()
	}
	p.kill()
	return values, p.told(err)
}

// load measures many chats at once: in each the next message is written when the
// last was answered.
func (b *bench) load(ctx context.Context) error {
	figures := []*figure{
		b.report.figure(fmt.Sprintf("throughput of %d chats", b.chats), "messages/s", ratioAtLeast(0.4)),
		b.report.figure("CPU a message", "ms", ratioAtMost(2.5)),
	}
	measure := func(ctx context.Context, f *fakes, p *process) ([]float64, error) {
		if err := f.ask(ctx, b.chats, 1); err != nil { // makes the connections
			return nil, err
		}
		rate, cpu, err := b.chatting(ctx, f, p)
		return []float64{rate, cpu}, err
	}
	return b.turns(ctx, extras{}, figures, measure, func(database string) error {
		return checkStored(ctx, database, b.chats, b.messages+1)
	})
}

// chatting has all chats talk, and returns how many messages are answered a second and the CPU time that p takes
// for each, in ms.
func (b *bench) chatting(ctx context.Context, f *fakes, p *process) (rate, cpu float64, err error) {
	before, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := f.ask(ctx, b.chats, b.messages); err != nil {
		return 0, 0, err
	}
	took := time.Since(began)
	after, err := p.cpu()
	n := float64(b.chats * b.messages)
	return n / took.Seconds(), milliseconds(after-before) / n, err
}

// pinging has one chat talk alone, and returns how long each answer takes, in ms.
func (b *bench) pinging(ctx context.Context, f *fakes) (took []float64, err error) {
	for range b.pings {
		d, err := f.talk(1).ask(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, milliseconds(d))
	}
	return took, nil
}

// checkStored returns an error if not all turns are stored.
func checkStored(ctx context.Context, database string, chats, turns int) error {
	store, err := conversation.Open(ctx, conversation.Config{Path: database})
	if err != nil {
		return err
	}
	defer store.Close()
	for chat := range chats {
		c, err := store.Active(ctx, key(int64(chat+1)))
		if err != nil {
			return err
		}
		if want := int64(2 * turns); c.Messages != want {
			return fmt.Errorf("chat %d has %d messages stored instead of %d", chat+1, c.Messages, want)
		}
	}
	left, err := store.Inbox(ctx, "", 1000)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d answered messages are stored as not answered", len(left))
	}
	return err
}

// latency measures one chat alone, from the message to its answer in the chat, after
// others have talked: a gateway that has served for a minute has its connections
// open and its files at their size.
func (b *bench) latency(ctx context.Context) error {
	figures := []*figure{
		b.report.figure("one chat, median", "ms", ratioAtMost(3)),
		b.report.figure("one chat, 95th percentile", "ms", bar{}),
		b.report.figure("one chat, CPU a message", "ms", bar{}),
	}
	return b.turns(ctx, extras{}, figures, func(ctx context.Context, f *fakes, p *process) ([]float64, error) {
		if err := f.ask(ctx, 50, 8); err != nil {
			return nil, err
		}
		before, err := p.cpu()
		if err != nil {
			return nil, err
		}
		took, err := b.pinging(ctx, f)
		if err != nil {
			return nil, err
		}
		after, err := p.cpu()
		return []float64{median(took), quantile(took, 0.95), milliseconds(after-before) / float64(b.pings)}, err
	}, nil)
}

// slowModel measures many chats whose model thinks for a second, all at once.
func (b *bench) slowModel(ctx context.Context) error {
	figures := []*figure{
		b.report.figure(fmt.Sprintf("%d chats, model of 1 s, all answered", b.slow), "s", atMost(2)),
	}
	return b.turns(ctx, extras{}, figures, func(ctx context.Context, f *fakes, p *process) ([]float64, error) {
		if err := f.ask(ctx, 1, 1); err != nil {
			return nil, err
		}
		f.model.Reply(func(c llmtest.Call) llmtest.Answer {
			return llmtest.Answer{Text: llmtest.Echo(c).Text, Delay: time.Second}
		})
		began := time.Now()
		err := f.ask(ctx, b.slow, 1)
		return []float64{time.Since(began).Seconds()}, err
	}, nil)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
