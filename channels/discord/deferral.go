package discord

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
)

// Kinds of first answers:
// https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-response-object-interaction-callback-type
const (
	withMessage    = 4
	withThinking   = 5 // "thinking" is shown until the answer comes as a message
	withEditLater  = 6 // the message of the button is edited later
	firstAnswerIn  = 3 * time.Second
	maxFirstAnswer = 2 * firstAnswerIn // time limit of the request, which may also take longer than Discord waits
)

// deferrals tracks the first responses to interactions, which Discord requires within three seconds.
// The answer to an interaction waits for its first response.
type deferrals struct {
	mu   sync.Mutex
	list map[string]*deferral // by interaction ID, as long as the interaction's token is valid
}

type deferral struct {
	done chan struct{} // closed when Discord has answered
	err  error         // why the first answer failed; to be read after done is closed
}

func newDeferrals() *deferrals { return &deferrals{list: map[string]*deferral{}} }

// begin adds a deferral before the interaction is accepted, so that an answer
// never comes before it. fresh is false when it was added already.
func (ds *deferrals) begin(interaction string) (d *deferral, fresh bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for id := range ds.list {
		if time.Since(bornAt(id)) > tokenLife {
			delete(ds.list, id)
		}
	}
	if d = ds.list[interaction]; d == nil {
		d, fresh = &deferral{done: make(chan struct{})}, true
		ds.list[interaction] = d
	}
	return d, fresh
}

func (ds *deferrals) get(interaction string) *deferral {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.list[interaction]
}

// wait returns when the interaction is deferred, or could not be. It does not
// wait for one of an earlier process.
func (ds *deferrals) wait(ctx context.Context, interaction string) error {
	d := ds.get(interaction)
	if d == nil {
		return nil
	}
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failed reports whether the deferral failed. It is called after wait.
func (ds *deferrals) failed(interaction string) bool {
	d := ds.get(interaction)
	return d != nil && d.err != nil
}

// callback is a first response.
type callback struct {
	Type int       `json:"type"`
	Data *outgoing `json:"data,omitempty"`
}

// deferAnswer sends the first response to an interaction.
func (c *Channel) deferAnswer(ctx context.Context, to address, d *deferral) {
	defer close(d.done)
	first := callback{Type: withThinking}
	switch {
	case to.Answer.Component:
		first.Type = withEditLater
	case to.Answer.Private:
		first.Data = &outgoing{Mentions: nobody, Flags: ephemeral}
	}
	if d.err = c.respond(ctx, to, first); d.err != nil && !errors.Is(d.err, context.Canceled) {
		c.Log.Warn("interaction not acknowledged, answering with a message", "error", d.err)
	}
}

// respond sends a first response. It takes it for sent when Discord has one
// already, since an interaction may come twice.
func (c *Channel) respond(ctx context.Context, to address, first callback) error {
	ctx, cancel := context.WithTimeout(ctx, maxFirstAnswer)
	defer cancel()
	endpoint := discordgo.EndpointInteractionResponse(to.Source, to.Answer.Token)
	err := c.api.call(ctx, request{method: http.MethodPost, url: endpoint, body: first}, nil)
	if refused(err).code == alreadyAnswered {
		return nil
	}
	return err
}
