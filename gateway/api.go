package gateway

import (
	"context"
	"maps"
	"slices"

	"parley/channels/api"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/media"
	"parley/llm"
)

// addAPI adds the API for programs if there is an HTTP server.
func (g *Gateway) addAPI() {
	if g.http == nil {
		return
	}
	channel := api.New(api.Deps{
		Store:     g.store,
		Feed:      g.feed,
		Models:    append([]string{g.choice.Model}, g.cfg.LLM.FallbackModels...),
		Named:     slices.Sorted(maps.Keys(g.cfg.Models)),
		MayUse:    g.mayUse,
		Agents:    slices.Sorted(maps.Keys(g.cfg.Agents)),
		MayHave:   g.mayHave,
		Vision:    g.sees(),
		Files:     g.cfg.Files.Limits(),
		Version:   g.version,
		Log:       g.log,
		Sessions:  g.sessions,
		Reminders: g.reminders,
		Zone:      g.cfg.Reminders.Zone(),
		Health:    g.health(conversation.Account{Channel: api.ChannelName}),
		Edited:    g.router.Edited,
		Cancel:    g.router.Cancel,
		Answered:  g.answered,

		OperatorMayAnswer: g.operatorMayAnswer,

		Expiration: g.cfg.Conversation.SessionExpiration,
		Window:     g.window,
		Tokens:     func(m conversation.Message) int { return g.counter.Message(toModel(m)) },
		Cost:       g.cfg.Prices().Cost,

		Stateless: g.cfg.HTTP.Stateless,
		Complete:  g.router.Complete,
	})
	channel.Serve(g.http)
	g.add(channel, conversation.Scope{Channel: channel.Name()})
}

// answered wakes the loop of a session after an answer that did not come by a command.
func (g *Gateway) answered(key conversation.Key) {
	g.router.Wake(key)
	g.feed.Changed(key)
}

// operatorMayAnswer reports whether somebody with the gateway's token may answer a question.
func (g *Gateway) operatorMayAnswer(q approvals.Question) bool {
	return g.cfg.Tools.MayAnswer(approvals.Person{Channel: api.ChannelName, ID: api.ChannelName}, true, q.Askers)
}

// isOfPrograms reports whether a session belongs to programs, which have no use for a
// title that costs a model call.
func isOfPrograms(key conversation.Key) bool { return key.Channel() == api.ChannelName }

// toModel returns a stored message as the model would be sent it.
func toModel(m conversation.Message) llm.Message {
	shown := llm.Message{Role: string(m.Role), Content: m.Content, Name: m.ToolName, ToolCallID: m.ToolCallID}
	for _, call := range m.ToolCalls {
		shown.ToolCalls = append(shown.ToolCalls, llm.ToolCall(call))
	}
	return shown
}

// window returns what the model would be sent for a session, as stored messages.
func (g *Gateway) window(ctx context.Context, key conversation.Key) (api.Window, error) {
	w, err := g.router.Window(ctx, key)
	if err != nil {
		return api.Window{}, err
	}
	shown := api.Window{Conversation: w.Conversation, Left: w.Left, Tokens: w.Tokens, Budget: w.Budget}
	for _, m := range w.Messages {
		shown.Messages = append(shown.Messages, asStored(m))
	}
	return shown, nil
}

// asStored returns a message of a window in the form in which messages are stored.
func asStored(m llm.Message) conversation.Message {
	stored := conversation.Message{Role: conversation.Role(m.Role), Content: m.Text(), ToolName: m.Name, ToolCallID: m.ToolCallID}
	for _, call := range m.ToolCalls {
		stored.ToolCalls = append(stored.ToolCalls, conversation.ToolCall(call))
	}
	for _, i := range m.Images {
		stored.Images = append(stored.Images, media.Image{MediaType: i.MediaType, Size: len(i.Data)})
	}
	return stored
}
