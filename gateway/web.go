package gateway

import (
	"parley/channels/web"
	"parley/conversation"
)

// addWeb adds the chat for browsers if there is an HTTP server.
func (g *Gateway) addWeb() {
	if g.http == nil {
		return
	}
	channel := web.New(web.Deps{Store: g.store, Feed: g.feed, Commands: menu(), Sessions: g.sessions, Health: g.health(conversation.Account{Channel: "web"}), Log: g.log})
	channel.Serve(g.http)
	g.add(channel, conversation.Scope{Channel: channel.Name()})
}
