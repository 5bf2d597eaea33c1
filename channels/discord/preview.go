package discord

import (
	"context"
	"errors"
	"time"

	"parley/channels"
	"parley/channels/markdown"
	"parley/channels/preview"
	"parley/conversation"
	"parley/plaintext"
)

// previewEvery is the pace of edits. A channel takes 5 in 5 s, as bots find in
// the headers of https://discord.com/developers/docs/topics/rate-limits, and
// the reply itself needs one of them.
const previewEvery = 1500 * time.Millisecond

// newPreviews returns the board of the answers that are shown while they are written,
// by channel or thread.
func newPreviews(c *Channel, store preview.Store) *preview.Board[address] {
	return preview.NewBoard(preview.Config[address]{
		Every: func(address) time.Duration { return c.previewEvery }, Post: c.postPreview, Edit: c.editPreview, Remove: c.removePreview,
		Store: store, Log: c.Log,
	})
}

// Preview shows the text so far, at a pace that leaves room for the reply.
// Answers to interactions show that the bot is thinking, and get no preview.
func (c *Channel) Preview(key conversation.Key, run int64, addr, text string) {
	to, err := parseAddress(addr)
	if err != nil || to.Answer != nil {
		return
	}
	c.previews.Note(to.Channel, key, run, to, text)
}

// errShown is the error of a preview in whose place Discord returns a message of an earlier process.
var errShown = errors.New("another process has posted a message of the run")

// postPreview posts the message of a preview.
func (c *Channel) postPreview(ctx context.Context, p *preview.Preview[address], text string) (id string, err error) {
	m, ok := previewOf(text)
	if !ok {
		return "", nil
	}
	to, err := c.threads.open(ctx, c, p.To)
	if err != nil || to.Channel != p.To.Channel {
		return "", previewError(err)
	}
	m.Nonce, m.Enforce = to.nonce(0), true
	if p.Anew {
		m.Nonce += anew
	}
	if to.ReplyTo != "" {
		m.Reference = &replyTo{MessageID: to.ReplyTo}
	}
	posted, err := c.create(ctx, to.Channel, m)
	if err == nil && !sameText(posted.Content, m.Content) {
		return "", &channels.SendError{Permanent: true, Err: errShown}
	}
	return posted.ID, previewError(err)
}

func (c *Channel) editPreview(ctx context.Context, to address, id, text string) error {
	m, ok := previewOf(text)
	if !ok {
		return nil
	}
	return previewError(c.edit(ctx, to.Channel, id, m))
}

// removePreview deletes the message of a preview. The error says that Discord may take another attempt.
func (c *Channel) removePreview(ctx context.Context, to address, id string) error {
	err := c.remove(ctx, to.Channel, id)
	if isFinal(err) {
		c.Log.Debug("preview not removed", "channel_id", to.Channel, "error", err)
		return nil
	}
	return err
}

// previewError says whether a preview that Discord refused is tried again.
func previewError(err error) error {
	if err == nil {
		return nil
	}
	return &channels.SendError{Permanent: isFinal(err), RetryAfter: refused(err).retryAfter, Err: err}
}

// maxPreview is how many bytes of an answer are rendered for its preview: more
// than a message holds.
const maxPreview = 16 << 10

// previewOf returns the beginning of a text as one message, with the mark.
func previewOf(text string) (outgoing, bool) {
	if len(text) > maxPreview {
		text = text[:maxPreview]
	}
	texts := split(render(plaintext.Clean(text)), maxUnits-markdown.Units(markdown.UTF16).Count(previewMark))
	if len(texts) == 0 {
		return outgoing{}, false
	}
	m := newOutgoing(texts[0] + previewMark)
	m.isPreview = true
	return m, true
}

// isUnderWay reports whether a message may be the preview that is under way in a
// channel.
func (c *Channel) isUnderWay(m message, channel string) bool {
	to, _, ok := c.previews.UnderWay(channel)
	return ok && (m.Reference == nil || m.Reference.MessageID == to.ReplyTo)
}
