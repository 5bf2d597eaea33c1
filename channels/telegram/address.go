package telegram

import (
	"encoding/json"
	"fmt"
	"strconv"

	"parley/conversation"
)

// address is where a reply goes.
type address struct {
	Chat    int64  `json:"chat"`
	Topic   int64  `json:"topic,omitempty"`    // ID of the topic of a forum; 0 = none
	ReplyTo int64  `json:"reply_to,omitempty"` // ID of the message that the reply refers to
	Edit    int64  `json:"edit,omitempty"`     // ID of the bot's message that is edited into the reply
	Alone   *alone `json:"alone,omitempty"`    // nil: everybody in the chat sees the reply
}

func (a address) String() string {
	return mustJSON(a)
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and numbers always have JSON
	}
	return string(raw)
}

func parseAddress(text string) (address, error) {
	var a address
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.Chat == 0 {
		return a, fmt.Errorf("address %q is not one of telegram", text)
	}
	return a, nil
}

// Readdress implements channels.Readdresser. The message that an earlier reply has edited keeps
// that reply.
func (*Channel) Readdress(in conversation.Inbound) string {
	to, err := parseAddress(in.Address)
	if err != nil {
		return in.Address
	}
	to.Edit = 0
	return to.String()
}

// chatPrefix begins the keys of chats.
const chatPrefix = name + ":chat:"

// key returns the session key of the place.
func (a address) key() conversation.Key {
	key := chatPrefix + strconv.FormatInt(a.Chat, 10)
	if a.Topic != 0 {
		key += ":topic:" + strconv.FormatInt(a.Topic, 10)
	}
	return conversation.Key(key)
}
