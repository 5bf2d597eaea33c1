package gateway

import (
	"parley/channels/web"
	"parley/conversation"
)

// addWeb puts the chat for browsers into service, where HTTP is.
func (g *Gateway) addWeb() {
	if g.http == nil {
		return
	}
	channel := web.New(web.Parts{Store: g.store, Feed: g.feed, Commands: menu(), Sessions: g.sessions, Health: g.health(conversation.Account{Channel: "web"}), Log: g.log})
	channel.Serve(g.http)
	g.add(channel, conversation.Scope{Channel: channel.Name()})
}
