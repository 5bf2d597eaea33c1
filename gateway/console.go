package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"parley/config"
	"parley/console"
	"parley/conversation"
	"parley/conversation/deferred"
	"parley/embedding"
	"parley/llm"
)

// addConsole adds the operator's pages if there is an HTTP server. All channels
// must have been added.
func (g *Gateway) addConsole() {
	if g.http == nil {
		return
	}
	deps := console.Deps{
		Store:     g.store,
		Now:       g.store.Now,
		Feed:      g.feed,
		Lines:     g.lines,
		Channels:  g.accounts(),
		Settings:  settings(g.cfg, g.origins),
		Facts:     g.facts(),
		Cost:      g.cfg.Prices().Cost,
		Currency:  g.cfg.LLM.Currency,
		Caps:      g.budgets,
		Reminders: g.reminders,
		Models:    g.shownModels,
		Window:    g.consoleWindow,
		Look:      g.look,
		Retry: func(ctx context.Context) (deferred.Retried, error) {
			return RetryUnanswered(ctx, g.store, time.Time{})
		},
		Sessions: g.sessions,
		Answered: g.answered,
		IsEnding: g.ending.Load,

		MayAnswer: g.operatorMayAnswer,
		Log:       g.log,
	}
	if len(g.cfg.MCP) > 0 {
		deps.Servers = g.toolServers
	}
	if g.vectors != nil {
		deps.Embeddings = func(ctx context.Context) (embedding.Status, error) {
			status, err := g.vectors.Status(ctx)
			status.Since = g.storeTime(status.Since)
			return status, err
		}
	}
	console.New(deps).Serve(g.http)
}

// storeTime returns what the store's clock showed when this process's own showed a time. The zero time stays zero.
func (g *Gateway) storeTime(own time.Time) time.Time {
	if own.IsZero() {
		return own
	}
	return g.store.At(own)
}

// shownModels returns the states of the models with times by the store's clock.
func (g *Gateway) shownModels() []llm.Health {
	list := g.modelHealth()
	for i := range list {
		list[i].Since = g.storeTime(list[i].Since)
	}
	return list
}

// accounts returns the channels in service with the bots that serve them, sorted by name.
func (g *Gateway) accounts() []conversation.Account {
	var list []conversation.Account
	for _, name := range slices.Sorted(maps.Keys(g.channels)) {
		list = append(list, conversation.Account{Channel: name, ID: g.channels[name].scope.Account})
	}
	return list
}

func settings(cfg config.Config, origins config.Origins) []console.Setting {
	var list []console.Setting
	for _, s := range cfg.Settings(origins) {
		list = append(list, console.Setting(s))
	}
	return list
}

// facts returns what the console shows above the settings.
func (g *Gateway) facts() []console.Fact {
	facts := []console.Fact{
		{Name: "Version", Value: g.version},
		{Name: "Database", Value: g.store.Path()},
		{Name: "Model", Value: g.choice.Description()},
		{Name: "Context window", Value: fmt.Sprintf("%d tokens", g.choice.ContextWindow)},
	}
	for _, m := range g.models.List()[1:] {
		facts = append(facts, console.Fact{Name: "Model " + m.Name, Value: fmt.Sprintf("%s at %s, %d tokens", m.Choice.Model, m.Choice.Host, m.Choice.ContextWindow)})
	}
	return facts
}

// look makes a channel's sender read what is due in a session. The sender of a
// channel that another process serves finds it by itself.
func (g *Gateway) look(channel string, key conversation.Key) {
	if c := g.channels[channel]; c != nil {
		c.sender.EnqueueDue(key)
	}
}

// consoleWindow returns what the model would be sent, as the console shows it.
func (g *Gateway) consoleWindow(ctx context.Context, key conversation.Key) (console.Window, error) {
	w, err := g.router.Window(ctx, key)
	if err != nil {
		return console.Window{}, err
	}
	shown := console.Window{Conversation: w.Conversation.ID, Left: w.Left, Tokens: w.Tokens, Budget: w.Budget}
	for _, tool := range w.Tools {
		shown.Tools = append(shown.Tools, tool.Name)
	}
	for _, m := range w.Messages {
		shown.Messages = append(shown.Messages, asStored(m))
	}
	return shown, nil
}
