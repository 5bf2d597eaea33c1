package faulttest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/channels/discord/discordtest"
	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

// TestRoutesChooseTheAgent has people write where routes by person and by topic name agents.
func TestRoutesChooseTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		prompt := c.Messages[0].Content
		for _, agent := range []string{"baker", "smith"} {
			if strings.Contains(prompt, "You are the "+agent) {
				return llmtest.Answer{Text: agent}
			}
		}
		return llmtest.Answer{Text: "nobody"}
	})
	w.gw.Configure(w.config(settings{}) + `
[agents.baker]
system_prompt = "You are the baker."
[agents.smith]
system_prompt = "You are the smith."
[[route]]
agent = "baker"
topic = 5
[[route]]
agent = "smith"
person = "telegram:2"
`)
	p := w.startServing()
	defer p.Stop()
	group := telegramtest.Forum(-1000000000042, "Team")
	w.telegram.AddChat(group, 5, 6)
	for n, c := range []struct {
		chat  telegramtest.Chat
		who   int
		topic int64
		want  string
	}{
		{telegramtest.Private(person(1)), 1, 0, "nobody"},
		{telegramtest.Private(person(2)), 2, 0, "smith"},
		{group, 1, 5, "baker"},
		{group, 2, 5, "baker"}, // the first route that fits
		{group, 1, 6, "nobody"},
		{group, 2, 6, "smith"},
	} {
		before := len(w.telegram.SentTo(c.chat.ID))
		var options []telegramtest.Option
		if c.topic != 0 {
			options = append(options, telegramtest.InTopic(c.topic))
		}
		w.telegram.Say(c.chat, person(c.who), "@parley_bot who are you?", options...)
		gatewaytest.Await(t, "an answer", func() bool { return len(w.telegram.SentTo(c.chat.ID)) > before })
		if got := w.telegram.SentTo(c.chat.ID)[before]; !strings.Contains(got.Text, c.want) || got.Topic != c.topic {
			t.Errorf("message %d is answered by %q in topic %d, want %q in %d", n, got.Text, got.Topic, c.want, c.topic)
		}
	}
}

// TestRoutesByThreadChooseTheAgent has a person write in two threads of Discord. A route names an agent
// for one of them.
func TestRoutesByThreadChooseTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newDiscord})
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.Messages[0].Content, "You are the baker.") {
			return llmtest.Answer{Text: "baker"}
		}
		return llmtest.Answer{Text: "nobody"}
	})
	d, ann := w.discord, w.discord.Person("Ann")
	bakery, smithy := d.Thread(d.lobby, discordtest.Bot, "Bakery"), d.Thread(d.lobby, discordtest.Bot, "Smithy")
	w.gw.Configure(w.config(settings{}) + fmt.Sprintf(`
[agents.baker]
system_prompt = "You are the baker."
[[route]]
agent = "baker"
thread = %s
`, bakery.ID))
	p := w.startServing()
	defer p.Stop()
	for _, c := range []struct {
		thread discordtest.Channel
		want   string
	}{{bakery, "baker"}, {smithy, "nobody"}, {d.lobby, "nobody"}} {
		d.Say(c.thread, ann, discordtest.Bot.Mention()+" who are you?")
		gatewaytest.Await(t, "an answer", func() bool {
			return slices.ContainsFunc(d.SentTo(c.thread), func(m discordtest.Message) bool { return m.Content == c.want })
		})
	}
}

// TestBusyModelIsReportedInTheChat makes the model's server ask the gateway to wait.
func TestBusyModelIsReportedInTheChat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.model.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"20"}}}
	})
	p := w.startServing()
	defer p.Kill()
	w.telegram.Say(telegramtest.Private(person(1)), person(1), "hello")
	gatewaytest.Await(t, "words about the wait", func() bool {
		return strings.Contains(strings.Join(w.platform.sent(1), "\n"), "The model is busy. Trying again in 20 seconds.")
	})
}

// TestConcurrentRunsDoNotExceedTheCap has fifty people write at once to a gateway whose cap has room for
// a few calls.
func TestConcurrentRunsDoNotExceedTheCap(t *testing.T) {
	t.Parallel()
	const most, each, people = 4000, 400, 50
	w := newWorld(t, settings{budget: "total_tokens = 4000", llm: "max_output_tokens = 400"})
	w.model.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "yes", Usage: &llm.Usage{Prompt: each - 1, Completion: 1}}
	})
	p := w.startServing()
	for chat := 1; chat <= people; chat++ {
		w.platform.say(chat, fmt.Sprint("question of ", chat))
	}
	gatewaytest.Await(t, "an answer for everybody", func() bool {
		for chat := 1; chat <= people; chat++ {
			if len(w.platform.sent(chat)) == 0 {
				return false
			}
		}
		return true
	})
	p.Stop()
	calls := w.model.Served()
	if (calls-1)*each >= most {
		t.Errorf("%d calls of %d tokens passed a cap of %d", calls, each, most)
	}
	t.Logf("%d calls for %d people", calls, people)
}
