package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/conversation"
	"parley/internal/postgrestest"
)

// onPostgres calls measure with a PostgreSQL server of its own that waits for the disk. Without PostgreSQL, nothing is measured.
func (b *bench) onPostgres(measure func(*postgrestest.Server) error) error {
	if !postgrestest.Installed() {
		b.report.missing("PostgreSQL")
		return nil
	}
	server, err := postgrestest.Run(postgrestest.Options{Fsync: true, Settings: []string{"shared_buffers = '128MB'", "max_wal_size = '4GB'"}})
	if err != nil {
		return err
	}
	defer server.Close()
	return measure(server)
}

// postgres measures one gateway on PostgreSQL: many chats, one chat, and the store alone.
func (b *bench) postgres(ctx context.Context) error {
	return b.onPostgres(func(server *postgrestest.Server) error {
		throughput := b.report.figure(fmt.Sprintf("PostgreSQL: throughput of %d chats", b.chats), "messages/s", atLeast(1200))
		cpu := b.report.figure("PostgreSQL: CPU a message, of the gateway", "ms", bar{})
		latency := b.report.figure("PostgreSQL: one chat, median", "ms", atMost(3.5))
		alone := b.report.figure("PostgreSQL: Accept, Commit and Mark alone", "messages/s", atLeast(2500))
		noticed := b.report.figure("PostgreSQL: the same with a notice each, to without", "", atLeast(0.9))
		for range b.rounds {
			taken, err := b.turnOn(ctx, server, b.chattingAndPinging)
			if err != nil {
				return err
			}
			for i, figure := range []*figure{throughput, cpu, latency} {
				figure.gateway = append(figure.gateway, taken[i])
			}
			plain, err := b.storeAlone(ctx, server, false)
			if err != nil {
				return err
			}
			withNotices, err := b.storeAlone(ctx, server, true)
			if err != nil {
				return err
			}
			alone.gateway, noticed.gateway = append(alone.gateway, plain), append(noticed.gateway, withNotices/plain)
		}
		return nil
	})
}

// chattingAndPinging returns the figures of chatting, and the median of one chat that talks alone, when the messages of all others
// are in the index of words.
func (b *bench) chattingAndPinging(ctx context.Context, f *fakes, p *process) ([]float64, error) {
	if err := f.ask(ctx, b.chats, 2); err != nil { // makes the connections, and the server's plans
		return nil, err
	}
	rate, cpu, err := b.chatting(ctx, f, p)
	if err != nil {
		return nil, err
	}
	if err := p.awaitIdle(ctx); err != nil {
		return nil, err
	}
	each, err := b.pinging(ctx, f)
	if err != nil {
		return nil, err
	}
	return []float64{rate, cpu, median(each)}, nil
}

// turnOn is turn for a gateway on a new database of a server.
func (b *bench) turnOn(ctx context.Context, server *postgrestest.Server, measure turn) ([]float64, error) {
	url, err := server.NewDatabase(ctx)
	if err != nil {
		return nil, err
	}
	return b.turn(ctx, func(ctx context.Context, f *fakes) (*process, error) { return b.startGateway(ctx, f, url) }, measure)
}

// storeAlone takes messages of many chats through the store, without a model and a platform, and returns how many a second. With
// notices it also tells another node of each.
func (b *bench) storeAlone(ctx context.Context, server *postgrestest.Server, notices bool) (float64, error) {
	url, err := server.NewDatabase(ctx)
	if err != nil {
		return 0, err
	}
	store, err := conversation.Open(ctx, conversation.Config{Path: url})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	other, err := conversation.Open(ctx, conversation.Config{Path: url})
	if err != nil {
		return 0, err
	}
	defer other.Close()
	chats := make([]storedChat, b.chats)
	run := func(n int) error {
		g, ctx := errgroup.WithContext(ctx)
		for chat := range chats {
			g.Go(func() error {
				for range n {
					if err := chats[chat].next(ctx, store, key(int64(chat+1))); err != nil {
						return err
					}
					if notices {
						if err := store.Node().Send(other.Node().ID(), "bench", fmt.Sprint(chat)); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		return g.Wait()
	}
	if err := run(2); err != nil {
		return 0, err
	}
	began := time.Now()
	err = run(b.messages)
	return float64(b.chats*b.messages) / time.Since(began).Seconds(), err
}

// storedChat is a chat of storeAlone.
type storedChat struct {
	conversation conversation.Conversation
	said         int
}

// next stores a message, the run that answers it, and that the reply is sent.
func (c *storedChat) next(ctx context.Context, s *conversation.Store, key conversation.Key) error {
	c.said++
	in, err := s.Accept(ctx, nil, conversation.Inbound{Key: key, SourceID: fmt.Sprintf("%s/%d", key, c.said), Address: "{}", Text: "A question.", At: time.Now()})
	if err != nil {
		return err
	}
	done, err := s.Commit(ctx, conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: in, Conversation: c.conversation,
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: "A question."}, {Role: conversation.RoleAssistant, Content: "An answer."}},
		Replies:  []conversation.Delivery{{Address: "{}", Text: "An answer."}},
	})
	if err != nil {
		return err
	}
	if len(done.Replies) != 1 {
		return errors.New("the store returns no reply")
	}
	c.conversation = done.Conversation
	return s.Mark(ctx, done.Replies[0], conversation.MarkSent, "")
}
