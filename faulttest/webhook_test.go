package faulttest

import (
	"fmt"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
)

// hooked is Telegram that brings the messages to the gateway's webhook.
type hooked struct {
	telegram
	listen string // where every gateway of the test listens
}

func newHooked(w *world) platform {
	w.telegram = telegramtest.New(w.t)
	return hooked{telegram{w.telegram, "0s"}, gatewaytest.Address(w.t)}
}

func (h hooked) section() string {
	return h.telegram.section() + fmt.Sprintf("webhook_url = \"http://%s\"\n[http]\nlisten = %q\n", h.listen, h.listen)
}

func (h hooked) connections() int { return h.Calls("setWebhook") }

// load is that of Telegram, with half as many kills: the rest of a message's way is the same.
func (h hooked) load() load {
	l := h.telegram.load()
	l.kills /= 2
	return l
}

// TestKilledAtRandomBehindAWebhook is TestKilledAtRandom where Telegram brings
// the messages: one that it was told to forget must be answered.
func TestKilledAtRandomBehindAWebhook(t *testing.T) {
	t.Parallel()
	killAtRandom(newWorld(t, settings{platform: newHooked}))
}
