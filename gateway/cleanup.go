package gateway

import (
	"context"
	"log/slog"
	"time"

	"parley/config"
	"parley/conversation/retention"
)

// firstCleanup is the delay from the start to the first cleanup: late enough that
// the backlog is answered first, early enough for a gateway that restarts often.
const firstCleanup = time.Minute

// telegramKeeps is how long Telegram keeps an update that was not acknowledged:
// https://core.telegram.org/bots/api#getting-updates
const telegramKeeps = 24 * time.Hour

// RetentionRules returns what the configuration says about how long data is kept.
func RetentionRules(cfg config.Config) retention.Rules {
	return retention.Rules{
		Expiration: cfg.Conversation.SessionExpiration,
		Retention:  cfg.Conversation.Retention,
		Redelivery: max(telegramKeeps, cfg.Discord.CatchUp),
	}
}

// clockInterval is how often the store notes the time, so that it knows for how
// long a gateway has run even if that is killed.
const clockInterval = 10 * time.Minute

// runCleanup deletes outdated data after first and then every cleanup_interval, and
// notes the time every clockInterval, until ctx ends.
func (g *Gateway) runCleanup(ctx context.Context, first time.Duration) {
	due := time.NewTimer(min(first, g.cfg.Conversation.CleanupInterval))
	defer due.Stop()
	looks := time.NewTicker(clockInterval)
	defer looks.Stop()
	kept := retention.New(g.store)
	clock := clockLog{retention: kept, log: g.log}
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
		g.cleanUp(ctx, kept)
		due.Reset(g.cfg.Conversation.CleanupInterval)
	}
}

func (g *Gateway) cleanUp(ctx context.Context, kept *retention.Retention) {
	cleaned, err := kept.Clean(ctx, RetentionRules(g.cfg), func(retention.Outdated) {})
	if cleaned != (retention.Cleaned{}) {
		g.log.Info("cleanup finished", "conversations", cleaned.Conversations, "messages", cleaned.Messages,
			"inbound", cleaned.Inbound, "deliveries", cleaned.Deliveries, "pairing_codes", cleaned.Pairings)
	}
	if err != nil && ctx.Err() == nil {
		g.log.Warn("cleanup failed, trying again", "wait", g.cfg.Conversation.CleanupInterval, "error", err)
	}
}

// Clocks are corrected by seconds all the time, and a restart takes minutes: shorter
// times than these are not logged.
const (
	minClockJump = time.Minute
	MinHold      = time.Hour // shortest time for which deletion is held back because of the clock
)

// clockLog logs jumps of the clock, and when deletion is held back because of it.
type clockLog struct {
	retention *retention.Retention
	log       *slog.Logger
	held      bool // the log says already that deletion is held back
}

func (l *clockLog) look(ctx context.Context) {
	clock, err := l.retention.LookAtClock(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.log.Warn("clock not read, trying again", "wait", clockInterval, "error", err)
		}
		return
	}
	if clock.Jumped.Abs() >= minClockJump {
		l.log.Warn("clock jumped: it was set, or the machine slept", "by", clock.Jumped.Round(time.Second), "clock", clock.Machine)
	}
	switch held := clock.Held() >= MinHold; {
	case held && !l.held:
		l.log.Warn("deletion held back until a gateway has run for a day: the clock is ahead of the time that was seen to pass; if it is right, `gateway cleanup --trust-clock` says so",
			"clock", clock.Machine, "seen", clock.Trusted, "held", clock.Held().Round(time.Second))
		l.held = true
	case !held && l.held:
		l.log.Info("deletion goes by the clock again", "clock", clock.Machine)
		l.held = false
	}
}
