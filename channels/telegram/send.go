package telegram

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/cluster"
	"parley/conversation"
)

// maxWait is how long Send waits for a rate-limited chat. A longer wait is left to the delivery
// queue, whose wait the end of the gateway can interrupt.
const maxWait = 3 * time.Second

var errBlocked = errors.New("not sent: the chat is rate limited")

// unknownID stands for the id of a message that Telegram has taken without saying its id.
const unknownID = "unknown"

// minRetryAfter is the wait after a 429 that names none.
const minRetryAfter = time.Second

// Send waits for the chat's rate limit and sends one part. In groups the first
// part is a reply. A part whose markup Telegram can't read is sent as plain text.
func (c *Channel) Send(ctx context.Context, d conversation.Delivery, p channels.Part) (id string, err error) {
	to, err := parseAddress(d.Address)
	if err != nil {
		return "", &channels.SendError{Permanent: true, Err: err}
	}
	m := outgoing{address: to, part: p, markup: p.Text != p.Plain, keyboard: c.keyboardOf(d, p), rich: c.richForm(to, d, p)}
	if p.Index > 0 {
		m.ReplyTo = 0
	}
	if p.Index > 0 || p.File != nil {
		m.Edit = 0
		if a := m.Alone; a != nil {
			m.Alone = &alone{User: a.User, ReplyTo: a.ReplyTo, Press: a.Press}
		}
	}
	if p.Index == 0 {
		shown, done, taking := c.takePreview(ctx, to, d, p.File == nil && !d.Interim)
		if taking != nil {
			return "", taking
		}
		defer func() {
			var refused *channels.SendError
			if err == nil || errors.As(err, &refused) && refused.Permanent { // else the next attempt takes it
				done()
			}
		}()
		m.Edit = cmp.Or(shown, m.Edit)
	}
	err = c.sendPatiently(ctx, &m, func() (err error) {
		id, err = c.sendMessage(ctx, m)
		return err
	})
	return id, err
}

// sendPatiently sends a message within its chat's rate limit. A refused message is amended and sent
// again if that may help. The error is a *SendError.
func (c *Channel) sendPatiently(ctx context.Context, m *outgoing, request func() error) error {
	if chat := c.migrations.currentID(m.Chat); chat != m.Chat {
		m.migrate(chat)
	}
	for {
		if !c.node.Holds(ctx) { // the message to be edited may be gone since another node has sent the reply
			return &channels.SendError{Err: cluster.ErrLost}
		}
		if c.token.isRejected() {
			return &channels.SendError{Err: errRejected}
		}
		if wait := c.pacer.blocked(m.Chat); wait > maxWait {
			return &channels.SendError{RetryAfter: wait, Err: errBlocked}
		}
		if err := c.pacer.wait(ctx, m.Chat); err != nil {
			return &channels.SendError{Err: err}
		}
		err := request()
		if err == nil {
			return nil
		}
		if !c.amend(ctx, m, err) {
			return c.sendError(m.Chat, err)
		}
	}
}

// outgoing is a message as the next request sends it.
type outgoing struct {
	address
	part     channels.Part
	album    []channels.Part // sent in place of part; nil: none
	markup   bool
	rich     string // the rich message that is sent in place of the text, as JSON; "" = none
	keyboard string // the buttons below the message, as JSON; "" = none
	migrated bool   // the message goes to the chat that the group of the address has become
}

// migrate redirects the message to the supergroup that its group became.
func (m *outgoing) migrate(chat int64) {
	m.Chat, m.Topic, m.ReplyTo, m.Edit, m.migrated = chat, 0, 0, 0, true
}

func (m outgoing) params() tgbotapi.Params {
	params := tgbotapi.Params{"chat_id": strconv.FormatInt(m.Chat, 10)}
	switch {
	case m.rich != "":
		params["rich_message"] = m.rich
	case m.part.File != nil:
		m.addText(params, "caption")
	case m.album == nil:
		params["link_preview_options"] = `{"is_disabled":true}`
		m.addText(params, "text")
	}
	params.AddNonEmpty("reply_markup", m.keyboard)
	m.Alone.limit(params)
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

// addText adds the text of the part, in the field that has this name.
func (m outgoing) addText(params tgbotapi.Params, field string) {
	params.AddNonEmpty(field, m.part.Plain)
	if m.markup {
		params[field], params["parse_mode"] = m.part.Text, "HTML"
	}
}

func (c *Channel) sendMessage(ctx context.Context, m outgoing) (string, error) {
	var sent struct {
		MessageID   int64 `json:"message_id"`
		EphemeralID int64 `json:"ephemeral_message_id"`
	}
	ctx, cancel := channels.WithGrace(ctx)
	defer cancel()
	var err error
	switch {
	case m.Alone != nil && m.Alone.Edit != 0:
		return strconv.FormatInt(m.Alone.Edit, 10), c.editAlone(ctx, m)
	case m.Edit != 0:
		err = c.api.call(ctx, requestTimeout, "editMessageText", m.params(), &sent)
		if isUnchanged(err) { // an attempt before this one did it
			return strconv.FormatInt(m.Edit, 10), nil
		}
	case m.part.File.IsPhoto():
		err = c.api.upload(ctx, "sendPhoto", m.params(), fileOf("photo", m.part.File), &sent)
		if refused := refusal(err); refused != nil && (strings.Contains(refused.Message, "PHOTO_") || strings.Contains(refused.Message, "IMAGE_")) { // such as one that is too wide
			err = c.api.upload(ctx, "sendDocument", m.params(), fileOf("document", m.part.File), &sent)
		}
	case m.part.File != nil:
		err = c.api.upload(ctx, "sendDocument", m.params(), fileOf("document", m.part.File), &sent)
	case m.rich != "":
		err = c.api.call(ctx, requestTimeout, "sendRichMessage", m.params(), &sent)
	default:
		err = c.api.call(ctx, requestTimeout, "sendMessage", m.params(), &sent)
	}
	if errors.Is(err, errResult) {
		c.log.Warn("message sent, but the response is not understood", "chat", m.Chat, "error", err)
		return unknownID, nil
	}
	return strconv.FormatInt(max(sent.MessageID, sent.EphemeralID), 10), err
}

// fileOf returns a file as the one of its request.
func fileOf(field string, file *channels.File) []tgbotapi.RequestFile {
	return []tgbotapi.RequestFile{{Name: field, Data: tgbotapi.FileBytes{Name: file.Name, Bytes: file.Data}}}
}

// amend changes a refused message into one that may pass, in each way once.
func (c *Channel) amend(ctx context.Context, m *outgoing, err error) bool {
	refused := refusal(err)
	if refused != nil && m.rich != "" && c.rich.isRefused(c.log, m.Chat, refused) {
		m.rich = ""
		return true
	}
	if refused == nil || refused.Code != http.StatusBadRequest {
		return false
	}
	switch why := strings.ToLower(refused.Message); {
	case m.markup && (strings.Contains(why, "can't parse entities") || strings.Contains(why, "entities_too_long")):
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
		return m.amendAlone()
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
	case http.StatusUnauthorized: // the token is refused, not the message
		return &channels.SendError{Err: err}
	case http.StatusTooManyRequests:
		wait := max(minRetryAfter, time.Duration(refused.RetryAfter)*time.Second)
		c.pacer.block(chat, wait)
		return &channels.SendError{RetryAfter: wait, Err: err}
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		closed := refused.Code == http.StatusForbidden || strings.Contains(refused.Message, "chat not found") || strings.Contains(refused.Message, "TOPIC_CLOSED")
		return &channels.SendError{Permanent: true, Closed: closed, Err: err}
	}
	return &channels.SendError{Err: c.health.judge(err)}
}

// isUnchanged reports whether an edit was refused because the message has this text already.
func isUnchanged(err error) bool {
	refused := refusal(err)
	return refused != nil && strings.Contains(refused.Message, "message is not modified")
}
