package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// A person on Telegram is told that the model is busy, and for how long, before the next attempt: the
// second call gets no answer until the notice was sent.
func TestBusyModelIsReportedOnTelegramBeforeTheNextAttempt(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	g := gatewaytest.New(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll + "[agent]\ndrain_timeout = \"10ms\"\n" + fmt.Sprintf(
		"[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL)})
	seen := make(chan struct{})
	var asked sync.Map // messages, of which each is another one to the model
	g.Model.Reply(func(c llmtest.Call) llmtest.Answer {
		if _, again := asked.LoadOrStore(c.LastUser(), true); again {
			<-seen
		}
		return llmtest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"25"}}}
	})
	g.Start()
	defer close(seen)
	ada := telegramtest.User{ID: 42, FirstName: "Ada"}
	for _, chat := range []telegramtest.Chat{telegramtest.Private(ada), {ID: -1001, Type: "supergroup", Title: "Friends"}} {
		platform.Say(chat, ada, "@parley_bot Hello from "+chat.Type)
		gatewaytest.Await(t, "the words that the model is busy", func() bool {
			sent := platform.SentTo(chat.ID)
			return len(sent) == 1 && strings.Contains(sent[0].Text, "The model is busy. Trying again in 2")
		})
	}
}
