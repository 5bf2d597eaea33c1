package faulttest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram/telegramtest"
	"parley/llm/llmtest"
)

// useToken makes a bot's token the configured one.
func (w *world) useToken(bot *telegramtest.Server) {
	w.telegram, w.platform = bot, telegram{bot, "0s"}
	w.gw.Configure(w.config(settings{}))
}

// The token is replaced by that of another bot while a message to the former bot waits and one of its
// replies is unsent. The new bot answers all messages to it, though they have the same numbers as
// messages that the former bot answered. The former bot's work waits until its token is back.
func TestReplacedBotAndItsSuccessorAnswerTheirOwnMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	former := w.telegram
	next := former.AddBot(telegramtest.User{ID: 7000002, FirstName: "Next", Username: "next_bot"})
	var away atomic.Bool // the model, for the text "late"
	away.Store(true)
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if away.Load() && strings.Contains(c.LastUser(), "late") {
			return llmtest.Answer{Status: 503, Body: "{}"}
		}
		return answerTo(c)
	})
	w.platform.onSend(func(_ int, text string) verdict {
		if strings.Contains(text, "unsent") {
			return dropped
		}
		return answered
	}, nil)

	p := w.startServing()
	for chat := 1; chat <= 3; chat++ {
		for i := range 4 {
			w.say(chat, fmt.Sprintf("former%d%d", chat, i))
			w.awaitAnswer(chat, fmt.Sprintf("former%d%d", chat, i))
		}
	}
	w.say(1, "unsent")
	w.awaitLog("reply not taken")
	w.say(2, "late")
	w.awaitStored()
	p.Kill()

	w.useToken(next)
	p = w.startServing()
	w.awaitLog("bot token changed to another bot")
	w.awaitLog("waits_for_bot_id=7000001")
	for chat := 1; chat <= 3; chat++ {
		for i := range 7 {
			w.say(chat, fmt.Sprintf("next%d%d", chat, i))
		}
		w.awaitAnswer(chat, fmt.Sprintf("next%d6", chat))
		for i := range 7 {
			w.awaitAnswer(chat, fmt.Sprintf("next%d%d", chat, i))
		}
	}
	for _, chat := range []int{1, 2} {
		for _, text := range w.platform.sent(chat) {
			if strings.Contains(text, "late") || strings.Contains(text, "unsent") {
				t.Errorf("the next bot told chat %d what is the former bot's: %q", chat, text)
			}
		}
	}
	p.Stop()
	db := w.copyDatabase()
	if diff := cmp.Diff([]string{"7000001 late"}, column(t, db, `SELECT account || ' ' || text FROM inbox WHERE run_id IS NULL`)); diff != "" {
		t.Errorf("what waits: %s", diff)
	}
	if diff := cmp.Diff([]string{"7000001 re unsent"}, column(t, db, `SELECT account || ' ' || text FROM outbox WHERE state = 'due'`)); diff != "" {
		t.Errorf("what is unsent: %s", diff)
	}

	away.Store(false)
	w.useToken(former)
	w.platform.onSend(nil, nil)
	p = w.startServing()
	w.awaitAnswer(1, "unsent")
	w.awaitAnswer(2, "late")
	p.Stop()
	late := slices.Index(w.said[2], "late") // its place in the history is that of its answer
	w.said[2] = append(slices.Delete(w.said[2], late, late+1), "late")
	w.expectClean()
}
