package access

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"parley/channels"
)

// Strangers are told how to be let in without delaying the intake, and at a rate that
// leaves most of the platform's rate limit to those who may talk.
const (
	toldPerSecond = 10
	toldAtOnce    = 30
	maxTelling    = 32   // messages that are being sent to the platform
	maxTold       = 1000 // strangers who wait to be told: as many as get a code at once
)

// telling is the queue of messages to strangers.
type telling struct {
	queue  chan told
	pace   *rate.Limiter
	outage *channels.Outage
}

type told struct {
	id   string
	send func(context.Context) error
}

func newTelling(log *slog.Logger) telling {
	return telling{queue: make(chan told, maxTold), pace: rate.NewLimiter(toldPerSecond, toldAtOnce), outage: channels.NewOutage(log)}
}

// Tell has TellStrangers call send, which sends a stranger the words that Admit
// returned. It does not block. When too many wait, or the platform fails, the
// stranger's next message is answered instead; when the platform refuses the
// words for good, which send reports by a *channels.SendError, a message some
// minutes later is.
func (a *Control) Tell(id string, send func(ctx context.Context) error) {
	select {
	case a.telling.queue <- told{id, send}:
	default:
		a.notTold(id)
	}
}

// TellStrangers calls what was passed to Tell, until ctx ends. It returns nil.
func (a *Control) TellStrangers(ctx context.Context) error {
	var sending errgroup.Group
	sending.SetLimit(maxTelling)
	defer sending.Wait()
	for {
		select {
		case t := <-a.telling.queue:
			if a.telling.pace.Wait(ctx) != nil {
				return nil
			}
			sending.Go(func() error { a.tell(ctx, t); return nil })
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *Control) tell(ctx context.Context, t told) {
	err := t.send(ctx)
	if err == nil {
		a.telling.outage.Succeeded("", "pairing instructions are sent again")
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	a.telling.outage.Failed("", channels.Trouble{Level: slog.LevelWarn, Text: "pairing instructions not sent"}, "id", t.id, "error", err)
	var refused *channels.SendError
	if !errors.As(err, &refused) || !refused.Permanent {
		a.notTold(t.id)
	}
}

func (a *Control) notTold(id string) {
	if a.pairing != nil {
		a.pairing.unmute(id)
	}
}
