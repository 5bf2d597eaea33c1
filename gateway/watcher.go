package gateway

import (
	"context"
	"slices"
	"time"

	"parley/activity"
	"parley/agentloop"
	"parley/channels"
	"parley/channels/cli"
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
	p.preview(key, to, text)
}

// preview shows the text of the feed on its platform.
func (p progress) preview(key conversation.Key, to conversation.Destination, text string) {
	c := p.channels[to.Channel]
	previewer, ok := c.Source.(channels.Previewer)
	if !ok {
		return
	}
	show := func() { previewer.Preview(key, to.Run, to.Address, text) }
	isHeldBack := c.sender.AfterSending(key, func() {
		if now, working := p.feed.Now(key); working && now.Text == text {
			show()
		}
	})
	if !isHeldBack {
		show()
	}
}

// Waiting writes the words to the standard error of a terminal without a line editor. Other channels
// show them as a preview, at once; pages count down to the end of the wait.
func (p progress) Waiting(key conversation.Key, to conversation.Destination, w agentloop.Wait) {
	text := w.Notice + w.Words
	if w.Untimed == "" {
		p.feed.Preview(key, text)
	} else {
		p.feed.Waiting(key, text, activity.Wait{Notice: w.Notice, Words: w.Untimed, Until: time.Now().Add(w.For)})
	}
	p.preview(key, to, text)
	if terminal, ok := p.terminal(to); ok {
		terminal.Waiting(to.Address, w.Words)
	}
	if c := p.channels[to.Channel]; c != nil {
		if hurrier, ok := c.Source.(channels.Hurrier); ok {
			hurrier.Hurry(to.Address)
		}
	}
}

// Thinking shows the thoughts in pages, and that there are any in the terminal. They never
// go to a chat platform.
func (p progress) Thinking(key conversation.Key, to conversation.Destination, text string) {
	p.feed.Thinking(key, text)
	if terminal, ok := p.terminal(to); ok {
		terminal.Thinking(to.Address, text)
	}
}

// terminal returns the terminal that a destination is in, if it is in one.
func (p progress) terminal(to conversation.Destination) (terminal *cli.Channel, ok bool) {
	if c := p.channels[to.Channel]; c != nil {
		terminal, ok = c.Source.(*cli.Channel)
	}
	return terminal, ok
}

func (p progress) Called(key conversation.Key, call agentloop.ToolCall) {
	p.feed.Tool(key, activity.ToolProgress{
		ID: call.ID, Name: call.Name, Arguments: call.Arguments, Done: call.Done, Took: call.Took, Error: call.Error,
	})
}

func (p progress) Asked(key conversation.Key) { p.feed.Changed(key) }

func (p progress) Committed(run conversation.Run, _ conversation.Committed) {
	isStored := slices.ContainsFunc(run.Messages, func(m conversation.Message) bool { return m.Reasoning != "" })
	for i, in := range run.Took {
		terminal, ok := p.terminal(in.Destination())
		if ok && !isStored {
			terminal.ForgetThought(in.Address)
		}
		if ok && run.Status == conversation.StatusFailed && i == len(run.Took)-1 {
			terminal.Failed(in.Address)
		}
	}
	p.feed.Committed(run.Key, run.ID())
	p.metrics.Committed(run)
}

func (p progress) Titled(key conversation.Key, to conversation.Destination, title string) {
	p.feed.Changed(key)
	if titler, ok := p.channels[to.Channel].Source.(channels.Titler); ok {
		titler.SetTitle(to.Address, title)
	}
}
