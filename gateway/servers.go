package gateway

import (
	"context"
	"errors"
	"time"

	"parley/console"
	"parley/conversation/toollists"
	"parley/metrics"
	"parley/tools"
	"parley/tools/mcp"
)

// addServers offers the model the tools of the configured servers, as soon as they are known and
// whenever they change.
func (g *Gateway) addServers(registry *tools.Registry, o Options) {
	g.servers = mcp.New(g.cfg.MCP, mcp.Options{
		Version: g.version, Log: g.log, Lists: toollists.New(g.store), Getenv: o.Getenv, Guard: o.ServerGuard,
		AnswerTimeout: g.cfg.Tools.ApproveTimeout + time.Minute,
		Offer: func(server string, list []tools.Tool) []string {
			refused := registry.Replace(server, list)
			var names []string
			for _, tool := range list {
				names = append(names, tool.Name)
			}
			g.metrics.ExpectTools(names)
			if g.router != nil {
				g.warnOfRoom()
			}
			return refused
		},
		Called: func(c mcp.Call) {
			g.metrics.CalledServer(metrics.ServerCall{Server: c.Server, Failed: c.Failed, Took: c.Took})
		},
	})
}

// awaitTools waits until the tools of new servers are known, so that messages that are answered
// first are not answered without them.
func (g *Gateway) awaitTools(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, g.toolsTimeout)
	defer cancel()
	if starting := g.servers.AwaitTools(ctx); len(starting) > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		g.log.Warn("messages are answered without the tools of servers that are still starting", "servers", starting)
	}
}

// toolServers returns the servers as the console shows them.
func (g *Gateway) toolServers() (list []console.ToolServer) {
	for _, s := range g.servers.Status() {
		shown := console.ToolServer{
			Name: s.Name, State: s.State, Since: g.storeTime(s.Since), Endpoint: s.Endpoint, Eager: s.Eager, Offered: s.Tools, LeftOut: s.LeftOut,
			Restarts: max(s.Starts-1, 0), LastError: s.LastError, LastErrorAt: g.storeTime(s.LastErrorAt),
		}
		for _, tool := range g.servers.Tools(s.Name) {
			shown.Tools = append(shown.Tools, console.ServerTool{
				Name: tool.Tool, Offered: tool.Offered, About: tool.About, ReadOnly: tool.ReadOnly, Repeatable: tool.Repeatable, Key: tool.Key,
			})
		}
		list = append(list, shown)
	}
	return list
}

// serverState is the state of a server of tools. It does not affect whether the gateway is ready:
// without the server, calls of its tools return an error that the model reads.
type serverState struct {
	State   string    `json:"state"` // see mcp.Status
	Error   string    `json:"error,omitempty"`
	Since   time.Time `json:"since"`
	Tools   int       `json:"tools"`
	Starts  int       `json:"starts"`
	LeftOut []string  `json:"left_out,omitempty"`
}

// serverStates returns the states of the servers by name, nil without any.
func (g *Gateway) serverStates() map[string]serverState {
	if g.servers == nil || len(g.cfg.MCP) == 0 {
		return nil
	}
	states := map[string]serverState{}
	for _, s := range g.servers.Status() {
		states[s.Name] = serverState{State: s.State, Error: g.secrets.Hide(s.Error), Since: s.Since, Tools: s.Tools, Starts: s.Starts, LeftOut: s.LeftOut}
	}
	return states
}
