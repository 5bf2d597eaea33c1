package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"parley/channels"
	"parley/channels/markdown"
	"parley/cluster"
	"parley/conversation"
	"parley/plaintext"
)

// errNotSent is the error of messages while Discord rejects the token.
var errNotSent = errors.New("not sent: Discord rejects the bot token")

// Send posts one part, or turns the preview of the answer into it. The first part is
// a reply. A part that was posted before a crash is not posted again.
func (c *Channel) Send(ctx context.Context, d conversation.Delivery, p channels.Part) (string, error) {
	to, err := parseAddress(d.Address)
	if err != nil {
		return "", &channels.SendError{Permanent: true, Err: err}
	}
	if to.Answer == nil && c.health.isTokenRejected() { // an interaction has a token of its own
		return "", &channels.SendError{Err: errNotSent}
	}
	id, err := c.send(ctx, to, d, p)
	if err != nil {
		return "", c.sendError(err, p.File != nil)
	}
	return id, nil
}

func (c *Channel) send(ctx context.Context, to address, d conversation.Delivery, p channels.Part) (id string, err error) {
	if to.Answer != nil {
		return c.answer(ctx, to, d, p)
	}
	if d.Interim {
		return c.sendInterim(ctx, to, d, p)
	}
	var shown, stale string
	if p.Index == 0 {
		place := to.Channel
		if shown, stale, err = c.previews.Take(ctx, place, d); err != nil {
			return "", err
		}
		defer func() {
			if err == nil || isFinal(err) { // else the next attempt takes it
				c.previews.Done(place, d.RunID)
			}
		}()
	}
	if to, err = c.threads.open(ctx, c, to); err != nil {
		return "", err
	}
	return c.post(ctx, to, d, p, shown, stale)
}

// sendInterim posts a message of a run that waits. It takes the place of no preview, and is
// no reply: the message that Discord knows by the reply's nonce is for the answer.
func (c *Channel) sendInterim(ctx context.Context, to address, d conversation.Delivery, p channels.Part) (string, error) {
	if p.Index == 0 {
		c.dropPreview(ctx, to, d, c.previews.Done)
	}
	to, err := c.threads.open(ctx, c, to)
	if err != nil {
		return "", err
	}
	to.ReplyTo = ""
	return c.post(ctx, to, d, p, "", "")
}

// post puts a part into a channel, a thread or a DM. If a message there has the part already, or shown is the preview that this
// process has posted, that one is edited. The preview stale, and others of earlier processes, are removed.
func (c *Channel) post(ctx context.Context, to address, d conversation.Delivery, p channels.Part, shown, stale string) (string, error) {
	m := c.outgoing(d, p)
	m.Nonce, m.Enforce = to.nonce(p.Index), true
	if d.Interim {
		m.Nonce = fmt.Sprintf("q%d-%d", d.ID, p.Index)
	}
	if p.Index == 0 && to.ReplyTo != "" {
		m.Reference = &replyTo{MessageID: to.ReplyTo}
	}
	shown, err := c.leftover(ctx, to, d, p, shown, stale)
	if err != nil {
		return "", err
	}
	if shown != "" {
		if err := c.edit(ctx, to.Channel, shown, m); !isGone(err) {
			return shown, err
		}
		if !c.Node.Holds(ctx) { // another node may have removed the preview and sent the reply
			return "", cluster.ErrLost
		}
		m.Nonce += anew
	}
	for range maxAnew {
		posted, err := c.create(ctx, to.Channel, m)
		if err != nil || sameText(posted.Content, m.Content) {
			return posted.ID, err
		}
		// The nonce gave back a message that was posted before with another text: a preview, or the part in another form, which
		// gets the text.
		if isPreview(posted.Content) {
			err = c.removePreview(ctx, to, posted.ID)
		} else if err = c.edit(ctx, to.Channel, posted.ID, m); !isGone(err) {
			return posted.ID, err
		}
		if err != nil && !isGone(err) {
			return "", err
		}
		m.Nonce += anew
	}
	return "", errShown
}

// maxAnew is how many messages that are gone Discord may return for the nonces of a part. Each process that died while it showed
// the answer leaves one.
const maxAnew = 4

// anew is added to the nonce of a message that was deleted or can't be edited any
// more, so that another one is posted in its place.
const anew = "r"

// isGone reports that a message can't be edited, and another may take its place.
// Servers name a message that is not there by different codes, or by none.
func isGone(err error) bool {
	r := refused(err)
	return r.status == http.StatusNotFound || r.code == threadArchived
}

// sameText compares a text with what Discord made of it, which is without the
// white space around it.
func sameText(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// maxUnits is the limit on a message: https://discord.com/developers/docs/resources/message#create-message.
// Discord's server counts code points (github.com/discord/discord-api-docs/issues/1315), its clients
// UTF-16 code units. Those are never fewer, so counting them keeps to both.
const maxUnits = 2000

// fileNotice stands below the beginning of a reply that is sent as a file.
const fileNotice = "\n-# " + channels.ReplyNotice

// parts renders a reply and splits it into messages. One that takes more than
// fileOver messages becomes a single one: its beginning, and all of the
// markdown as a file; 0 = never. One that was begun in messages, when fileOver was
// larger or the place takes no files, goes on so. A text that shows nothing is a dash.
func parts(d conversation.Delivery, fileOver int) []channels.Part {
	source := plaintext.Clean(d.Text)
	rendered := render(source)
	texts := split(rendered, maxUnits)
	switch {
	case len(texts) == 0:
		texts = []string{markdown.Nothing}
	case fileOver > 0 && len(texts) > fileOver && d.Transcript == nil && len(d.Sent) == 0 && !d.NoFile:
		first := split(rendered, maxUnits-markdown.Units(markdown.UTF16).Count(fileNotice))[0] + fileNotice
		file := &channels.File{Name: channels.ReplyFile, Data: []byte(source)}
		return []channels.Part{{Text: first, Plain: first, File: file}}
	}
	to := make([]channels.Part, len(texts))
	for i, text := range texts {
		to[i] = channels.Part{Index: i, Text: text, Plain: text}
	}
	to[len(to)-1].File = channels.TranscriptOf(d)
	return to
}

// split cuts rendered text into messages that show something, without the
// blank lines around them, which Discord would drop.
func split(rendered string, limit int) []string {
	var texts []string
	for _, text := range markdown.Split(rendered, limit, markdown.UTF16) {
		if text = strings.Trim(text, "\n"); markdown.Visible(text) {
			texts = append(texts, text)
		}
	}
	return texts
}
