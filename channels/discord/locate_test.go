package discord

import (
	"testing"

	"parley/channels"
	"parley/conversation"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   conversation.Inbound
		want channels.Place
	}{
		{conversation.Inbound{Key: threadKey("5"), Address: address{Channel: "5", Server: "1", Within: "2"}.String()}, channels.Place{Server: "1", Chat: "2", Thread: "5"}},
		{conversation.Inbound{Key: channelKey("2"), Address: address{Channel: "2", Server: "1"}.String()}, channels.Place{Server: "1", Chat: "2"}},
		{conversation.Inbound{Key: dmKey("9"), Address: address{Channel: "8"}.String()}, channels.Place{}},
		{conversation.Inbound{Key: threadKey("5")}, channels.Place{Thread: "5"}},
	} {
		if got := new(Channel).Locate(c.in); got != c.want {
			t.Errorf("%+v: %+v", c.in, got)
		}
	}
}
