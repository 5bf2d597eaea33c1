package faulttest

import (
	"fmt"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
)

// telegramWebhook is Telegram with a webhook of the gateway.
type telegramWebhook struct {
	telegram
	listen string // where every gateway of the test listens
}

func newTelegramWebhook(w *world) platform {
	w.telegram = telegramtest.New(w.t)
	return telegramWebhook{telegram{w.telegram, "0s"}, gatewaytest.Address(w.t)}
}

func (h telegramWebhook) section() string {
	return h.telegram.section() + fmt.Sprintf("webhook_url = \"http://%s\"\n[http]\nlisten = %q\n", h.listen, h.listen)
}

func (h telegramWebhook) connections() int { return h.Calls("setWebhook") }

// load is that of Telegram with half as many kills, since only the way in differs.
func (h telegramWebhook) load() load {
	l := h.telegram.load()
	l.kills /= 2
	return l
}

// TestKilledAtRandomBehindAWebhook is TestKilledAtRandom with a webhook: a message that the gateway has
// acknowledged there must be answered.
func TestKilledAtRandomBehindAWebhook(t *testing.T) {
	t.Parallel()
	killAtRandom(newWorld(t, settings{platform: newTelegramWebhook}))
}
