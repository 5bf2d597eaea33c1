package discord

import (
	"context"
	"time"

	"parley/channels"
	"parley/channels/markdown"
	"parley/channels/preview"
	"parley/plaintext"
)

// previewEvery is the pace of edits. A channel takes 5 in 5 s, as bots find in
// the headers of https://discord.com/developers/docs/topics/rate-limits, and
// the reply itself needs one of them.
const previewEvery = 1500 * time.Millisecond

// newPreviews returns the board of the answers that are shown while they are written,
// by channel or thread.
func newPreviews(c *Channel) *preview.Board[address] {
	return preview.NewBoard(preview.Config[address]{
		Every: func(address) time.Duration { return c.previewEvery },
		Show:  c.showPreview,
		Log:   c.Log,
	})
}

// Preview shows the text so far, at a pace that leaves room for the reply.
// Answers to interactions show that the bot is thinking, and get no preview.
func (c *Channel) Preview(addr, text string) {
	to, err := parseAddress(addr)
	if err != nil || to.Answer != nil {
		return
	}
	c.previews.Note(to.Channel, to.Source, to, text)
}

// showPreview posts or edits the message of a preview.
func (c *Channel) showPreview(ctx context.Context, p *preview.Preview[address], text string) error {
	shown, ok := previewOf(text)
	if !ok {
		return nil
	}
	m := newOutgoing(shown)
	m.isPreview = true
	if p.ID != "" {
		return previewError(c.edit(ctx, p.To.Channel, p.ID, m))
	}
	to, err := c.threads.open(ctx, c, p.To)
	if err != nil || to.Channel != p.To.Channel {
		return previewError(err)
	}
	m.Nonce, m.Enforce = to.nonce(0), true
	if to.ReplyTo != "" {
		m.Reference = &replyTo{MessageID: to.ReplyTo}
	}
	posted, err := c.create(ctx, to.Channel, m)
	p.ID = posted.ID
	return previewError(err)
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
func previewOf(text string) (string, bool) {
	if len(text) > maxPreview {
		text = text[:maxPreview]
	}
	texts := split(render(plaintext.Clean(text)), maxUnits-markdown.Units(markdown.UTF16).Count(previewMark))
	if len(texts) == 0 {
		return "", false
	}
	return texts[0] + previewMark, true
}

// takePreview ends the preview that a reply replaces, which is one for the same source
// or for an earlier one whose run was stopped. It returns nil where there is none. Its
// place is the reply's until previews.Done.
func (c *Channel) takePreview(ctx context.Context, to address) (*preview.Preview[address], error) {
	replaced := func(of address) bool { return number(of.Source) <= number(to.Source) }
	return c.previews.Take(ctx, to.Channel, replaced, replaced)
}

// isUnderWay reports whether a message may be the preview that is under way in a
// channel.
func (c *Channel) isUnderWay(m message, channel string) bool {
	to, ok := c.previews.UnderWay(channel)
	return ok && (m.Reference == nil || m.Reference.MessageID == to.ReplyTo)
}
