package telegram

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/channels/markdown"
	"parley/channels/preview"
	"parley/plaintext"
)

// The pace of edits, which count as messages: a chat takes one a second, a group 20 a
// minute, and the reply itself needs one of them.
const (
	previewEvery      = 1500 * time.Millisecond
	previewEveryGroup = 5 * time.Second
)

const (
	previewMark = " …"
	maxPreview  = 16 << 10 // bytes of an answer that are rendered for its preview: more than a message holds
)

// previews are the answers shown while they are written, at most one in a chat or
// topic. The ids of their messages are stored, so that a reply also takes the place of the
// preview that an earlier process has posted.
type previews struct {
	channel *Channel
	board   *preview.Board[address]

	mu     sync.Mutex       // guards stored, and is held while the store is read or written
	stored map[string]int64 // ids of the messages with previews, by place, as they are stored; nil: not loaded yet
}

func newPreviews(c *Channel) *previews {
	ps := &previews{channel: c}
	ps.board = preview.NewBoard(preview.Config[address]{Every: previewPace, Show: ps.show, Log: c.log})
	return ps
}

func previewPace(to address) time.Duration {
	if isGroup(to.Chat) {
		return previewEveryGroup
	}
	return previewEvery
}

// Preview shows the text so far, at a pace that leaves room for the reply. An answer
// that takes the place of a list with buttons gets no preview.
func (c *Channel) Preview(addr, text string) {
	to, err := parseAddress(addr)
	if err != nil || to.Edit != 0 || to.Alone != nil || c.migrations.currentID(to.Chat) != to.Chat {
		return
	}
	c.previews.board.Note(string(to.key()), addr, to, text)
}

// Hurry shows the newest preview without waiting for the pace of edits, which is slow in a
// group. The limits of the chat hold all the same.
func (c *Channel) Hurry(addr string) {
	if to, err := parseAddress(addr); err == nil {
		c.previews.board.Hurry(string(to.key()))
	}
}

// show posts or edits the message of a preview.
func (ps *previews) show(ctx context.Context, p *preview.Preview[address], text string) error {
	c := ps.channel
	if c.pacer.blocked(p.To.Chat) > 0 {
		return nil
	}
	part, ok := c.previewOf(text)
	if !ok {
		return nil
	}
	if c.drafts.takes(p) {
		if shown, err := c.showDraft(ctx, p, part); shown {
			return err
		}
	}
	m := outgoing{address: p.To, part: part, markup: part.Text != part.Plain}
	var err error
	if p.ID == "" { // an earlier attempt at the same answer may have posted one
		m.Edit, err = ps.storedMessage(ctx, p.To.place())
	} else {
		m.Edit, err = strconv.ParseInt(p.ID, 10, 64)
	}
	if err != nil {
		return err
	}
	if err := c.pacer.wait(ctx, p.To.Chat); err != nil {
		return err
	}
	ctx, cancel := preview.Request(ctx)
	defer cancel()
	id, err := c.sendMessage(ctx, m)
	if err != nil {
		return ps.classify(p.To.Chat, err)
	}
	p.ID = id
	if m.Edit != 0 {
		return nil
	}
	posted, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return &channels.SendError{Permanent: true, Err: fmt.Errorf("the message has no id: %w", err)}
	}
	return ps.storeMessage(ctx, p.To.place(), posted)
}

// classify returns the error of a preview, as a permanent one where another attempt can't
// help. It returns nil for nil.
func (ps *previews) classify(chat int64, err error) error {
	refused := refusal(err)
	switch {
	case refused == nil:
		return err
	case refused.Code == http.StatusTooManyRequests:
		ps.channel.pacer.block(chat, max(minRetryAfter, time.Duration(refused.RetryAfter)*time.Second))
		return err
	}
	return &channels.SendError{Permanent: true, Err: err}
}

// previewOf returns the beginning of a text as one message, with a mark that more follows.
// ok is false for a text that shows nothing.
func (c *Channel) previewOf(text string) (part channels.Part, ok bool) {
	if len(text) > maxPreview {
		text = text[:maxPreview]
	}
	part = c.renderer.parts(plaintext.Clean(text), 1)[0]
	if !markdown.Visible(part.Plain) || part.Plain == markdown.Nothing {
		return part, false
	}
	if markdown.Units(markdown.UTF16).Count(part.Plain+previewMark) <= maxUnits {
		part.Text += previewMark
		part.Plain += previewMark
	}
	return part, true
}

// take ends the preview in the place of a reply and returns the id of its message, which an
// earlier process may have posted; 0 for none. done frees the place for the next answer's
// preview.
func (ps *previews) take(ctx context.Context, to address) (id int64, done func(), err error) {
	at := to.place()
	p, err := ps.board.Take(ctx, string(at.key()), func(address) bool { return true }, func(of address) bool { return of.ReplyTo <= to.ReplyTo })
	done = func() { ps.board.Done(p) }
	if err != nil {
		return 0, done, err
	}
	if ps.channel.drafts.end(at) {
		if err := ps.forgetDraft(ctx, at); err != nil {
			return 0, done, err
		}
	}
	if p != nil && p.ID != "" {
		if id, err := strconv.ParseInt(p.ID, 10, 64); err == nil {
			return id, done, nil
		}
	}
	id, err = ps.storedMessage(ctx, at)
	return id, done, err
}

// remove ends the preview in the place of a reply and deletes its message, whose place a reply that begins
// with a picture can't take. The error is a *SendError.
func (ps *previews) remove(ctx context.Context, to address) error {
	at := to.place()
	id, done, err := ps.take(ctx, to)
	defer done()
	if err != nil {
		return &channels.SendError{Err: err}
	}
	if id == 0 {
		return nil
	}
	params := tgbotapi.Params{"chat_id": strconv.FormatInt(at.Chat, 10), "message_id": strconv.FormatInt(id, 10)}
	err = ps.channel.api.call(ctx, requestTimeout, "deleteMessage", params, nil)
	if refused := refusal(err); err != nil && (refused == nil || refused.Code == http.StatusTooManyRequests) {
		return ps.channel.sendError(at.Chat, err)
	}
	if err != nil {
		ps.channel.log.Debug("preview not deleted", "chat", at.Chat, "error", err)
	}
	if err := ps.storeMessage(ctx, at, 0); err != nil {
		return &channels.SendError{Err: err}
	}
	return nil
}
