package faulttest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/channels/discord/discordtest"
	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// The tests of this file kill the gateway while Discord shows the preview of an answer, or one that
// was left behind, in a DM, a channel and a thread.
const places = 3

// startShowingPreviews starts a gateway that shows a preview of its answer to "m1" in every place.
// The answer never ends.
func startShowingPreviews(t *testing.T) (*world, *gatewaytest.Process) {
	t.Helper()
	w := newWorld(t, settings{platform: newDiscord})
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		a := answerTo(c)
		a.Silence, a.NoFinish, a.NoUsage = true, true, true
		return a
	})
	p := w.startServing()
	for chat := 1; chat <= places; chat++ {
		w.say(chat, "m1")
	}
	gatewaytest.Await(w.t, "the previews", func() bool { return w.previews() == places })
	return w, p
}

// slowAnswer returns an answer that takes about three seconds, and is shown from the second one on.
func slowAnswer(c llmtest.Call) llmtest.Answer {
	a := answerTo(c)
	a.Pieces, a.ChunkDelay = 8, 350*time.Millisecond
	return a
}

// answerPaces are the speeds at which the next process answers.
var answerPaces = map[string]func(llmtest.Call) llmtest.Answer{"at once": answerTo, "with a preview of its own": slowAnswer}

// previews returns the number of previews that are shown.
func (w *world) previews() int {
	n := 0
	for chat := range w.said {
		for _, text := range w.platform.sent(chat) {
			if strings.HasPrefix(text, unfinishedMark) {
				n++
			}
		}
	}
	return n
}

// expectInEveryPlace starts the gateway, lets it answer everything, and checks that each place shows
// these replies and nothing else.
func (w *world) expectInEveryPlace(replies ...string) {
	w.t.Helper()
	p := w.startServing()
	w.awaitAllAnswered()
	p.Stop()
	for chat := range w.said {
		w.expectReplies(chat, replies...)
	}
	w.expectClean()
}

func TestKilledWhileAPreviewIsShown(t *testing.T) {
	t.Parallel()
	w, p := startShowingPreviews(t)
	p.Kill()
	w.model.Reply(answerTo)
	w.expectInEveryPlace("re m1")
}

// TestKilledBeforeFurtherMessages makes the next process answer two messages together. The preview
// that was left behind replies to the first of them alone.
func TestKilledBeforeFurtherMessages(t *testing.T) {
	t.Parallel()
	for name, answer := range answerPaces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := startShowingPreviews(t)
			for chat := 1; chat <= places; chat++ {
				w.say(chat, "m2")
			}
			w.awaitStored()
			p.Kill()
			w.model.Reply(answer)
			w.expectInEveryPlace("re m1 m2")
		})
	}
}

// TestKilledForLongerThanDiscordKnowsANonce starts the next process when Discord has forgotten the
// preview's nonce.
func TestKilledForLongerThanDiscordKnowsANonce(t *testing.T) {
	t.Parallel()
	for name, answer := range answerPaces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := startShowingPreviews(t)
			p.Kill()
			w.discord.Advance(time.Hour)
			w.model.Reply(answer)
			w.expectInEveryPlace("re m1")
		})
	}
}

// TestOldAndNewMessageAreAnsweredTogetherAfterAKill makes the next process answer a message from before
// the kill together with a new one, since the model was busy when it started.
func TestOldAndNewMessageAreAnsweredTogetherAfterAKill(t *testing.T) {
	t.Parallel()
	w, p := startShowingPreviews(t)
	p.Kill()
	w.gw.Configure(w.config(settings{maxRuns: 1}))
	held := w.holdModel("m1")
	p = w.startServing()
	w.awaitReached("the only call to the model", held)
	for chat := 1; chat <= places; chat++ {
		w.say(chat, "m2")
	}
	w.awaitStored()
	held.Open()
	w.awaitAllAnswered()
	p.Stop()
	w.expectAnsweredOnce()
	w.expectClean()
}

// TestKilledLongBeforeTheMark kills the gateway when Discord has taken a reply, and starts the next one
// when Discord has forgotten the reply's nonce and many messages were written.
func TestKilledLongBeforeTheMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newDiscord})
	held := newGate(t)
	w.platform.onSend(nil, func(int, string) verdict {
		held.pass()
		return dropped
	})
	p := w.startServing()
	w.say(1, "m1")
	w.awaitReached("the platform's taking of the reply", held)
	p.Kill()
	w.platform.onSend(nil, nil)
	held.Open()
	w.discord.Advance(time.Hour)
	for n := range 120 { // more than Discord lists at once
		w.say(1, fmt.Sprintf("n%d", n))
	}
	p = w.startServing()
	w.awaitAllAnswered()
	p.Stop()
	w.expectAnsweredOnce()
	w.expectClean()
}

// TestKilledBeforeTheMarkOfAPart kills the gateway when Discord has taken the second of three parts,
// which replies to no message, and starts the next one at once, or when Discord has forgotten the
// part's nonce.
func TestKilledBeforeTheMarkOfAPart(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"at once": 0, "an hour later": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{platform: newDiscord})
			full := w.platform.partLength()
			parts := []string{strings.Repeat("a", full), strings.Repeat("b", full), strings.Repeat("c", full)}
			w.model.Reply(func(c llmtest.Call) llmtest.Answer {
				if c.LastUser() != "m1" {
					return answerTo(c)
				}
				return llmtest.Answer{Text: strings.Join(parts, "\n\n")}
			})
			held := newGate(t)
			w.platform.onSend(nil, func(_ int, text string) verdict {
				if text != parts[1] {
					return answered
				}
				held.pass()
				return dropped
			})
			p := w.startServing()
			w.say(1, "m1")
			w.awaitReached("the second part at the platform", held)
			p.Kill()
			w.platform.onSend(nil, nil)
			held.Open()
			w.discord.Advance(away)
			w.expectSettled(1, parts...)
		})
	}
}

// No preview is posted while an earlier reply is retried: it would become the later reply, above the
// earlier one.
func TestPreviewComesAfterTheEarlierReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newDiscord})
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.LastUser(), "m2") {
			return slowAnswer(c)
		}
		return answerTo(c)
	})
	var refused atomic.Int64
	w.discord.OnSend(func(m discordtest.Message) discordtest.Verdict {
		if strings.HasPrefix(m.Content, "re m1") && refused.Add(1) <= 3 {
			return discordtest.BadGateway()
		}
		return discordtest.Verdict{}
	}, nil)
	p := w.startServing()
	w.say(1, "m1")
	gatewaytest.Await(w.t, "the model's answer to m1", func() bool { return w.model.Served() == 1 })
	w.say(1, "m2")
	w.awaitAllAnswered()
	p.Stop()
	w.expectReplies(1, "re m1", "re m2")
	w.expectClean()
}

// The reply replaces the preview that the killed gateway has left on Telegram.
func TestTelegramPreviewBecomesTheReplyAfterAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		a := answerTo(c)
		a.Pieces, a.ChunkDelay = 100, 300*time.Millisecond
		a.Text = strings.Repeat("word ", 100)
		return a
	})
	p := w.startServing()
	w.say(1, "m1")
	gatewaytest.Await(t, "the preview", func() bool {
		sent := w.telegram.SentTo(1)
		return len(sent) == 1 && sent[0].Edits > 0 // by then it is stored which message it is
	})
	p.Kill()
	w.model.Reply(answerTo)
	w.startServing()
	w.awaitAnswer(1, "m1")
	if sent := w.platform.sent(1); len(sent) != 1 {
		t.Fatalf("the chat shows %q", sent)
	}
}
