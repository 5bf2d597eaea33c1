package telegram

import (
	"context"
	"net/http"
	"strconv"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/conversation"
)

// alone says which member of a group is the only one to see a reply, and what the reply
// answers: a bot may send it within 15 s of that.
// https://core.telegram.org/bots/api#ephemeral-messages-and-commands
type alone struct {
	User    int64  `json:"user"`
	ReplyTo int64  `json:"reply_to,omitempty"` // ID of the user's ephemeral message that is answered
	Edit    int64  `json:"edit,omitempty"`     // ID of the bot's ephemeral message that the reply replaces
	Press   string `json:"press,omitempty"`    // ID of the callback query, if the user pressed a button below it
}

// tooLate is sent to the group in place of a reply for one person, when Telegram no longer
// takes that.
const tooLate = "The answer to a command was ready too late to be shown to its sender alone. Please send the command again."

// onlyCommands answers what somebody writes as a reply to an ephemeral message.
const onlyCommands = "Only commands can be answered so that nobody else sees it. Write everything else to me in the group."

// sourceID returns the id of a message in the inbox. Telegram numbers ephemeral messages
// separately.
func (m *message) sourceID() string {
	chat := strconv.FormatInt(m.Chat.ID, 10) + ":"
	if m.EphemeralID != 0 {
		return chat + "alone:" + m.sender().id() + ":" + strconv.FormatInt(m.EphemeralID, 10)
	}
	return chat + strconv.FormatInt(m.ID, 10)
}

// refusedAsTalk reports whether a message is ephemeral and no command, and tells its sender
// that only commands are answered privately: a model takes longer than Telegram allows, and
// the others would not know what the conversation is about.
func (c *Channel) refusedAsTalk(m *message, in conversation.Inbound) bool {
	if _, command := in.Command(); m.EphemeralID == 0 || command {
		return false
	}
	c.say(conversation.Delivery{Key: in.Key, Address: in.Address, Text: onlyCommands})
	return true
}

// say sends words that are no reply of a run. It does not block.
func (c *Channel) say(d conversation.Delivery) {
	c.helpers.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), sayTimeout)
		defer cancel()
		for _, part := range c.Split(d) {
			if _, err := c.Send(ctx, d, part); err != nil {
				c.log.Debug("words not sent", "session", d.Key, "error", err)
			}
		}
	})
}

// sayTimeout limits how long say tries.
const sayTimeout = 30 * time.Second

// limit adds to the parameters of a message the one person who sees it.
func (a *alone) limit(params tgbotapi.Params) {
	if a == nil {
		return
	}
	to := map[string]any{"receiver_user_id": a.User}
	if a.Press != "" {
		to["callback_query_id"] = a.Press
	}
	params["ephemeral_message_parameters"] = mustJSON(to)
	if a.ReplyTo != 0 {
		params["reply_parameters"] = mustJSON(map[string]any{"ephemeral_message_id": a.ReplyTo})
	}
}

// editAlone changes an ephemeral message of the bot.
func (c *Channel) editAlone(ctx context.Context, m outgoing) error {
	params := m.params()
	delete(params, "ephemeral_message_parameters")
	delete(params, "message_thread_id")
	params["receiver_user_id"] = strconv.FormatInt(m.Alone.User, 10)
	params["ephemeral_message_id"] = strconv.FormatInt(m.Alone.Edit, 10)
	err := c.api.call(ctx, requestTimeout, "editEphemeralMessageText", params, nil)
	if isUnchanged(err) {
		return nil
	}
	return err
}

// amendAlone changes an ephemeral message that was refused: an edit into a new one, and
// the first part of a reply into words for everybody that hold nothing of it.
func (m *outgoing) amendAlone() bool {
	switch {
	case m.Alone == nil:
		return false
	case m.Alone.Edit != 0:
		a := *m.Alone
		a.Edit, m.Alone = 0, &a
	case m.part.Index == 0:
		m.Alone, m.keyboard, m.markup = nil, "", false
		m.part.Text, m.part.Plain, m.part.File = tooLate, tooLate, nil
	default:
		return false
	}
	return true
}

// setGroupCommands sets the menu of commands in groups: with the key ephemeral, one that
// marks the private commands, so that nobody else sees them or their answers; otherwise
// groups have the same menu as other chats.
func (c *Channel) setGroupCommands(ctx context.Context) {
	params, method := tgbotapi.Params{"scope": `{"type":"all_group_chats"}`}, "deleteMyCommands"
	if c.ephemeral {
		params["commands"], method = c.menu(true), "setMyCommands"
	}
	err := c.api.call(ctx, requestTimeout, method, params, nil)
	if refused := refusal(err); refused != nil && refused.Code == http.StatusNotFound && !c.ephemeral { // an old server
		return
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("command menu of groups not set", "error", err)
	}
}
