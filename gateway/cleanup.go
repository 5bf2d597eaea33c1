package gateway

import (
	"context"
	"time"

	"parley/config"
	"parley/conversation"
)

// firstCleanup is how long after the start the first cleanup comes: late enough
// not to stand in the way of what was left waiting, and early enough for a
// gateway that is often started anew.
const firstCleanup = time.Minute

// telegramKeeps is how long Telegram keeps an update that was not taken:
// https://core.telegram.org/bots/api#getting-updates
const telegramKeeps = 24 * time.Hour

// RetentionRules returns what the configuration keeps, and for how long.
func RetentionRules(cfg config.Config) conversation.Rules {
	return conversation.Rules{
		Expiration: cfg.Conversation.SessionExpiration,
		Retention:  cfg.Conversation.Retention,
		Redelivery: max(telegramKeeps, cfg.Discord.CatchUp),
	}
}

// lookEvery is how often the clock is looked at, so that the database knows for how
// long a gateway has run, whenever that ends.
const lookEvery = 10 * time.Minute

// tidy deletes what is no longer kept, a while after the start and then every
// cleanup_interval, and looks at the clock in between, until ctx ends.
func (g *Gateway) tidy(ctx context.Context, first time.Duration) {
	due := time.NewTimer(min(first, g.cfg.Conversation.CleanupInterval))
	defer due.Stop()
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	clock := clockLog{g: g}
	for {
		clock.look(ctx)
		select {
		case <-looks.C:
			continue
		case <-due.C:
		case <-ctx.Done():
			return
		}
		clock.look(ctx)
		g.cleanUp(ctx)
		due.Reset(g.cfg.Conversation.CleanupInterval)
	}
}

func (g *Gateway) cleanUp(ctx context.Context) {
	cleaned, err := g.store.Clean(ctx, RetentionRules(g.cfg), func(conversation.Outdated) {})
	if cleaned != (conversation.Cleaned{}) {
		g.log.Info("deleted what is no longer kept", "conversations", cleaned.Conversations, "messages", cleaned.Messages,
			"inbound", cleaned.Inbound, "deliveries", cleaned.Deliveries, "pairing_codes", cleaned.Pairings)
	}
	if err != nil && ctx.Err() == nil {
		g.log.Warn("the cleanup did not come to its end; trying again", "wait", g.cfg.Conversation.CleanupInterval, "error", err)
	}
}

// Clocks are set by seconds all the time, and a gateway is away for minutes when it
// is started anew: neither is worth a line.
const (
	worthAJump = time.Minute
	WorthAHold = time.Hour // how long deletion must be held back for people to be told
)

// clockLog logs what becomes of the clock.
type clockLog struct {
	g    *Gateway
	held bool // it was logged that deletion is held back
}

func (l *clockLog) look(ctx context.Context) {
	clock, err := l.g.store.LookAtClock(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.g.log.Warn("could not look at the clock; trying again", "wait", lookEvery, "error", err)
		}
		return
	}
	if clock.Jumped.Abs() >= worthAJump {
		l.g.log.Warn("clock jumped: it was set, or the machine slept", "by", clock.Jumped.Round(time.Second), "clock", clock.Machine)
	}
	switch held := clock.Held() >= WorthAHold; {
	case held && !l.held:
		l.g.log.Warn("deletion held back until a gateway has run for a day: the clock is ahead of the time that was seen to pass; if it is right, `gateway cleanup --trust-clock` says so",
			"clock", clock.Machine, "seen", clock.Trusted, "held", clock.Held().Round(time.Second))
		l.held = true
	case !held && l.held:
		l.g.log.Info("deletion goes by the clock again", "clock", clock.Machine)
		l.held = false
	}
}
