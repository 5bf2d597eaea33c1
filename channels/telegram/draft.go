package telegram

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/channels/preview"
	"parley/conversation"
	"parley/conversation/retry"
)

// drafts are the previews in private chats that are shown as Telegram's drafts. A draft
// disappears when the reply comes, or after 30 s, and has a button that stops the answer:
// https://core.telegram.org/bots/api#sendmessagedraft
type drafts struct {
	on      bool
	refused atomic.Bool // the server has no drafts: previews are messages, as in groups
}

// takes reports whether the preview of a reply is shown as a draft.
func (d *drafts) takes(to address) bool { return d.on && !d.refused.Load() && !isGroup(to.Chat) }

// showDraft shows a preview as a draft, whose ID is the run's. It returns false where Telegram refuses drafts.
func (c *Channel) showDraft(ctx context.Context, p *preview.Preview[address], part channels.Part) (bool, error) {
	params := tgbotapi.Params{"chat_id": strconv.FormatInt(p.To.Chat, 10), "draft_id": strconv.FormatInt(p.Run, 10), "text": part.Plain, "can_stop": "true", "keep_on_stop": "true"}
	params.AddNonZero64("message_thread_id", p.To.Topic)
	if part.Text != part.Plain {
		params["text"], params["parse_mode"] = part.Text, "HTML"
	}
	ctx, cancel := preview.Request(ctx)
	defer cancel()
	err := c.api.call(ctx, requestTimeout, "sendMessageDraft", params, nil)
	refused := refusal(err)
	switch {
	case refused == nil || refused.Code == http.StatusTooManyRequests:
		return true, c.classify(p.To.Chat, err)
	case strings.Contains(refused.Message, "can't parse entities"): // with more of the text it may
		return true, err
	case refused.Code == http.StatusNotFound || refused.Code == http.StatusBadRequest:
		if !c.drafts.refused.Swap(true) {
			c.log.Warn("drafts refused by Telegram, showing answers as messages", "error", err)
		}
		return false, nil
	}
	return true, c.classify(p.To.Chat, err)
}

// stopped is the press of a draft's button:
// https://core.telegram.org/bots/api#messagegenerationstopped
type stopped struct {
	Chat     account `json:"chat"`
	ThreadID int64   `json:"message_thread_id"`
	DraftID  int64   `json:"draft_id"`
}

// stopPressed takes the press of a draft's button as /stop. One that comes too late is
// dropped. The error is the end of ctx.
func (c *Channel) stopPressed(ctx context.Context, me *self, u update) ([]conversation.Inbound, error) {
	s := u.Stopped
	m := &message{From: &s.Chat, Chat: s.Chat, ThreadID: s.ThreadID, IsTopicMessage: s.ThreadID != 0}
	at := m.address().place()
	underWay := false
	err := retry.Persist(ctx, c.log, "read the run of a draft", func() (err error) {
		underWay, err = c.messages.IsUnderWay(ctx, at.key(), s.DraftID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if m.isGroup() || !underWay {
		c.skip(u, "the answer that was stopped is over")
		return nil, nil
	}
	in := conversation.Inbound{
		Key: at.key(), Account: c.account.ID, Address: at.String(), SourceID: "draft:" + s.Chat.id() + ":" + strconv.FormatInt(s.DraftID, 10),
		Sender: conversation.Sender{ID: s.Chat.id(), Name: s.Chat.name()}, Text: "/stop",
	}
	if ok, err := c.admits(ctx, me, m, in); err != nil || !ok {
		return nil, err
	}
	return []conversation.Inbound{in}, nil
}
