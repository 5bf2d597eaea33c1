package discord

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/bwmarrin/discordgo"

	"parley/channels"
	"parley/conversation"
)

// leftover returns the id of a message that already holds a part, or shown if there is none. That is a
// message that an earlier process, or a failed attempt of this one, has posted without marking the part as sent.
// Nonces do not prevent this, since Discord remembers them for a few minutes only. leftover removes the preview stale
// and others of earlier processes, which may be those of runs that are repeated together with newer messages.
func (c *Channel) leftover(ctx context.Context, to address, d conversation.Delivery, p channels.Part, shown, stale string) (string, error) {
	first := c.unvisited.take(to.Channel)
	tried := d.Attempts > 0 || d.NoFile || stale != "" // its preview may be there
	if firstLive := c.firstLive.Load(); !first && firstLive != 0 && number(to.Source) >= firstLive && !tried || c.self() == "" {
		return shown, nil
	}
	near, err := c.messagesAround(ctx, to.Channel, cmp.Or(stale, precedingMessage(to, d, p)))
	switch {
	case isFinal(err):
		c.Log.Debug("earlier messages not readable", "delivery", d.ID, "error", err)
		if stale != "" {
			return shown, c.removePreview(ctx, to, stale)
		}
		return shown, nil
	case err != nil: // what is there may not be taken for nothing
		if first {
			c.unvisited.add(to.Channel)
		}
		return "", err
	}
	for _, m := range near { // the newest first
		switch {
		case m.Author.ID != c.self() || !m.isWritten() || m.ID == shown:
		case isPreview(m.Content):
			if c.isUnderWay(m, to.Channel) {
				continue
			}
			if err := c.removePreview(ctx, to, m.ID); err != nil {
				return "", err
			}
		case shown == "" && isPart(m, to, d, p):
			shown = m.ID
		}
	}
	return shown, nil
}

// messagesAround returns a page of messages around another, the newest first:
// much may have been said since it was answered.
func (c *Channel) messagesAround(ctx context.Context, channel, id string) (list []message, err error) {
	endpoint := discordgo.EndpointChannelMessages(channel)
	url := fmt.Sprintf("%s?around=%s&limit=%d", endpoint, id, pageSize)
	err = c.api.call(ctx, request{method: http.MethodGet, url: url, limit: endpoint + "list"}, &list)
	slices.SortFunc(list, func(a, b message) int { return byID(b, a) })
	return list, err
}

// precedingMessage returns the message that a part of an answer follows.
func precedingMessage(to address, d conversation.Delivery, p channels.Part) string {
	if p.Index > 0 && len(d.Sent) > 0 {
		return d.Sent[len(d.Sent)-1]
	}
	return to.Source
}

// isPart reports whether a message of the bot is a part as it was posted before.
func isPart(m message, to address, d conversation.Delivery, p channels.Part) bool {
	if number(m.ID) <= number(precedingMessage(to, d, p)) {
		return false
	}
	if m.Reference != nil && to.Source == to.ReplyTo { // else several replies may refer to the message
		return p.Index == 0 && m.Reference.MessageID == to.ReplyTo
	}
	return sameText(m.Content, p.Text)
}

// previewMark is the last line of a preview.
const previewMark = "\n-# ✍️ …"

func isPreview(text string) bool { return strings.HasSuffix(text, strings.TrimSpace(previewMark)) }

// unvisited holds the places where earlier processes were at work and where this one has
// not posted an answer yet.
type unvisited struct {
	mu     sync.Mutex
	places map[string]bool
}

func (u *unvisited) add(place string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.places[place] = true
}

// take removes a place, and reports whether it was there.
func (u *unvisited) take(place string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	is := u.places[place]
	delete(u.places, place)
	return is
}
