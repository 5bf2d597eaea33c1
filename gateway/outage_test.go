package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// While the model can't be called, /readyz answers 200 and says that the gateway is degraded, metrics count what waits, a program gets
// its error at once, and the console's button has what failed answered.
func TestOutageIsShownAndRetriedByHand(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	g := gatewaytest.New(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll + fmt.Sprintf(
		"[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL)})
	var works atomic.Bool
	g.Model.Reply(func(c llmtest.Call) llmtest.Answer {
		if !works.Load() {
			return llmtest.Answer{Status: http.StatusPaymentRequired}
		}
		return llmtest.Answer{Text: "here"}
	})
	g.Start()
	get := func(method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	ada := telegramtest.User{ID: 42, FirstName: "Ada"}
	chat := telegramtest.Private(ada)
	platform.Say(chat, ada, "hello")
	gatewaytest.Await(t, "the notice", func() bool { return len(platform.SentTo(chat.ID)) == 1 })
	if notice := platform.SentTo(chat.ID)[0].Text; notice != "⏳ The model can't be used now. I will answer when it is back." {
		t.Errorf("the chat is told %q", notice)
	}
	status, answer := get("POST", "/v1/chat/completions", `{"model": "parley", "messages": [{"role": "user", "content": "hello"}]}`)
	if status < 400 {
		t.Errorf("a program gets %d: %s", status, answer)
	}
	status, ready := get("GET", "/readyz", "")
	var is struct {
		Ready bool
		Parts struct {
			Degraded []string
			Deferred struct{ Messages, Sessions int }
		}
	}
	if err := json.Unmarshal([]byte(ready), &is); err != nil {
		t.Fatal(err)
	}
	if status != http.StatusOK || !is.Ready || is.Parts.Deferred.Messages != 1 || is.Parts.Deferred.Sessions != 1 || len(is.Parts.Degraded) == 0 {
		t.Errorf("/readyz answers %d: %s", status, ready)
	}
	if _, metrics := get("GET", "/metrics", ""); !strings.Contains(metrics, "parley_deferred_messages 1\n") || !strings.Contains(metrics, "parley_deferred_sessions 1\n") {
		t.Error("the metrics do not count what waits")
	}
	if n := len(storedOf(t, g.Store(), "api")); n > 0 {
		t.Errorf("%d messages of programs wait", n)
	}
	works.Store(true)
	if done, err := gateway.RetryUnanswered(t.Context(), g.Store(), g.Store().Now().Add(-1e12)); err != nil || done.Messages > 1 || done.Failed != 0 {
		t.Errorf("by hand: %+v, %v", done, err)
	}
	gatewaytest.Await(t, "the answer", func() bool {
		sent := platform.SentTo(chat.ID)
		return len(sent) == 2 && sent[1].Text == "here"
	})
}

// An answer fails in the middle, while its beginning is shown: the notice that the message waits takes the place of what is shown, and
// the answer comes below.
func TestNoticeOfAnOutageEndsThePreview(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	g := gatewaytest.New(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll + fmt.Sprintf(
		"[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL)})
	isShown, show := waittest.Gate(t)
	var calls, works atomic.Int32
	g.Model.Reply(func(c llmtest.Call) llmtest.Answer {
		switch {
		case works.Load() > 0:
			return llmtest.Answer{Text: "here"}
		case calls.Add(1) == 1:
			return llmtest.Answer{Text: "The beginning of a long answer.", Pieces: 4, HoldAt: 2, Hold: isShown, CutAfter: 3}
		}
		return llmtest.Answer{Status: http.StatusPaymentRequired}
	})
	g.Start()
	ada := telegramtest.User{ID: 42, FirstName: "Ada"}
	group := telegramtest.Chat{ID: -100, Type: "supergroup", Title: "Group"}
	platform.Say(group, ada, "@"+platform.Bot.Username+" hello")
	gatewaytest.Await(t, "the beginning to be shown", func() bool {
		sent := platform.SentTo(group.ID)
		return len(sent) == 1 && strings.HasPrefix(sent[0].Text, "The")
	})
	show()
	gatewaytest.Await(t, "the notice", func() bool {
		sent := platform.SentTo(group.ID)
		return len(sent) == 1 && strings.HasSuffix(sent[0].Text, "I will answer when it is back.")
	})
	works.Store(1)
	gatewaytest.Await(t, "the answer", func() bool {
		sent := platform.SentTo(group.ID)
		return len(sent) == 2 && sent[1].Text == "here"
	})
}

// storedOf returns what waits for an answer in a channel.
func storedOf(t *testing.T, store *conversation.Store, channel string) (list []conversation.Inbound) {
	t.Helper()
	all, err := store.Inbox(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range all {
		if in.Channel() == channel {
			list = append(list, in)
		}
	}
	return list
}
