package gateway

import (
	"context"
	"fmt"
	"time"

	"parley/activity"
	"parley/agentloop"
	"parley/channels/discord"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/pairing"
)

func (g *Gateway) addDiscord() error {
	if g.cfg.Discord.Token == "" {
		return nil
	}
	channel, err := discord.New(discord.Deps{
		Config:   g.cfg.Discord,
		Node:     g.store.Node(),
		Store:    edits{g.store, g.router, g.feed},
		Previews: g.store,
		Groups:   bots.New(g.store),
		Pairings: pairing.New(g.store),
		Commands: menu(),
		Health:   g.health(g.cfg.Discord.Account()),
		SetAt:    g.origins["discord.token"].Place(),
		Log:      g.log,
	})
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	g.addBot(channel, g.cfg.Discord.Account())
	return nil
}

// edits stores edits and deletions, and tells the sessions about them.
type edits struct {
	*conversation.Store
	router *agentloop.Router
	feed   *activity.Feed
}

func (e edits) Edit(ctx context.Context, of conversation.Account, sourceID, text string, at time.Time) error {
	key, err := e.Store.Edit(ctx, of, sourceID, text, at)
	return e.notify(key, err)
}

func (e edits) Withdraw(ctx context.Context, of conversation.Account, sourceID string) error {
	key, err := e.Store.Withdraw(ctx, of, sourceID)
	if err == nil && key != "" {
		e.router.Withdrawn(key, sourceID)
		e.feed.Changed(key)
	}
	return err
}

func (e edits) notify(key conversation.Key, err error) error {
	if err == nil && key != "" {
		e.router.Edited(key)
		e.feed.Changed(key)
	}
	return err
}
