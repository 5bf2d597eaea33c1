package telegram

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/conversation"
)

// maxTurn is how long a message may wait for a chat that Telegram has asked to
// leave alone.
const maxTurn = 3 * time.Second

var errBlocked = errors.New("not sent: the chat is rate limited")

// minRetryAfter is the wait after a 429 that names none.
const minRetryAfter = time.Second

// Send waits for the chat's rate limit and sends one part. In groups the first
// part is a reply. A part whose markup Telegram can't read is sent as plain text.
func (c *Channel) Send(ctx context.Context, d conversation.Delivery, p channels.Part) (string, error) {
	to, err := parseAddress(d.Address)
	if err != nil {
		return "", &channels.SendError{Permanent: true, Err: err}
	}
	m := outgoing{address: to, part: p, markup: p.Text != p.Plain, keyboard: c.keyboardOf(d, p)}
	if p.Index > 0 {
		m.ReplyTo = 0
	}
	if p.Index > 0 || p.File != nil {
		m.Edit = 0
	}
	shown := int64(0)
	if p.Index == 0 && p.File == nil && m.Edit == 0 {
		if shown, err = c.previews.take(ctx, to.place()); err != nil {
			return "", &channels.SendError{Err: err}
		}
		m.Edit = shown
	}
	if chat := c.migrations.currentID(m.Chat); chat != m.Chat {
		m.migrate(chat)
	}
	for {
		if c.token.isRejected() {
			return "", &channels.SendError{Err: errRejected}
		}
		if wait := c.pacer.blocked(m.Chat); wait > maxTurn { // where the end of the gateway need not wait for it
			return "", &channels.SendError{RetryAfter: wait, Err: errBlocked}
		}
		if err := c.pacer.wait(ctx, m.Chat); err != nil {
			return "", &channels.SendError{Err: err}
		}
		id, err := c.sendMessage(ctx, m)
		if err == nil && shown != 0 { // before the mark, so that no later reply takes this one's place
			err = c.previews.keep(ctx, to.place(), 0)
		}
		if err == nil {
			return id, nil
		}
		if !c.amend(ctx, &m, err) {
			return "", c.sendError(m.Chat, err)
		}
	}
}

// outgoing is a message as it is sent next.
type outgoing struct {
	address
	part     channels.Part
	markup   bool
	keyboard string // as JSON; "" = none
	migrated bool   // to another chat than the address says
}

// migrate redirects the message to the supergroup that its group became.
func (m *outgoing) migrate(chat int64) {
	m.Chat, m.Topic, m.ReplyTo, m.Edit, m.migrated = chat, 0, 0, 0, true
}

func (m outgoing) params() tgbotapi.Params {
	params := tgbotapi.Params{"chat_id": strconv.FormatInt(m.Chat, 10)}
	text := "text"
	if m.part.File != nil {
		text = "caption"
	} else {
		params["link_preview_options"] = `{"is_disabled":true}`
	}
	params.AddNonEmpty(text, m.part.Plain)
	if m.markup {
		params[text], params["parse_mode"] = m.part.Text, "HTML"
	}
	params.AddNonEmpty("reply_markup", m.keyboard)
	if m.Edit != 0 {
		params.AddNonZero64("message_id", m.Edit)
		return params
	}
	params.AddNonZero64("message_thread_id", m.Topic)
	if m.ReplyTo != 0 {
		params["reply_parameters"] = `{"message_id":` + strconv.FormatInt(m.ReplyTo, 10) + `,"allow_sending_without_reply":true}`
	}
	return params
}

func (c *Channel) sendMessage(ctx context.Context, m outgoing) (string, error) {
	var sent struct {
		MessageID int64 `json:"message_id"`
	}
	ctx, cancel := channels.WithGrace(ctx)
	defer cancel()
	var err error
	switch {
	case m.Edit != 0:
		err = c.api.call(ctx, requestTimeout, "editMessageText", m.params(), &sent)
		if isUnchanged(err) { // an attempt before this one did it
			return strconv.FormatInt(m.Edit, 10), nil
		}
	case m.part.File != nil:
		err = c.api.upload(ctx, "sendDocument", m.params(), "document", m.part.File, &sent)
	default:
		err = c.api.call(ctx, requestTimeout, "sendMessage", m.params(), &sent)
	}
	if errors.Is(err, errResult) {
		c.log.Warn("message sent, but the response is not understood", "chat", m.Chat, "error", err)
		return "unknown", nil
	}
	return strconv.FormatInt(sent.MessageID, 10), err
}

// amend changes a refused message into one that may pass, in each way once.
func (c *Channel) amend(ctx context.Context, m *outgoing, err error) bool {
	refused := refusal(err)
	if refused == nil || refused.Code != http.StatusBadRequest {
		return false
	}
	switch why := strings.ToLower(refused.Message); {
	case m.markup && strings.Contains(why, "can't parse entities"):
		c.log.Warn("markup rejected by Telegram, sending plain text", "chat", m.Chat, "error", err)
		m.markup = false
	case m.Edit != 0 && strings.Contains(why, "message") && !strings.Contains(why, "too long"): // it is gone, or can't be edited any more
		m.Edit = 0
	case m.ReplyTo != 0 && (strings.Contains(why, "message to be replied not found") || strings.Contains(why, "replied message not found")):
		m.ReplyTo = 0
	case refused.MigrateToChatID != 0 && !m.migrated:
		if err := c.moveGroup(ctx, m.Chat, refused.MigrateToChatID); err != nil {
			c.log.Warn("migration to a supergroup not stored; the next message to it tries again",
				"chat", m.Chat, "new_chat", refused.MigrateToChatID, "error", err)
		}
		m.migrate(refused.MigrateToChatID)
	default:
		return false
	}
	return true
}

// sendError classifies why a message was not taken. What the server understood
// and refused stays refused; everything else may pass later.
func (c *Channel) sendError(chat int64, err error) error {
	refused := refusal(err)
	if refused == nil {
		return &channels.SendError{Err: c.health.judge(err)}
	}
	if isRejection(err) {
		c.token.check()
	}
	switch refused.Code {
	case http.StatusUnauthorized: // no fault of the message's
		return &channels.SendError{Err: err}
	case http.StatusTooManyRequests:
		wait := max(minRetryAfter, time.Duration(refused.RetryAfter)*time.Second)
		c.pacer.block(chat, wait)
		return &channels.SendError{RetryAfter: wait, Err: err}
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		return &channels.SendError{Permanent: true, Err: err}
	}
	return &channels.SendError{Err: c.health.judge(err)}
}

// isUnchanged reports whether an edit was refused since the message reads so already.
func isUnchanged(err error) bool {
	refused := refusal(err)
	return refused != nil && strings.Contains(refused.Message, "message is not modified")
}
