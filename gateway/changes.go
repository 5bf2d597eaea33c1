package gateway

import (
	"context"
	"log/slog"

	"parley/agentloop"
	"parley/config"
	"parley/conversation"
	"parley/sessions"
)

// Changes returns the service that changes sessions in a process that runs no loops, while gateways may run.
func Changes(store *conversation.Store, cfg config.Config) *sessions.Service {
	locked := sessions.WithLock(store)
	return sessions.New(store, locked, endingQuestions(store, cfg.Agent, slog.New(slog.DiscardHandler), locked), nil)
}

// endingQuestions returns exclusive access for changes that end the active conversation, which ends an open question of it first.
func endingQuestions(store *conversation.Store, agent agentloop.Config, log *slog.Logger, exclusive sessions.Exclusive) sessions.Exclusive {
	return func(ctx context.Context, key conversation.Key, do func(context.Context) error) error {
		return exclusive(ctx, key, func(ctx context.Context) error {
			if err := agentloop.EndAsking(ctx, store, agent, log, key); err != nil {
				return err
			}
			return do(ctx)
		})
	}
}
