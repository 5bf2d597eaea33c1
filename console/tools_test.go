package console_test

import (
	"testing"
	"time"

	"parley/console"
)

// The page of the tools shows the state of each server, and its tools.
func TestTheConsoleShowsServersOfTools(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, func(p *console.Deps) {
		p.Servers = func() []console.ToolServer {
			return []console.ToolServer{
				{Name: "files", State: "ready", Since: time.Now(), Endpoint: "npx", Offered: 2, Restarts: 3, LastError: "it wrote: out of cheese", LastErrorAt: time.Now(),
					LeftOut: []string{"big: its parameters take more than 64 KiB"},
					Tools: []console.ServerTool{
						{Name: "read", Offered: "files_read", About: "Reads a file.", ReadOnly: true, Repeatable: true},
						{Name: "pay", Offered: "files_pay", Key: true, Repeatable: true},
						{Name: "delete"},
					}},
				{Name: "new", State: "starting", Since: time.Now(), Endpoint: "https://tools.example/mcp"},
			}
		}
	})
	d.shows(d.browser.Page("/console/tools"), "files", `<span class="chip good">ready</span>`, "2 tools for the model", "started anew 3 times", "out of cheese",
		"its parameters take more than 64 KiB", "<code>files_read</code>", "Reads a file.", "nothing", "with its key", "not allowed",
		"https://tools.example/mcp", "Its tools are not known yet.")
}

func TestTheConsoleSaysThatThereAreNoServers(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	d.shows(d.browser.Page("/console/tools"), "No server of tools is configured.")
}
