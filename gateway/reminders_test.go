package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"parley/channels/discord/discordtest"
	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

// remindAtOnce has the model set a reminder that is due at once when it is asked for one, and say so.
func remindAtOnce(c llmtest.Call) llmtest.Answer {
	last := c.Messages[len(c.Messages)-1]
	switch {
	case last.Role == "tool":
		return llmtest.Answer{Text: "I will remind you."}
	case strings.Contains(last.Content, "⏰"):
		return llmtest.Answer{Text: "Drink some water!"}
	}
	return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "remind", Arguments: `{"text": "drink water", "in_minutes": 0.001}`}}}
}

// On Discord a reminder comes as a message of its own. The answer to the message that asked for it stays as it is, whether the
// reminder is due while Discord still knows the nonce of that answer, or after a restart, when the adapter looks for earlier
// attempts in the channel.
func TestReminderOnDiscordLeavesTheAnswerBeforeIt(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			platform := discordtest.New(t)
			g := gatewaytest.New(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll + fmt.Sprintf(
				"[reminders]\ntimezone = \"UTC\"\n[discord]\ntoken = %q\napi_url = %q\naccess = \"open\"\n", discordtest.Token, platform.URL)})
			g.Model.Reply(func(c llmtest.Call) llmtest.Answer {
				answer := remindAtOnce(c)
				if restarts && len(answer.ToolCalls) > 0 {
					answer.ToolCalls[0].Arguments = `{"text": "drink water", "in_minutes": 0.03}`
				}
				return answer
			})
			g.Start()
			if err := platform.WaitConnected(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			ada := platform.Person("Ada")
			dm := platform.DM(ada)
			platform.Say(dm, ada, "Remind me to drink water")
			gatewaytest.Await(t, "the answer", func() bool {
				sent := platform.SentTo(dm)
				return len(sent) > 0 && sent[0].Content == "I will remind you."
			})
			if restarts {
				g.Stop()
				g.Start()
			}
			gatewaytest.Await(t, "the reminder", func() bool {
				for _, m := range platform.SentTo(dm) {
					if strings.Contains(m.Content, "water!") {
						return true
					}
				}
				return false
			})
			var texts []string
			for _, m := range platform.SentTo(dm) {
				texts = append(texts, m.Content)
			}
			if len(texts) != 2 || texts[0] != "I will remind you." || texts[1] != "Drink some water!" {
				t.Errorf("the chat shows %q", texts)
			}
		})
	}
}

// On Telegram a reminder that was asked for by a press of "Try again" comes as a message of its own, with a notification, and
// does not take the place of the answer.
func TestReminderOnTelegramLeavesTheMessageOfThePressedButton(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	g := gatewaytest.New(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll + fmt.Sprintf(
		"[reminders]\ntimezone = \"UTC\"\n[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL)})
	var works atomic.Bool
	g.Model.Reply(func(c llmtest.Call) llmtest.Answer {
		if !works.Load() {
			return llmtest.Answer{Status: http.StatusBadRequest}
		}
		return remindAtOnce(c)
	})
	g.Start()
	ada := telegramtest.User{ID: 42, FirstName: "Ada"}
	chat := telegramtest.Private(ada)
	platform.Say(chat, ada, "Remind me to drink water")
	gatewaytest.Await(t, "the words that the answer failed", func() bool { return len(platform.SentTo(chat.ID)) == 1 })
	works.Store(true)
	platform.Press(ada, platform.SentTo(chat.ID)[0].ID, "Try again")
	gatewaytest.Await(t, "the reminder", func() bool {
		for _, m := range platform.SentTo(chat.ID) {
			if m.Text == "Drink some water!" {
				return true
			}
		}
		return false
	})
	var texts []string
	for _, m := range platform.SentTo(chat.ID) {
		texts = append(texts, m.Text)
	}
	if len(texts) != 2 || texts[0] != "I will remind you." || texts[1] != "Drink some water!" {
		t.Errorf("the chat shows %q", texts)
	}
}
