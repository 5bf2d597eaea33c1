package telegram

import (
	"context"
	"slices"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/conversation"
	"parley/plaintext"
)

// Limits of buttons: https://core.telegram.org/bots/api#inlinekeyboardbutton
const (
	maxButtons      = 20
	maxLabel        = 60 // characters of a label, which fit the screen of a phone
	maxCallbackData = 64 // bytes of a command
)

// button stands below a message. A press sends its command.
type button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// keyboard returns the buttons that offer actions, each on a line of its own, as
// JSON; "" for none. Those that Telegram can't show are left out: their commands can
// still be written.
func keyboard(actions []conversation.Action) string {
	var rows [][]button
	var given []string
	for _, a := range actions {
		label := []rune(plaintext.OneLine(a.Label))
		if len(label) == 0 || len(a.Command) > maxCallbackData || !strings.HasPrefix(a.Command, "/") || slices.Contains(given, a.Command) || len(given) == maxButtons {
			continue
		}
		given = append(given, a.Command)
		rows = append(rows, []button{{Text: string(label[:min(len(label), maxLabel)]), Data: a.Command}})
	}
	if len(rows) == 0 {
		return ""
	}
	return mustJSON(map[string]any{"inline_keyboard": rows})
}

// notAllowed and tooOld are the answers to a pressed button that has no effect.
const (
	notAllowed = "I am not allowed to talk with you here."
	tooOld     = "This button is too old. Send the command again."
)

// pressed accepts the command of a button that was pressed. The reply replaces the message
// with the button. The error is the end of ctx.
func (c *Channel) pressed(ctx context.Context, me *self, u update) ([]conversation.Inbound, error) {
	p := u.Callback
	if p.ID == "" || p.From == nil || p.From.IsBot || p.Message == nil || p.Message.Chat.ID == 0 {
		c.skip(u, "a button without a sender or a chat")
		return nil, nil
	}
	if p.Message.Date == 0 || !strings.HasPrefix(p.Data, "/") { // Telegram tells no more of the message, not even its topic
		c.confirmPress(p.ID, tooOld)
		return nil, nil
	}
	if p.Message.EphemeralID != 0 {
		p.Message.ID = 0
	}
	m := &message{ID: p.Message.ID, EphemeralID: p.Message.EphemeralID, From: p.From, Chat: p.Message.Chat, IsTopicMessage: p.Message.IsTopicMessage, ThreadID: p.Message.ThreadID}
	to := m.address()
	to.ReplyTo, to.Edit = 0, m.ID
	if to.Alone != nil {
		to.Alone = &alone{User: p.From.ID, Edit: m.EphemeralID, Press: p.ID}
	}
	in := conversation.Inbound{
		Key: to.key(), Account: c.account.ID, SourceID: "button:" + p.ID, Address: to.String(),
		Sender: conversation.Sender{ID: p.From.id(), Name: p.From.name()}, Group: m.isGroup(), Text: p.Data,
	}
	ok, err := c.admits(ctx, me, m, in)
	if err != nil {
		return nil, err
	}
	if !ok {
		c.confirmPress(p.ID, notAllowed)
		return nil, nil
	}
	c.confirmPress(p.ID, "")
	return []conversation.Inbound{in}, nil
}

// confirmTimeout limits the request that confirms a press.
const confirmTimeout = 10 * time.Second

// confirmPress makes the app stop showing a button as pressed, and shows words if there are
// any. It does not block.
func (c *Channel) confirmPress(id, words string) {
	params := tgbotapi.Params{"callback_query_id": id}
	params.AddNonEmpty("text", words)
	c.helpers.Go(func() {
		if err := c.api.call(context.Background(), confirmTimeout, "answerCallbackQuery", params, nil); err != nil {
			c.log.Debug("button not confirmed", "error", err)
		}
	})
}

// keyboardOf returns the buttons below one part of a delivery: they stand below the
// whole text, or the first picture of an answer without one.
func (c *Channel) keyboardOf(d conversation.Delivery, p channels.Part) string {
	if len(d.Actions) == 0 || p.Index != len(c.Split(d))-1 {
		return ""
	}
	return keyboard(d.Actions)
}
