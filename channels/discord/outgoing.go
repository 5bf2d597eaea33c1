package discord

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"

	"parley/channels"
	"parley/conversation"
)

// Flags of messages: https://discord.com/developers/docs/resources/message#message-object-message-flags
const (
	suppressEmbeds = 1 << 2
	ephemeral      = 1 << 6
)

// nobody makes sure that a message pings nobody, since a model can write "@everyone".
// Without it, Discord pings whoever is mentioned.
var nobody = mentions{Parse: []string{}}

// mentions: https://discord.com/developers/docs/resources/message#allowed-mentions-object
type mentions struct {
	Parse       []string `json:"parse"`
	RepliedUser bool     `json:"replied_user"`
}

// outgoing is a message to be created or edited. The library's own type has no nonce: https://discord.com/developers/docs/resources/message#create-message
type outgoing struct {
	Content    string       `json:"content"`
	Nonce      string       `json:"nonce,omitempty"`
	Enforce    bool         `json:"enforce_nonce,omitempty"`
	Mentions   mentions     `json:"allowed_mentions"`
	Reference  *replyTo     `json:"message_reference,omitempty"`
	Components *[]component `json:"components,omitempty"`  // nil: those of the message stay
	Files      *[]fileIndex `json:"attachments,omitempty"` // all files that an edited message keeps; nil: those that are sent along
	Flags      int          `json:"flags,omitempty"`
	file       *channels.File
	isPreview  bool // the request is not cut short when the reply comes
}

// fileIndex names a file that is sent along, from 0:
// https://discord.com/developers/docs/reference#editing-message-attachments
type fileIndex struct {
	ID int `json:"id"`
}

// asEdit returns the message as an edit of another one, whose files it removes.
func (m outgoing) asEdit() outgoing {
	m.Nonce, m.Enforce, m.Reference = "", false, nil
	m.Files = &[]fileIndex{}
	if m.file != nil {
		m.Files = &[]fileIndex{{ID: 0}}
	}
	return m
}

type replyTo struct {
	MessageID string `json:"message_id"`
	Fail      bool   `json:"fail_if_not_exists"`
}

// newOutgoing returns a text that pings nobody and shows no previews of its links.
func newOutgoing(text string) outgoing {
	return outgoing{Content: text, Mentions: nobody, Flags: suppressEmbeds}
}

// outgoing returns the message of a part, without what depends on the place.
func (c *Channel) outgoing(d conversation.Delivery, p channels.Part) outgoing {
	m := newOutgoing(p.Text)
	m.file = p.File
	if len(d.Actions) > 0 && p.Index == len(c.Split(d))-1 { // buttons stand below the whole text
		m.Components = buttons(d.Actions)
	}
	return m
}

// create posts a message and returns it as it is in the channel. If a message with the same
// nonce was posted before, this is the earlier one, whose text may differ.
func (c *Channel) create(ctx context.Context, channel string, m outgoing) (message, error) {
	var posted message
	endpoint := discordgo.EndpointChannelMessages(channel)
	err := c.api.call(ctx, request{method: http.MethodPost, url: endpoint, limit: endpoint, body: m, file: m.file, isPreview: m.isPreview}, &posted)
	if refused(err).code == cannotReply && m.Reference != nil || isBadReference(err) {
		m.Reference = nil
		return c.create(ctx, channel, m)
	}
	return posted, err
}

// isBadReference reports whether Discord refuses a message only because of the message that
// it replies to: one of Discord's own, to which nobody can reply.
func isBadReference(err error) bool {
	r := refused(err)
	return r.code == invalidForm && strings.Contains(r.message, "message_reference")
}

// edit changes a message of the bot.
func (c *Channel) edit(ctx context.Context, channel, id string, m outgoing) error {
	endpoint := discordgo.EndpointChannelMessage(channel, id)
	limit := discordgo.EndpointChannelMessage(channel, "")
	return c.api.call(ctx, request{method: http.MethodPatch, url: endpoint, limit: limit, body: m.asEdit(), file: m.file, isPreview: m.isPreview}, nil)
}

func (c *Channel) remove(ctx context.Context, channel, id string) error {
	limit := discordgo.EndpointChannelMessage(channel, "") + "delete"
	return c.api.call(ctx, request{method: http.MethodDelete, url: discordgo.EndpointChannelMessage(channel, id), limit: limit}, nil)
}

// Codes of refusals: https://discord.com/developers/docs/topics/opcodes-and-status-codes#json
const (
	alreadyAnswered    = 40060
	missingAccess      = 50001
	cannotMessage      = 50007 // the user takes no direct messages of the bot
	missingPermissions = 50013
	invalidToken       = 50027 // code of an error: the token of an interaction is not valid
	invalidForm        = 50035
	threadArchived     = 50083
	cannotReply        = 160002
	threadExists       = 160004
	threadLocked       = 160005
)

// sendError classifies why a part was not taken. withFile says that the part has a file, which the bot may not be
// allowed to send where it may write.
func (c *Channel) sendError(err error, withFile bool) error {
	r := refused(err)
	switch r.status {
	case http.StatusTooManyRequests:
		return &channels.SendError{RetryAfter: r.retryAfter, Err: err}
	case 0: // the network
		return &channels.SendError{Err: c.judge(err)}
	case http.StatusUnauthorized: // the token is refused, not the message
		if isTokenRefusal(err) {
			c.health.checkToken()
		}
		return &channels.SendError{Err: err}
	}
	closed := r.status == http.StatusNotFound || r.code == missingPermissions && !withFile ||
		slices.Contains([]int{missingAccess, cannotMessage, threadArchived, threadLocked}, r.code)
	return &channels.SendError{Permanent: true, Closed: closed, Err: err}
}

// judge wraps the error of a message in a StuckError if the connections to the gateway show that
// Discord works.
func (c *Channel) judge(err error) error {
	if since := c.healthySince.Load(); since != nil && !errors.Is(err, context.Canceled) {
		return &channels.StuckError{HealthySince: *since, Err: err}
	}
	return err
}
