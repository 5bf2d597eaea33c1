package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/channels/discord/discordtest"
	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
	"parley/tools/mcp/mcptest"
)

// In these tests, Ada causes a question in a group. Bob has access and is no approver; Eve has no access.
// Neither can answer the question, by commands, buttons or words.

// callsInGroup is calls for messages that begin with the name of their sender.
func callsInGroup(c llmtest.Call) llmtest.Answer {
	last := &c.Messages[len(c.Messages)-1]
	if last.Role == "user" {
		last.Content = last.Content[strings.Index(last.Content, ": ")+2:]
	}
	return calls(c)
}

func TestOnlyApproversAnswerOnTelegram(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	ada, bob, eve := telegramtest.User{ID: 42, FirstName: "Ada"}, telegramtest.User{ID: 43, FirstName: "Bob"}, telegramtest.User{ID: 44, FirstName: "Eve"}
	group := telegramtest.Group(-1001, "Friends")
	platform.AddChat(group)
	s := startServerGateway(t, "2025", "tools.pay = { approve = \"ask\" }", fmt.Sprintf("[telegram]\ntoken = %q\napi_url = %q\naccess = \"allowlist\"\nallow = [\"42\", \"43\"]\nfree_chats = [\"-1001\"]\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n",
		telegramtest.Token, platform.URL))
	s.Model.Reply(callsInGroup)
	// await returns the message of the bot that contains a text, as it is now.
	await := func(text string) (found telegramtest.Message) {
		gatewaytest.Await(t, "a message with "+text, func() bool {
			for _, m := range platform.SentTo(-1001) {
				if strings.Contains(m.Text, text) {
					found = m
					return true
				}
			}
			return false
		})
		return found
	}
	// refused lets a person try everything, and then Bob, who gets a reply.
	tries := 0
	refused := func(question telegramtest.Message, words ...string) {
		for _, who := range []telegramtest.User{eve, bob} {
			for _, b := range question.Buttons {
				platform.Press(who, question.ID, b.Text)
			}
			for _, text := range words {
				platform.Say(group, who, text)
			}
		}
		tries += len(words)
		gatewaytest.Await(t, "what Bob is told", func() bool {
			told := 0
			for _, m := range platform.SentTo(-1001) {
				if strings.HasPrefix(m.Text, "Bob, you may not answer question") && m.ID != question.ID {
					told++
				}
			}
			return told == tries
		})
		for _, m := range platform.SentTo(-1001) {
			if strings.Contains(m.Text, "Eve") {
				t.Errorf("Eve is answered: %s", m.Text)
			}
			if m.ID == question.ID && (!strings.HasSuffix(m.Text, question.Text) || len(m.Buttons) != len(question.Buttons)) {
				t.Errorf("the question is now %+v", m)
			}
		}
	}
	platform.Say(group, ada, `shop_pay {"id": "1"}`)
	refused(await("May I do this?"), "/approve 1", "/approve", "/approve all", "/deny 1", "/deny 1 cancel")
	if done := mcptest.Lines(s.folder, "effects"); len(done) != 0 {
		t.Errorf("the server has done %q", done)
	}
	platform.Press(ada, await("May I do this?").ID, "Allow") // it still has its buttons
	await("It says: did pay")

	platform.Say(group, ada, `shop_ask {"id": "2"}`)
	form := await("The tool server shop asks")
	refused(form, "/answer 2 1 red", "/answer 2 2 5", "/approve 2", "/deny 2 cancel")
	platform.Press(ada, form.ID, "Navy")
	await("a whole number from 1 to 9")
	platform.Say(group, ada, "/answer 2 2 5")
	ready := await("2. size: 5")
	refused(ready, "/approve 2")
	platform.Press(ada, ready.ID, "Send")
	await(`It says: accept {"colour":"blue","size":5}`)
}

func TestOnlyApproversAnswerOnDiscord(t *testing.T) {
	t.Parallel()
	platform := discordtest.New(t)
	home := platform.Guild("Home")
	ada, bob, eve := platform.Person("Ada"), platform.Person("Bob"), platform.Person("Eve")
	for _, who := range []discordtest.User{ada, bob, eve} {
		platform.Join(home, who)
	}
	place := platform.Channel(home, "general")
	s := startServerGateway(t, "2025", "tools.pay = { approve = \"ask\" }", fmt.Sprintf("[discord]\ntoken = %q\napi_url = %q\naccess = \"allowlist\"\nallow = [%q, %q]\nfree_channels = [%q]\n",
		discordtest.Token, platform.URL, ada.ID, bob.ID, place.ID))
	s.Model.Reply(callsInGroup)
	if err := platform.WaitConnected(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	// await returns the message of the bot that contains a text, as it is now.
	await := func(text string) (found discordtest.Message) {
		gatewaytest.Await(t, "a message with "+text, func() bool {
			for _, m := range platform.SentTo(place) {
				if strings.Contains(m.Content, text) && !m.Deleted {
					found = m
					return true
				}
			}
			return false
		})
		return found
	}
	refused := func(question discordtest.Message, commands ...string) {
		for _, who := range []discordtest.User{eve, bob} {
			told := func(i discordtest.Interaction, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				want := "Bob, you may not answer question"
				if who == eve {
					want = "not allowed"
				}
				gatewaytest.Await(t, "what "+who.Username+" is told", func() bool {
					now, _ := platform.Message(question.ID) // which has the answer to its button
					return slices.ContainsFunc(append(platform.Answers(i), now), func(m discordtest.Message) bool { return strings.Contains(m.Content, want) })
				})
			}
			for _, command := range commands {
				told(platform.Press(question, who, command))
			}
			told(platform.Slash(place, who, "approve", discordtest.Argument{Name: "question", Value: "1"}))
		}
	}
	platform.Say(place, ada, `shop_pay {"id": "1"}`)
	question := await("May I do this?")
	refused(question, "/approve 1", "/deny 1")
	if done := mcptest.Lines(s.folder, "effects"); len(done) != 0 {
		t.Errorf("the server has done %q", done)
	}
	if now := await("May I do this?"); now.ID != question.ID || string(now.Components) != string(question.Components) || !strings.HasSuffix(now.Content, question.Content) {
		t.Errorf("the question is now %+v", now)
	}
	if _, err := platform.Press(question, ada, "/approve 1"); err != nil {
		t.Fatal(err)
	}
	await("It says: did pay")
}
