package console

import (
	"net/http"
	"time"
)

// ToolServer is a server of tools, with its state.
type ToolServer struct {
	Name     string
	State    string // idle, starting, ready or failed
	Since    time.Time
	Endpoint string // program or address of the server
	Eager    bool   // it is kept running
	Offered  int    // tools that the model is offered
	Restarts int
	LeftOut  []string // tools that are not offered, with the reason
	Tools    []ServerTool

	LastError   string // the latest error, also when the server is ready again
	LastErrorAt time.Time
}

// ServerTool is a tool of a server.
type ServerTool struct {
	Name       string // name that the server gives the tool
	Offered    string // the model's name of it; "" where the configuration does not allow it
	About      string
	ReadOnly   bool
	Repeatable bool // a call under way at a crash is made again
	Key        bool // calls have an idempotency key
}

// toolsPage is the page of the servers of tools, and of the calls that wait for an answer.
type toolsPage struct {
	Asked   []askedCall
	Servers []ToolServer
}

// showTools shows the servers of tools.
func (c *Console) showTools(w http.ResponseWriter, r *http.Request) {
	var p toolsPage
	var err error
	if p.Asked, err = c.askedCalls(r); err != nil {
		c.fail(w, r, err)
		return
	}
	if c.Servers != nil {
		p.Servers = c.Servers()
	}
	c.show(w, r, "tools.html", "tools", "Tools", p)
}
