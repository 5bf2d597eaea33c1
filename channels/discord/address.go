package discord

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"parley/conversation"
)

// address is where a reply goes.
type address struct {
	Channel string `json:"channel"`            // ID of the channel, thread or DM to which the reply goes
	Source  string `json:"source"`             // the message or interaction that is answered, or an ID of its own, see Readdress
	ReplyTo string `json:"reply_to,omitempty"` // ID of the message that the reply refers to

	Parent string `json:"parent,omitempty"` // ID of the channel in which a thread is opened for the reply, on the message that has the ID Channel; "" = no thread is opened
	Name   string `json:"name,omitempty"`   // name of that thread
	Own    bool   `json:"own,omitempty"`    // the bot has opened the thread, and may rename it

	Answer *answering `json:"answer,omitempty"` // Source is an interaction

	Server string `json:"server,omitempty"` // ID of the server where the message was written
	Within string `json:"within,omitempty"` // ID of the channel whose thread the message was written in
}

// answering is how an interaction is answered.
type answering struct {
	Application string `json:"application"`
	Token       string `json:"token"`
	User        string `json:"user"`
	DM          bool   `json:"dm,omitempty"`        // the interaction came from a DM with the bot
	Private     bool   `json:"private,omitempty"`   // the answer is for the user alone
	Component   bool   `json:"component,omitempty"` // the interaction is a press of a button, whose message is edited
}

func (a address) String() string {
	raw, err := json.Marshal(a)
	if err != nil {
		panic(err) // texts and booleans always have JSON
	}
	return string(raw)
}

func parseAddress(text string) (address, error) {
	var a address
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.Channel == "" {
		return a, fmt.Errorf("address %q is not one of discord", text)
	}
	return a, nil
}

// nonce returns the key by which Discord recognises a part of the answer, so that it
// is created once however often it is sent. At most 25 characters:
// https://discord.com/developers/docs/resources/message#create-message
func (a address) nonce(part int) string {
	kind := ""
	if a.Answer != nil {
		kind = "i"
	}
	return kind + a.Source + "-" + strconv.Itoa(part)
}

// Readdress implements channels.Readdresser. It gives the reply a source of its own: by the one of
// the earlier message, the reply would be taken for another attempt to send that message's answer.
func (*Channel) Readdress(in conversation.Inbound) string {
	to, err := parseAddress(in.Address)
	if err != nil || to.Answer != nil && to.Answer.Private {
		return in.Address
	}
	const unique = 1<<22 - 1 // the bits of a snowflake below its time
	to.Source, to.Answer = strconv.FormatUint(firstAt(in.At)|uint64(in.Reminder.Reminder)&unique, 10), nil
	return to.String()
}

// tokenLife is how long an interaction can be answered, minus a margin for the
// request: https://discord.com/developers/docs/interactions/receiving-and-responding#followup-messages
const tokenLife = 15*time.Minute - 20*time.Second

// expired reports whether the interaction can no longer be answered as such.
func (a address) expired(now time.Time) bool { return now.Sub(bornAt(a.Source)) > tokenLife }

// sourceID returns the source id of an interaction, which differs from those of messages.
func sourceID(interaction string) string { return "i" + interaction }

func dmKey(user string) conversation.Key { return conversation.Key(name + ":dm:" + user) }

func threadKey(thread string) conversation.Key { return conversation.Key(name + ":thread:" + thread) }

func channelKey(channel string) conversation.Key {
	return conversation.Key(name + ":channel:" + channel)
}
