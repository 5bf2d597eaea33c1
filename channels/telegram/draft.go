package telegram

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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

	mu    sync.Mutex
	shown map[address]int64 // IDs of the drafts that are shown, by place
}

// draftMark is the beginning of the id of a preview that is shown as a draft.
const draftMark = "draft:"

// takes reports whether a preview is shown as a draft.
func (d *drafts) takes(p *preview.Preview[address]) bool {
	return d.on && !d.refused.Load() && !isGroup(p.To.Chat) && (p.ID == "" || strings.HasPrefix(p.ID, draftMark))
}

// id returns the id of a place's draft, which is the time at which it began.
func (d *drafts) id(at address) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shown == nil {
		d.shown = map[address]int64{}
	}
	if d.shown[at] == 0 {
		d.shown[at] = time.Now().Unix()
	}
	return d.shown[at]
}

// end forgets the draft of a place, and reports whether there was one.
func (d *drafts) end(at address) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, shown := d.shown[at]
	delete(d.shown, at)
	return shown
}

// is reports whether id is the draft that a place shows now.
func (d *drafts) is(at address, id int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return id != 0 && d.shown[at] == id
}

// showDraft shows a preview as a draft. It returns false where Telegram refuses drafts.
func (c *Channel) showDraft(ctx context.Context, p *preview.Preview[address], part channels.Part) (bool, error) {
	at := p.To.place()
	id := c.drafts.id(at)
	params := tgbotapi.Params{"chat_id": strconv.FormatInt(p.To.Chat, 10), "draft_id": strconv.FormatInt(id, 10), "text": part.Plain, "can_stop": "true", "keep_on_stop": "true"}
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
		if err == nil && p.ID == "" {
			p.ID = draftMark + strconv.FormatInt(id, 10)
			return true, c.previews.noteDraft(ctx, at, id)
		}
		return true, c.previews.classify(p.To.Chat, err)
	case strings.Contains(refused.Message, "can't parse entities"): // with more of the text it may
		return true, err
	case refused.Code == http.StatusNotFound || refused.Code == http.StatusBadRequest:
		if !c.drafts.refused.Swap(true) {
			c.log.Warn("drafts refused by Telegram, showing answers as messages", "error", err)
		}
		c.drafts.end(at)
		p.ID = ""
		return false, nil
	}
	return true, c.previews.classify(p.To.Chat, err)
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
	shown := false
	err := retry.Persist(ctx, c.log, "read the draft of a chat", func() (err error) {
		shown, err = c.previews.showsDraft(ctx, at, s.DraftID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if m.isGroup() || !shown {
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
