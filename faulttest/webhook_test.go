package faulttest

import (
	"fmt"
	"net"
	"testing"

	"parley/channels/telegram/telegramtest"
)

// hooked is Telegram that brings the messages to the gateway's webhook.
type hooked struct {
	telegram
	listen string // where every gateway of the test listens
}

func newHooked(w *world) platform {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now, for one gateway after the other
	w.must(err)
	w.must(l.Close())
	w.telegram = telegramtest.New(w.t)
	return hooked{telegram{w.telegram, "0s"}, l.Addr().String()}
}

func (h hooked) section() string {
	return h.telegram.section() + fmt.Sprintf("webhook_url = \"http://%s\"\n[http]\nlisten = %q\n", h.listen, h.listen)
}

func (h hooked) connections() int { return h.Calls("setWebhook") }

// TestKilledAtRandomBehindAWebhook is TestKilledAtRandom where Telegram brings
// the messages: one that it was told to forget must be answered.
func TestKilledAtRandomBehindAWebhook(t *testing.T) {
	t.Parallel()
	killAtRandom(newWorld(t, settings{platform: newHooked}))
}
