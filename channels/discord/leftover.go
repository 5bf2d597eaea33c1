package discord

import (
	"context"
	"net/http"
	"strings"

	"github.com/bwmarrin/discordgo"

	"parley/channels"
	"parley/conversation"
)

// leftover finds the message of a part that an earlier process has posted
// without marking it: a whole one, or a preview. Discord remembers nonces for a
// few minutes only, and a preview may show the answer to a message that is now
// answered together with later ones: those are removed. "" when there is none.
func (c *Channel) leftover(ctx context.Context, to address, d conversation.Delivery, p channels.Part) string {
	if live := c.live.Load(); live != 0 && number(to.Source) >= live || c.self() == "" {
		return ""
	}
	var newest []message
	endpoint := discordgo.EndpointChannelMessages(to.Channel)
	err := c.api.call(ctx, request{method: http.MethodGet, url: endpoint + "?limit=100", limit: endpoint + "list"}, &newest)
	if err != nil {
		c.Log.Debug("what was sent before can't be seen", "delivery", d.ID, "error", err)
		return ""
	}
	found := ""
	for _, m := range newest {
		switch {
		case m.Author.ID != c.self() || !m.isWritten():
		case isPart(m, to, d, p):
			found = m.ID
		case isPreview(m.Content) && !c.previews.shows(to.Channel):
			if err := c.remove(ctx, to.Channel, m.ID); err != nil {
				c.Log.Debug("a preview is left behind", "channel_id", to.Channel, "error", err)
			}
		}
	}
	return found
}

// isPart tells whether a message of the bot is a part as it was posted before.
func isPart(m message, to address, d conversation.Delivery, p channels.Part) bool {
	after := to.Source
	if p.Index > 0 && len(d.Sent) > 0 {
		after = d.Sent[len(d.Sent)-1]
	}
	if number(m.ID) <= number(after) {
		return false
	}
	if m.Reference != nil {
		return p.Index == 0 && m.Reference.MessageID == to.ReplyTo
	}
	return sameText(m.Content, p.Text)
}

// previewMark stands below an answer in the making.
const previewMark = "\n-# ✍️ …"

func isPreview(text string) bool { return strings.HasSuffix(text, strings.TrimSpace(previewMark)) }
