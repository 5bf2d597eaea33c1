package gateway

import (
	"context"

	"parley/activity"
	"parley/agentloop"
	"parley/channels"
	"parley/conversation"
	"parley/metrics"
)

// progress passes the progress of runs to the feed and to the channels that can show
// it, and counts finished runs. The map must be complete before the first run.
type progress struct {
	channels map[string]*served
	feed     *activity.Feed
	metrics  *metrics.Metrics
}

var _ agentloop.Watcher = progress{}

func (p progress) Working(ctx context.Context, key conversation.Key, took []conversation.Inbound, to conversation.Destination) {
	p.feed.Working(ctx, key, took[0].ID, took[len(took)-1].ID)
	if typer, ok := p.channels[to.Channel].Source.(channels.Typer); ok {
		typer.Typing(ctx, to.Address)
	}
}

// Preview shows an answer under way on its platform once the earlier replies of the
// session are sent: a preview becomes the reply, and would stand above them.
func (p progress) Preview(key conversation.Key, to conversation.Destination, text string) {
	p.feed.Preview(key, text)
	c := p.channels[to.Channel]
	if previewer, ok := c.Source.(channels.Previewer); ok && !c.sender.IsSending(key) {
		previewer.Preview(to.Address, text)
	}
}

func (p progress) Called(key conversation.Key, call agentloop.ToolCall) {
	p.feed.Tool(key, activity.ToolProgress{
		ID: call.ID, Name: call.Name, Arguments: call.Arguments, Done: call.Done, Took: call.Took, Error: call.Error,
	})
}

func (p progress) Committed(run conversation.Run, _ conversation.Committed) {
	p.feed.Committed(run.Key, run.ID())
	p.metrics.Committed(run)
}

func (p progress) Titled(key conversation.Key, to conversation.Destination, title string) {
	p.feed.Changed(key)
	if titler, ok := p.channels[to.Channel].Source.(channels.Titler); ok {
		titler.SetTitle(to.Address, title)
	}
}
