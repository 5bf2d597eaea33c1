package faulttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/gateway/gatewaytest"

	"github.com/google/go-cmp/cmp"
)

// shared is Telegram and Discord together. Each person has a private chat on both, with an odd number
// on Telegram and the next number on Discord, and both are one session.
type shared struct {
	telegram telegram
	discord  *discord
}

func newShared(w *world) platform {
	s := shared{newTelegram(w).(telegram), newDiscord(w).(*discord)}
	for chat := 2; chat <= loadChats; chat += 2 {
		s.discord.useDM(chat)
	}
	return s
}

// onDiscord says which platform a chat is on.
func (shared) onDiscord(chat int) bool { return chat%2 == 0 }

func (s shared) of(chat int) platform {
	if s.onDiscord(chat) {
		return s.discord
	}
	return s.telegram
}

func (s shared) section() string { return s.telegram.section() + s.discord.section() + s.identity() }

// identity links the two accounts of each person.
func (s shared) identity() string {
	var b strings.Builder
	b.WriteString("[conversation]\nscope = \"user\"\n[identity]\n")
	for chat := 2; chat <= loadChats; chat += 2 {
		fmt.Fprintf(&b, "p%d = [\"telegram:%d\", \"discord:%s\"]\n", chat/2, chat-1, s.discord.discordPlace(chat).who.ID)
	}
	return b.String()
}

func (shared) key(chat int) string            { return fmt.Sprintf("user:p%d", (chat+1)/2) }
func (s shared) partLength() int              { return min(s.telegram.partLength(), s.discord.partLength()) }
func (s shared) repeats(chat int) bool        { return s.of(chat).repeats(chat) }
func (s shared) say(chat int, text string)    { s.of(chat).say(chat, text) }
func (s shared) sent(chat int) []string       { return s.of(chat).sent(chat) }
func (s shared) pictures(chat int) []string   { return s.of(chat).pictures(chat) }
func (s shared) limit(n int, d time.Duration) { s.of(n).limit(n, d) }
func (s shared) connections() int             { return min(s.telegram.connections(), s.discord.connections()) }
func (s shared) unstored() int                { return s.telegram.unstored() + s.discord.unstored() }
func (s shared) secrets() []string            { return append(s.telegram.secrets(), s.discord.secrets()...) }
func (s shared) complaints() string           { return s.telegram.complaints() + s.discord.complaints() }

func (s shared) onSend(before, after func(int, string) verdict) {
	s.telegram.onSend(before, after)
	s.discord.onSend(before, after)
}

func (shared) load() load {
	return load{kills: 4, life: 2500 * time.Millisecond, pace: 40 * time.Millisecond, slowly: 8}
}

// Ten people write on two platforms each, in one session. Whenever the gateway is killed, each message
// is answered once, where it was written.
func TestSharedSessionsKilledAtRandom(t *testing.T) {
	t.Parallel()
	killAtRandom(newWorld(t, settings{platform: newShared}))
}

// A person asks on Telegram, then on Discord, then on Telegram again. The gateway is killed in the
// first model call, and again before Telegram has taken a reply, which does not delay Discord.
func TestSharedSessionAnswersWhereItWasAskedAfterKills(t *testing.T) {
	t.Parallel()
	const onTelegram, onDiscord = 1, 2
	w := newWorld(t, settings{platform: newShared})
	held := w.holdModel("t1")
	p := w.startServing()
	w.say(onTelegram, "t1")
	w.awaitReached("the model call", held)
	w.say(onDiscord, "d1")
	w.awaitStored()
	w.say(onTelegram, "t2")
	w.awaitStored()
	p.Kill()
	w.expectState(w.copyDatabase(), 3, 0, 0)

	held.Open()
	atTelegram := newGate(t)
	w.platform.onSend(func(chat int, _ string) verdict {
		if chat == onDiscord {
			return answered
		}
		atTelegram.pass()
		return dropped
	}, nil)
	p = w.startServing()
	w.awaitReached("a reply at Telegram", atTelegram)
	w.awaitAnswer(onDiscord, "d1")
	gatewaytest.Await(w.t, "every answer", func() bool { return w.count(`SELECT count(*) FROM outbox`) == 3 })
	p.Kill()
	w.platform.onSend(nil, nil)
	atTelegram.Open()

	p = w.startServing()
	w.awaitAllAnswered()
	p.Stop()
	w.expectReplies(onTelegram, "re t1", "re t2")
	w.expectReplies(onDiscord, "re d1")
	w.expectClean()
}

// separateSessions is shared with a session for each place.
type separateSessions struct{ shared }

func (a separateSessions) section() string {
	return strings.Replace(a.shared.section(), `scope = "user"`, `scope = "place"`, 1)
}

func (a separateSessions) key(chat int) string { return a.of(chat).key(chat) }

// The operator changes the scope to "user" and back, again and again. Messages that wait meanwhile are
// answered in the session that they were written in, and nothing is moved or lost.
func TestChangesOfSessionScopeLoseNothing(t *testing.T) {
	t.Parallel()
	const chat = 2
	w := newWorld(t, settings{platform: newShared})
	together := w.platform.(shared)
	for i, platform := range []platform{separateSessions{together}, together, separateSessions{together}, together} {
		w.platform = platform
		w.gw.Configure(w.config(settings{}))
		held := w.holdModel(fmt.Sprint("m", i))
		p := w.startServing()
		if i > 0 {
			w.awaitAnswer(chat, fmt.Sprint("m", i-1))
		}
		w.say(chat, fmt.Sprint("m", i))
		w.awaitReached("the model call", held)
		w.awaitStored()
		p.Kill()
		held.Open()
	}
	p := w.startServing()
	w.awaitAllAnswered()
	p.Stop()
	w.expectEachAnsweredOnce(chat)
	got := column(t, w.copyDatabase(), `
		SELECT s.channel || ' ' || m.content FROM messages m JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
		ORDER BY m.id`)
	want := []string{"discord m0", "discord re m0", "user m1", "user re m1", "discord m2", "discord re m2", "user m3", "user re m3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// oneChannel is shared for a gateway that runs one of the two channels.
type oneChannel struct {
	shared
	part platform
}

func (h oneChannel) section() string  { return h.part.section() + h.identity() }
func (h oneChannel) connections() int { return h.part.connections() }

// Two gateways on one database run a channel each. One of them works the session at a time, and each
// answers the messages of its own channel, since the other one could not send the reply.
func TestTwoGatewaysWorkOneSharedSession(t *testing.T) {
	t.Parallel()
	const onTelegram, onDiscord = 1, 2
	w := newWorld(t, settings{platform: newShared})
	both := w.platform.(shared)
	start := func(part platform) *gatewaytest.Process {
		w.platform = oneChannel{both, part}
		w.gw.Configure(w.config(settings{}))
		return w.startServing()
	}
	first, second := start(both.telegram), start(both.discord)
	held := w.holdModel("t1")
	w.say(onTelegram, "t1")
	w.awaitReached("the model call", held)
	w.say(onDiscord, "d1")
	w.awaitStored()
	w.awaitLog("session is worked elsewhere")
	held.Open()
	w.awaitAllAnswered()
	w.say(onTelegram, "t2")
	w.say(onDiscord, "d2")
	w.awaitAllAnswered()
	first.Stop()
	second.Stop()
	w.expectReplies(onTelegram, "re t1", "re t2")
	w.expectReplies(onDiscord, "re d1", "re d2")
	w.expectClean()
}
