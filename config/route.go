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

// Check reports a route without an agent, and one without a condition.
func (r Route) Check(report func(key, found, allowed string)) {
	if r.Agent == "" {
		report("agent", "no agent", "the name of a section [agents.NAME]")
	} else if r == (Route{Agent: r.Agent}) {
		report("agent", "a route without a condition", "at least one of channel, server, chat, topic, thread, person and key")
	}
}

// references reports names of models and agents that no section has.
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
	for name, m := range c.Models {
		if slices.Contains(m.FallbackModels, name) {
			d.problem(Problem{Line: root.at("models", name, "fallback_models").line, Key: join(join("models", name), "fallback_models"),
				Found: fmt.Sprintf("%q, which is this model", name), Allowed: "names of other models"})
		}
	}
	routes := root.children["route"]
	if routes == nil {
		return
	}
	for i, route := range c.Routes {
		if route.Agent != "" && len(routes.tables) > i {
			d.reference(routes.tables[i].at("agent"), fmt.Sprintf("route[%d].agent", i), "agents", route.Agent, reflect.ValueOf(c.Agents))
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
