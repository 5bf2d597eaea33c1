package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/channels/api"
	"parley/channels/cli"
	"parley/conversation"
	"parley/conversation/deferred"
	"parley/llm"
)

// RetryUnanswered has every message that waits for a model tried at once, and those answered again that have failed since a time by
// a fault of the model's server, if nobody has asked anything since. It does not answer programs, which got an error.
func RetryUnanswered(ctx context.Context, store *conversation.Store, since time.Time) (deferred.Retried, error) {
	return deferred.New(store).Retry(ctx, deferred.Retry{
		Since:    since,
		Channels: func(name string) bool { return name != api.ChannelName && name != cli.ChannelName },
		Failure:  func(kind string) bool { return llm.Kind(kind).IsServers() },
	})
}

// countDeferred returns how many messages wait for a model, and in how many sessions.
func (g *Gateway) countDeferred(ctx context.Context) (messages, sessions int64, err error) {
	list, err := deferred.New(g.store).Sessions(ctx)
	for _, s := range list {
		messages += int64(s.Messages)
	}
	return messages, int64(len(list)), err
}

// deferredStates returns what waits for models, and a sentence for each model that can't be called.
func (g *Gateway) deferredStates(waiting []deferred.Session) (is deferredState, degraded []string) {
	named := map[string]int{} // messages that wait, by the name of the model
	for _, s := range waiting {
		is.Messages, is.Sessions = is.Messages+s.Messages, is.Sessions+1
		named[s.Model] += s.Messages
	}
	if len(waiting) > 0 {
		is.Oldest = g.secondsSince(waiting[0].Since)
	}
	if g.router != nil {
		for _, m := range g.router.Outages() {
			degraded = append(degraded, fmt.Sprintf("the model %s can't be called since %s: %s", m.Model, m.Since.Format(time.DateTime), g.secrets.Hide(m.Error)))
		}
	}
	if is.Messages > 0 {
		degraded = append(degraded, fmt.Sprintf("%s in %s for a model (%s)", plural(int64(is.Messages), "message waits", "messages wait"),
			plural(int64(is.Sessions), "session", "sessions"), strings.Join(slices.Sorted(maps.Keys(named)), ", ")))
	}
	return is, degraded
}
