package gateway

import (
	"testing"

	"parley/agentloop"
)

// What is said of a command must be said of one that there is.
func TestOptionsBelongToCommands(t *testing.T) {
	known := map[string]bool{}
	for _, c := range agentloop.Commands() {
		known[c.Name] = true
		if (c.Arguments != "") != (len(options[c.Name]) > 0) && c.Name != "clear" {
			t.Errorf("/%s takes %q, and its options are %+v", c.Name, c.Arguments, options[c.Name])
		}
	}
	for name := range options {
		if !known[name] {
			t.Errorf("there is no command /%s", name)
		}
	}
	for name := range forAsker {
		if !known[name] {
			t.Errorf("there is no command /%s", name)
		}
	}
}
