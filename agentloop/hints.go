package agentloop

import (
	"context"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/tools"
)

// hintFor returns the hint for messages that seem to point at something that the
// model is not shown, or "" when they don't, or when the model is shown all that was
// ever said in the session. budget is that of the window, in tokens
// as the gateway counts them.
func (r *Router) hintFor(ctx context.Context, snapshot conversation.Snapshot, asked []conversation.Message, budget int) string {
	hint := ""
	if r.setup(snapshot).agent.Tools.Has(tools.RecallName) {
		hint = r.hints.For(asked)
	}
	if hint == "" || snapshot.Older > 0 || snapshot.Summary.Through > 0 {
		return hint
	}
	if r.windowWithHint(snapshot, asked, hint).Fit(budget).Left > 0 {
		return hint
	}
	earlier, err := catalog.New(r.deps.Store).HasOther(ctx, snapshot.Conversation)
	if err != nil && ctx.Err() == nil {
		r.deps.Log.Warn("earlier conversations unknown", "session", snapshot.Conversation.Key, "error", err)
	}
	if !earlier {
		return ""
	}
	return hint
}
