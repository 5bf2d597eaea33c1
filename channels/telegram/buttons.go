package telegram

import (
	"context"
	"encoding/json"
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
	maxLabel        = 60 // characters, which fit a phone
	maxCallbackData = 64 // bytes
)

// button is one below a message. A press gives its command.
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
	raw, err := json.Marshal(map[string]any{"inline_keyboard": rows})
	if err != nil {
		panic(err) // texts always have JSON
	}
	return string(raw)
}

// notAllowed and tooOld are what somebody is told who presses a button in vain.
const (
	notAllowed = "I am not allowed to talk with you here."
	tooOld     = "This button is too old. Send the command again."
)

// pressed takes the press of a button as the command that the button gives. The
// reply takes the place of the message with the button. The error is the end of ctx.
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
	m := &message{ID: p.Message.ID, From: p.From, Chat: p.Message.Chat, IsTopicMessage: p.Message.IsTopicMessage, ThreadID: p.Message.ThreadID}
	to := m.address()
	to.ReplyTo, to.Edit = 0, m.ID
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

// confirmTimeout is for how long an answer to a press is tried.
const confirmTimeout = 10 * time.Second

// confirmPress ends the sign of waiting on a button, with words if there are any. It
// does not block.
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
// whole text.
func (c *Channel) keyboardOf(d conversation.Delivery, p channels.Part) string {
	if len(d.Actions) == 0 || p.Index < len(c.Split(d))-1 {
		return ""
	}
	return keyboard(d.Actions)
}
