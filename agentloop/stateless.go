package agentloop

import (
	"context"

	"parley/conversation/budgets"
	"parley/llm"
)

// Complete calls a model, the default one for "", for a request that belongs to no session. It waits for one
// of the slots that the runs of sessions share, so that MaxConcurrentRuns bounds all
// calls together.
func (r *Router) Complete(ctx context.Context, model string, request llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return llm.Response{}, context.Cause(ctx)
	}
	named := r.setups.findModel(model)
	if named == nil {
		named = &r.setups.models[0]
	}
	response, _, err := r.callModel(ctx, named.Model, []budgets.Call{{Unseen: true}}, r.requestTokens(request), request, emit)
	return response, err
}
