package agentloop

import (
	"context"

	"parley/llm"
)

// Complete calls the model for a request that belongs to no session. It waits for one
// of the slots that the runs of sessions share, so that MaxConcurrentRuns bounds all
// calls together.
func (r *Router) Complete(ctx context.Context, request llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return llm.Response{}, context.Cause(ctx)
	}
	return r.deps.Model.Complete(ctx, request, emit)
}
