package telegram

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/channels/markdown"
	"parley/channels/preview"
	"parley/conversation"
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

func newPreviews(c *Channel, store preview.Store) *preview.Board[address] {
	return preview.NewBoard(preview.Config[address]{
		Every: previewPace, Post: c.postPreview, Edit: c.editPreview, Remove: c.removePreview, Store: store, Log: c.log,
	})
}

func previewPace(to address) time.Duration {
	if isGroup(to.Chat) {
		return previewEveryGroup
	}
	return previewEvery
}

// Preview shows the text so far, at a pace that leaves room for the reply. An answer
// that takes the place of a list with buttons gets no preview.
func (c *Channel) Preview(key conversation.Key, run int64, addr, text string) {
	to, err := parseAddress(addr)
	if err != nil || to.Edit != 0 || to.Alone != nil || c.migrations.currentID(to.Chat) != to.Chat {
		return
	}
	c.previews.Note(string(to.key()), key, run, to, text)
}

// Hurry shows the newest preview without waiting for the pace of edits, which is slow in a
// group. The limits of the chat hold all the same.
func (c *Channel) Hurry(addr string) {
	if to, err := parseAddress(addr); err == nil {
		c.previews.Hurry(string(to.key()))
	}
}

// postPreview shows the text of a preview as a draft, or posts it as a message.
func (c *Channel) postPreview(ctx context.Context, p *preview.Preview[address], text string) (id string, err error) {
	part, ok := c.previewOf(text)
	if !ok || c.pacer.blocked(p.To.Chat) > 0 {
		return "", nil
	}
	if c.drafts.takes(p.To) {
		if shown, err := c.showDraft(ctx, p, part); shown {
			return "", err
		}
	}
	id, err = c.sendPreview(ctx, p.To, part)
	if id == unknownID {
		return "", &channels.SendError{Permanent: true, Err: errors.New("the message has no id")}
	}
	return id, err
}

// editPreview makes the message of a preview read a text.
func (c *Channel) editPreview(ctx context.Context, to address, id, text string) (err error) {
	part, ok := c.previewOf(text)
	if !ok || c.pacer.blocked(to.Chat) > 0 {
		return nil
	}
	if to.Edit, err = strconv.ParseInt(id, 10, 64); err == nil {
		_, err = c.sendPreview(ctx, to, part)
	}
	return err
}

// sendPreview sends the message of a preview, or edits it where the address says so.
func (c *Channel) sendPreview(ctx context.Context, to address, part channels.Part) (id string, err error) {
	if err := c.pacer.wait(ctx, to.Chat); err != nil {
		return "", err
	}
	ctx, cancel := preview.Request(ctx)
	defer cancel()
	id, err = c.sendMessage(ctx, outgoing{address: to, part: part, markup: part.Text != part.Plain})
	return id, c.classify(to.Chat, err)
}

// classify returns the error of a preview, as a permanent one where another attempt can't
// help. It returns nil for nil.
func (c *Channel) classify(chat int64, err error) error {
	refused := refusal(err)
	switch {
	case refused == nil:
		return err
	case refused.Code == http.StatusTooManyRequests:
		wait := max(minRetryAfter, time.Duration(refused.RetryAfter)*time.Second)
		c.pacer.block(chat, wait)
		return &channels.SendError{RetryAfter: wait, Err: err}
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

// takePreview ends the preview of a delivery's run, and returns the message that becomes the reply; 0 for none. It removes a
// message that can't: one of another process, or any unless replaces is true. done frees the place for the next preview. The error
// is a *SendError.
func (c *Channel) takePreview(ctx context.Context, to address, d conversation.Delivery, replaces bool) (id int64, done func(), err error) {
	at := string(to.key())
	shown, stale, err := c.previews.Take(ctx, at, d)
	if err != nil {
		return 0, nil, &channels.SendError{Err: err}
	}
	if shown != "" && !replaces {
		err, shown = c.removePreview(ctx, to, shown), ""
	}
	if err == nil && stale != "" {
		err = c.removePreview(ctx, to, stale)
	}
	if err != nil {
		return 0, nil, c.sendError(to.Chat, err)
	}
	id, _ = strconv.ParseInt(shown, 10, 64)
	return id, func() { c.previews.Done(at, d.RunID) }, nil
}

// removePreview deletes the message of a preview. The error says that Telegram may take another attempt.
func (c *Channel) removePreview(ctx context.Context, to address, id string) error {
	params := tgbotapi.Params{"chat_id": strconv.FormatInt(to.Chat, 10), "message_id": id}
	ctx, cancel := channels.WithGrace(ctx)
	defer cancel()
	err := c.api.call(ctx, requestTimeout, "deleteMessage", params, nil)
	if refused := refusal(err); refused != nil && refused.Code != http.StatusTooManyRequests {
		c.log.Debug("preview not deleted", "chat", to.Chat, "error", err)
		return nil
	}
	return err
}
