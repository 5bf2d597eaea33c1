package faulttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/channels/discord/discordtest"
	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
)

// secretPlace is a place in which somebody tells the assistant a secret.
type secretPlace struct {
	secret string
	say    func(text string)
	sent   func() []string
}

func (w *world) onDiscord(secret string, place discordtest.Channel, who discordtest.User) secretPlace {
	return secretPlace{
		secret: secret,
		say:    func(text string) { w.discord.Say(place, who, discordtest.Bot.Mention()+" "+text) },
		sent: func() (texts []string) {
			for _, m := range w.discord.SentTo(place) {
				texts = append(texts, m.Content)
			}
			return texts
		},
	}
}

func (w *world) onTelegram(secret string, chat telegramtest.Chat, who telegramtest.User) secretPlace {
	return secretPlace{
		secret: secret,
		say: func(text string) {
			if chat.Type != "private" {
				text = "@" + telegramtest.Bot.Username + " " + text
			}
			w.telegram.Say(chat, who, text)
		},
		sent: func() (texts []string) {
			for _, m := range w.telegram.SentTo(chat.ID) {
				texts = append(texts, m.Text)
			}
			return texts
		},
	}
}

// ask sends a message and waits for the whole answer.
func (w *world) ask(n secretPlace, text string) {
	w.t.Helper()
	before := len(n.sent())
	n.say(text)
	gatewaytest.Await(w.t, "an answer to "+text, func() bool {
		sent := n.sent()
		return len(sent) > before && !strings.Contains(sent[len(sent)-1], previewMark)
	})
}

// expectSecretsKept tells each place its secret, and then asks in each for all that is remembered. No
// model call and no answer of one session contains the secret of another; its own is found.
func (w *world) expectSecretsKept(nooks ...secretPlace) {
	w.t.Helper()
	p := w.startServing()
	for round := range 3 {
		for i, n := range nooks {
			w.ask(n, fmt.Sprintf("keep %s for me, round %d of nook %d", n.secret, round, i))
			w.ask(n, "/history")
			w.ask(n, "/search secret")
			w.ask(n, "/state")
		}
	}
	p.Stop()
	w.expectClean()

	secrets := func(text string) (found []string) {
		for _, n := range nooks {
			if strings.Contains(text, n.secret) && !slices.Contains(found, n.secret) {
				found = append(found, n.secret)
			}
		}
		return found
	}
	for _, call := range w.model.Calls() {
		var list strings.Builder
		for _, m := range call.Messages {
			list.WriteString(m.Content)
		}
		if found := secrets(list.String()); len(found) > 1 {
			w.t.Errorf("the model was sent %s together", found)
		}
	}
	for _, n := range nooks {
		for _, text := range n.sent() {
			if found := secrets(text); slices.ContainsFunc(found, func(s string) bool { return s != n.secret }) {
				w.t.Errorf("the place of %s was told %q", n.secret, text)
			}
		}
	}
}

// One person tells a secret in a thread, in the thread's channel, and in a DM.
func TestThreadItsChannelAndADMAreSeparateSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newDiscord})
	d := w.discord
	ann := d.Person("Ann")
	w.expectSecretsKept(
		w.onDiscord("parentsecret", d.lobby, ann),
		w.onDiscord("threadsecret", d.Thread(d.lobby, discordtest.Bot, "Plans"), ann),
		w.onDiscord("dmsecret", d.DM(ann), ann),
	)
}

// The private chats of each of two people are one session. Both also write in a group on Telegram and
// in a channel on Discord.
func TestSharedSessionIsSeparateFromOtherPeopleAndGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newShared})
	group := telegramtest.Group(-100, "Friends")
	alice, bob := w.discord.discordPlace(2), w.discord.discordPlace(4)
	atHome := w.onTelegram("alicesecret", telegramtest.Private(person(1)), person(1))
	w.expectSecretsKept(
		atHome,
		w.onDiscord("alicesecret", alice.Channel, alice.who),
		w.onTelegram("bobsecret", telegramtest.Private(person(3)), person(3)),
		w.onDiscord("bobsecret", bob.Channel, bob.who),
		w.onTelegram("groupsecret", group, person(1)),
		w.onTelegram("groupsecret", group, person(3)),
		w.onDiscord("channelsecret", w.discord.lobby, alice.who),
		w.onDiscord("channelsecret", w.discord.lobby, bob.who),
	)
	if told := strings.Join(atHome.sent(), "\n"); !strings.Contains(told, "round 0 of nook 1") {
		t.Errorf("what Alice wrote on Discord is not known on Telegram: %s", told)
	}
}
