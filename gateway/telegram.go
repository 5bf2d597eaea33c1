package gateway

import (
	"errors"
	"fmt"

	"parley/channels/telegram"
	"parley/conversation/bots"
	"parley/conversation/pairing"
	"parley/conversation/places"
	"parley/httpserver"
)

func (g *Gateway) addTelegram() error {
	if g.cfg.Telegram.Token == "" {
		return nil
	}
	channel, err := telegram.New(telegram.Deps{
		Config:   g.cfg.Telegram,
		Cursor:   g.store.Cursor,
		Node:     g.store.Node(),
		Messages: edits{g.store, g.router, g.feed},
		Previews: g.store,
		Groups:   bots.New(g.store),
		Pairings: pairing.New(g.store),
		Places:   signalledPlaces{places.New(g.store), g.moved},
		Commands: menu(),
		Health:   g.health(g.cfg.Telegram.Account()),
		SetAt:    g.origins["telegram.token"].Place(),
		Log:      g.log,
	})
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if g.cfg.Telegram.WebhookURL != "" {
		if g.http == nil {
			return errors.New("webhook_url in the section [telegram] needs the HTTP server (listen in the section [http]), which does not run")
		}
		g.http.Handle("POST "+telegram.WebhookPath, httpserver.Public, channel, httpserver.KnownBy(channel.IsTelegram))
	}
	g.addBot(channel, g.cfg.Telegram.Account())
	return nil
}
