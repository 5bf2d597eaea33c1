package telegram

import (
	"testing"

	"parley/channels"
	"parley/conversation"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	for key, want := range map[conversation.Key]channels.Place{
		"telegram:chat:-100:topic:7": {Chat: "-100", Topic: "7"},
		"telegram:chat:42":           {Chat: "42"},
		"user:anna":                  {},
	} {
		if got := new(Channel).Locate(conversation.Inbound{Key: key}); got != want {
			t.Errorf("%s: %+v", key, got)
		}
	}
	if got := new(Channel).Locate(conversation.Inbound{Key: "user:anna", Origin: "telegram:chat:42"}); got.Chat != "42" {
		t.Errorf("%+v", got)
	}
}
