package discord

import (
	"context"
	"net/http"
	"time"

	"github.com/bwmarrin/discordgo"

	"parley/channels"
	"parley/conversation"
	"parley/internal/clock"
)

// answer sends a part of the answer to an interaction. The first part replaces
// "thinking…", or the message whose button was pressed. When the interaction has
// expired, the answer is an ordinary message.
func (c *Channel) answer(ctx context.Context, to address, d conversation.Delivery, p channels.Part) (string, error) {
	if err := c.deferrals.wait(ctx, to.Source); err != nil {
		return "", err
	}
	if p.Index == 0 {
		c.dropPreview(ctx, to, d, c.previews.Done)
	}
	if !to.expired(time.Now()) && !c.deferrals.failed(to.Source) {
		id, err := c.answerInteraction(ctx, to, d, p)
		for end := time.Now().Add(maxFirstAnswer); isOver(err) && c.isDeferredElsewhere(to) && time.Now().Before(end); {
			if err := clock.Sleep(ctx, deferralRetry); err != nil {
				return "", err
			}
			id, err = c.answerInteraction(ctx, to, d, p)
		}
		if !isOver(err) {
			return id, err
		}
	}
	return c.answerInWords(ctx, to, d, p)
}

const deferralRetry = 200 * time.Millisecond // wait between two checks whether another node has sent the first response to an interaction

// isDeferredElsewhere reports whether another node may still have to send the first response to an
// interaction: the node that has received it, and may be slower than this one.
func (c *Channel) isDeferredElsewhere(to address) bool {
	return c.Node != nil && c.deferrals.get(to.Source) == nil
}

// dropPreview removes the preview of a delivery's run, which the delivery does not replace. done then frees its place.
func (c *Channel) dropPreview(ctx context.Context, to address, d conversation.Delivery, done func(channel string, run int64)) {
	shown, stale, err := c.previews.Take(ctx, to.Channel, d)
	defer done(to.Channel, d.RunID)
	for _, id := range []string{shown, stale} {
		if err == nil && id != "" {
			err = c.removePreview(ctx, to, id)
		}
	}
	if err != nil {
		c.Log.Debug("preview not removed", "channel_id", to.Channel, "error", err)
	}
}

// isOver reports whether the token of the interaction has expired, or was never
// confirmed by a first response.
func isOver(err error) bool {
	r := refused(err)
	return r.status == http.StatusNotFound || r.code == invalidToken
}

func (c *Channel) answerInteraction(ctx context.Context, to address, d conversation.Delivery, p channels.Part) (string, error) {
	m := c.outgoing(d, p)
	var posted message
	if p.Index == 0 {
		if m.Components == nil {
			m.Components = &[]component{} // those of the page before
		}
		endpoint := discordgo.EndpointInteractionResponseActions(to.Answer.Application, to.Answer.Token)
		err := c.api.call(ctx, request{method: http.MethodPatch, url: endpoint, body: m.asEdit(), file: m.file}, &posted)
		return posted.ID, err
	}
	if !to.Answer.Private {
		// An ordinary message carries a nonce, a follow-up does not.
		if id, err := c.post(ctx, to, d, p, "", ""); refused(err).status != http.StatusForbidden {
			return id, err
		}
	} else {
		m.Flags |= ephemeral
	}
	endpoint := discordgo.EndpointFollowupMessage(to.Answer.Application, to.Answer.Token)
	err := c.api.call(ctx, request{method: http.MethodPost, url: endpoint, body: m, file: m.file}, &posted)
	return posted.ID, err
}

// answerInWords sends an ordinary message where the command was given, or to a DM
// where nobody else may read it.
func (c *Channel) answerInWords(ctx context.Context, to address, d conversation.Delivery, p channels.Part) (string, error) {
	if to.Answer.Private && !to.Answer.DM {
		channel, err := c.openDM(ctx, to.Answer.User)
		if err != nil {
			return "", err
		}
		to.Channel = channel
	}
	return c.post(ctx, to, d, p, "", "")
}

// openDM returns the DM channel of a user.
func (c *Channel) openDM(ctx context.Context, user string) (string, error) {
	body := struct {
		Recipient string `json:"recipient_id"`
	}{user}
	var dm channel
	endpoint := discordgo.EndpointUserChannels("@me")
	err := c.api.call(ctx, request{method: http.MethodPost, url: endpoint, limit: endpoint, body: body}, &dm)
	return dm.ID, err
}
