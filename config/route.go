package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Route is a section [[route]]: it says for which messages an agent answers. All keys that
// are set must fit. They are patterns, in which * stands for any characters.
type Route struct {
	// Agent is the name of a section [agents.NAME].
	Agent string `toml:"agent" kind:"text"`

	// Channel is an adapter.
	Channel string `toml:"channel" oneof:"telegram discord cli web api"`
	// Server is the id of a server of Discord.
	Server string `toml:"server" kind:"id"`
	// Chat is the id of a chat of Telegram, or of a channel of Discord, with its threads.
	Chat string `toml:"chat" kind:"id"`
	// Topic is the id of a topic of a forum of Telegram.
	Topic string `toml:"topic" kind:"id"`
	// Thread is the id of a thread of Discord.
	Thread string `toml:"thread" kind:"id"`
	// Person is "CHANNEL:ID", or a name of [identity].
	Person string `toml:"person"`
	// Key is that of a session, such as "web:*".
	Key string `toml:"key"`
}

// placeKeys are the keys of a route that fit places of a channel.
var placeKeys = map[string][]string{"telegram": {"chat", "topic"}, "discord": {"server", "chat", "thread"}}

// Check reports a route without an agent, and one without a condition or that nothing can fit.
func (r Route) Check(report func(key, found, allowed string)) {
	if r.Agent == "" {
		report("agent", "no agent", "the name of a section [agents.NAME]")
	} else if r == (Route{Agent: r.Agent}) {
		report("agent", "a route without a condition", "at least one of channel, server, chat, topic, thread, person and key")
	}
	for _, place := range []struct{ key, value string }{{"server", r.Server}, {"chat", r.Chat}, {"topic", r.Topic}, {"thread", r.Thread}} {
		if r.Channel != "" && place.value != "" && !slices.Contains(placeKeys[r.Channel], place.key) {
			report(place.key, fmt.Sprintf("a %s beside channel = %q, which has none", place.key, r.Channel), "server and thread for discord, topic for telegram, chat for both")
		}
	}
}

// references reports names of models, agents and people that no section has, models without a price under a cap of costs, and a
// webhook without a server.
func (d *decoder) references(root *node) {
	c, ok := d.top.Interface().(Config)
	if !ok || root == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if model := c.Agents[name].Model; model != "" {
			d.reference(root.at("agents", name, "model"), join(join("agents", name), "model"), "models", model, reflect.ValueOf(c.Models))
		}
	}
	d.unpriced(c, root)
	for name, m := range c.Models {
		if slices.Contains(m.FallbackModels, name) {
			d.problem(Problem{Line: root.at("models", name, "fallback_models").line, Key: join(join("models", name), "fallback_models"),
				Found: fmt.Sprintf("%q, which is this model", name), Allowed: "names of other models"})
		}
	}
	if c.Telegram.WebhookURL != "" && c.HTTP.Address() == "" {
		d.problem(Problem{Line: root.at("telegram", "webhook_url").line, Key: "telegram.webhook_url",
			Found: "a webhook without the HTTP server, which takes it", Allowed: `listen in the section [http], such as "127.0.0.1:8787"`})
	}
	routes := root.children["route"]
	if routes == nil {
		return
	}
	for i, route := range c.Routes {
		if route.Agent != "" {
			d.reference(routes.tables[i].at("agent"), fmt.Sprintf("route[%d].agent", i), "agents", route.Agent, reflect.ValueOf(c.Agents))
		}
		if _, known := c.Identity[route.Person]; !known && route.Person != "" && !strings.ContainsAny(route.Person, ":*") {
			d.problem(Problem{Line: routes.tables[i].at("person").line, Key: fmt.Sprintf("route[%d].person", i),
				Found: fmt.Sprintf("%q, which is not there", clip(route.Person)), Allowed: `an account such as "telegram:42", or a name of the section [identity]`})
		}
	}
}

// at returns the node of a path, or the last one on the way to it.
func (n *node) at(path ...string) *node {
	for _, name := range path {
		if n.children[name] == nil {
			break
		}
		n = n.children[name]
	}
	return n
}

// reference reports a name that no section has.
func (d *decoder) reference(at *node, key, sections, name string, known reflect.Value) {
	if known.MapIndex(reflect.ValueOf(name)).IsValid() {
		return
	}
	allowed := fmt.Sprintf("the name of a section [%s.NAME]; there is none", sections)
	if names := names(known); len(names) > 0 {
		allowed = "one of " + strings.Join(names, ", ")
	}
	d.problem(Problem{Line: at.line, Key: key, Found: fmt.Sprintf("%q, which is not there", clip(name)), Allowed: allowed})
}
