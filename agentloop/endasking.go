package agentloop

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"parley/conversation"
	"parley/conversation/retry"
	"parley/llm"
	"parley/tools"
)

// EndAsking ends the run of a session that waits for the answer of a person, as ExclusivelyEnding does, in a process that runs no
// loops. The caller holds the session's lock. Chats are sent nothing, since no process might send it for a long time: what
// is typed or pressed later says that the question is over.
func EndAsking(ctx context.Context, store *conversation.Store, config Config, log *slog.Logger, key conversation.Key) error {
	none, err := tools.NewRegistry()
	if err != nil {
		return err
	}
	model := llm.NewOffline()
	const budget = 1000 // tokens: the last turn is enough
	l := newLoop(NewRouter(Deps{Config: config, Store: store, Model: model, Counter: llm.NewCounter(model.Model()), Tools: none, Budget: budget, Log: log}), key)
	run, found, ok := l.askingRun(ctx)
	if !ok {
		return errors.Join(ctx.Err(), errors.New("the open question of a tool call can't be ended"))
	}
	if !found {
		return nil
	}
	run.Journal = l.unfinished.ID
	run.Replies = slices.DeleteFunc(run.Replies, func(d conversation.Delivery) bool { return !d.Keep })
	return retry.Persist(ctx, log, "end the open question of "+string(key), func() error {
		_, err := store.Commit(ctx, run)
		if errors.Is(err, conversation.ErrSettled) {
			err = nil
		}
		return err
	})
}
