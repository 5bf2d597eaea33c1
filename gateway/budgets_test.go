package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

// A person is told in their own time zone when a budget is reset, or else in the zone that [reminders]
// has for everybody.
func TestResetOfABudgetIsToldInThePersonsTimeZone(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	s := gatewaytest.Start(t, gatewaytest.Options{InProcess: true, Config: fmt.Sprintf("[budget]\ntimezone = \"UTC\"\nperson_tokens = 100\n[reminders]\ntimezone = \"Asia/Tokyo\"\n"+
		"[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL)})
	s.Model.Reply(func(c llmtest.Call) llmtest.Answer {
		if zone, asks := strings.CutPrefix(c.LastUser(), "I am in "); asks {
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "c", Name: "remind", Arguments: fmt.Sprintf(`{"text":"x","in_minutes":600,"timezone":%q}`, zone)}},
				Usage: &llm.Usage{Prompt: 100}}
		}
		return llmtest.Answer{Text: "Yes.", Usage: &llm.Usage{Prompt: 100}}
	})
	for id, c := range map[int64]struct{ text, want string }{
		42: {"Are you there?", "more from 09:00 Asia/Tokyo time (in "},
		43: {"I am in Asia/Kolkata", "more from 05:30 Asia/Kolkata time (in "},
	} {
		who := telegramtest.User{ID: id, FirstName: "Ada"}
		platform.Say(telegramtest.Private(who), who, c.text)
		gatewaytest.Await(t, "the words "+c.want, func() bool {
			sent := platform.SentTo(id)
			return len(sent) > 0 && strings.Contains(sent[len(sent)-1].Text, c.want)
		})
	}
}
