package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/conversation/storetest"
)

// start measures the time from exec to the first poll.
func (b *bench) start(ctx context.Context) error {
	large := filepath.Join(b.dir, "large.db")
	const each = 1000 // messages of a conversation
	if err := storetest.Fill(ctx, large, storetest.Filling{First: 1, Sessions: max(1, b.stored/each), Messages: each}); err != nil {
		return err
	}
	fresh := b.report.figure("ready, no database yet", "ms", atMost(50))
	filled := b.report.figure(fmt.Sprintf("ready, database of %d messages", b.stored), "ms", atMost(50))
	for round := range 2*b.rounds + 1 {
		floor, err := b.ready(ctx, func(ctx context.Context, f *fakes) (*process, error) { return b.startFloor(ctx, f) })
		if err != nil {
			return err
		}
		databases := map[*figure]string{fresh: filepath.Join(b.dir, fmt.Sprintf("fresh-%d.db", round)), filled: large}
		for figure, database := range databases {
			gateway, err := b.ready(ctx, func(ctx context.Context, f *fakes) (*process, error) {
				return b.startGateway(ctx, f, database)
			})
			if err != nil {
				return err
			}
			figure.floor, figure.gateway = append(figure.floor, floor), append(figure.gateway, gateway)
		}
	}
	return nil
}

// ready returns the milliseconds that a program takes to its first poll.
func (b *bench) ready(ctx context.Context, start func(context.Context, *fakes) (*process, error)) (float64, error) {
	f, err := startFakes()
	if err != nil {
		return 0, err
	}
	defer f.close()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	began := time.Now()
	p, err := start(ctx, f)
	if err != nil {
		return 0, err
	}
	err = f.telegram.WaitCalls(ctx, "getUpdates", 1)
	took := time.Since(began)
	p.kill()
	return milliseconds(took), p.told(err)
}

// rest is how long a program is left alone before its memory is read.
const rest = 3 * time.Second

// forgotten is when a gateway has ended the loops of silent sessions, and had
// a moment to give their memory back.
const forgotten = 5*time.Second + 10*time.Second

// memory measures the resident memory of a gateway: idle, and after many sessions have spoken.
func (b *bench) memory(ctx context.Context) error {
	idle := b.report.figure("idle", "MiB", atMost(25))
	own := b.report.figure("idle, without pages of the program's file", "MiB", bar{})
	spoken := b.report.figure("idle after one message", "MiB", bar{})
	added := b.report.figure(fmt.Sprintf("added by %d silent sessions", b.silent), "MiB", atMost(10))
	f, err := startFakes()
	if err != nil {
		return err
	}
	defer f.close()
	p, err := b.startGateway(ctx, f, filepath.Join(b.dir, "memory.db"))
	if err != nil {
		return err
	}
	measure := func() error {
		if err := settle(ctx, p, rest, idle); err != nil {
			return err
		}
		anonymous, err := p.memory(private)
		if err != nil {
			return err
		}
		own.gateway = append(own.gateway, anonymous)
		if err := f.ask(ctx, 1, 1); err != nil {
			return err
		}
		if err := settle(ctx, p, forgotten, spoken); err != nil {
			return err
		}
		if err := f.askEach(ctx, b.silent); err != nil {
			return err
		}
		if err := settle(ctx, p, forgotten, added); err != nil {
			return err
		}
		added.gateway[0] -= spoken.gateway[0]
		return nil
	}
	err = measure()
	p.kill()
	return p.told(err)
}

// settle adds to a figure what the process has resident after a while.
func settle(ctx context.Context, p *process, after time.Duration, to *figure) error {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	mib, err := p.memory(resident)
	to.gateway = append(to.gateway, mib)
	return err
}

// askEach asks once in each of many chats, a hundred at a time.
func (f *fakes) askEach(ctx context.Context, chats int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(100)
	for chat := range chats {
		g.Go(func() error {
			_, err := f.talk(int64(chat + 100)).ask(ctx)
			return err
		})
	}
	return g.Wait()
}

// open compares the answer in a long conversation with that in a short one.
// Either fills the window, which is kept small so that it does not hide what
// the opening costs; the gateway opens a conversation anew for every answer.
func (b *bench) open(ctx context.Context) error {
	const short, asked = 100, 40
	const smallWindow = "[conversation]\nmax_tokens = 4000\n"
	database := filepath.Join(b.dir, "open.db")
	for chat, messages := range []int{short, b.long} {
		if err := storetest.Fill(ctx, database, storetest.Filling{First: chat + 1, Sessions: 1, Messages: messages}); err != nil {
			return err
		}
	}
	took := [2]*figure{
		b.report.figure(fmt.Sprintf("answer in a conversation of %d messages", short), "ms", bar{}),
		b.report.figure(fmt.Sprintf("answer in a conversation of %d messages", b.long), "ms", bar{}),
	}
	ratio := b.report.figure(fmt.Sprintf("%d messages to %d messages", b.long, short), "", atMost(2))
	_, err := b.turn(ctx, func(ctx context.Context, f *fakes) (*process, error) {
		return b.startGateway(ctx, f, database, smallWindow)
	}, func(ctx context.Context, f *fakes, _ *process) ([]float64, error) {
		for i := range 2 * asked {
			d, err := f.talk(int64(i%2 + 1)).ask(ctx)
			if err != nil {
				return nil, err
			}
			took[i%2].gateway = append(took[i%2].gateway, milliseconds(d))
		}
		return nil, nil
	})
	ratio.gateway = []float64{median(took[1].gateway) / median(took[0].gateway)}
	return err
}
