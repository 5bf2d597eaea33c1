package gateway

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"

	"parley/channels/web"
	"parley/conversation"
	"parley/conversation/maintenance"
)

// addWeb adds the chat for browsers if there is an HTTP server.
func (g *Gateway) addWeb(getenv func(string) string) {
	if g.http == nil {
		return
	}
	g.imports = newImports(g.importFolder(getenv), g.store, g.counter, g.cfg.Files.Limits(), g.feed.Changed, g.log)
	channel := web.New(web.Deps{Store: g.store, Feed: g.feed, Commands: menu(), Vision: g.sees(), MaxFile: g.cfg.Files.Limits().MaxFile, Imports: g.imports, Sessions: g.sessions, Reminders: g.reminders, Edited: g.router.Edited, Health: g.health(conversation.Account{Channel: "web"}), Log: g.log})
	channel.Serve(g.http)
	g.add(channel, conversation.Scope{Channel: channel.Name()})
}

// importFolder returns the folder of files that are being imported: beside the database, or,
// where that is on a server, one of this gateway's own in the state folder.
func (g *Gateway) importFolder(getenv func(string) string) string {
	if path := g.store.Path(); !maintenance.OnServer(path) {
		return path + ".import"
	}
	name := "import-" + url.PathEscape(g.cfg.HTTP.Address())
	return cmp.Or(statePath(getenv, name), filepath.Join(os.TempDir(), "parley-"+name))
}
