package faulttest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/channels/telegram/telegramtest"
	"parley/llm/llmtest"
)

// hostileTexts are message texts that people and broken clients write.
func hostileTexts(random *rand.Rand) map[string]string {
	bytes := make([]byte, 4000)
	for i := range bytes {
		bytes[i] = byte(random.IntN(256))
	}
	return map[string]string{
		"1 MiB of words":     strings.Repeat("lorem ipsum ", 1<<20/12),
		"1 MiB of a letter":  strings.Repeat("a", 1<<20),
		"1 MiB of spaces":    strings.Repeat(" ", 1<<20-1) + "x",
		"1 MiB of emoji":     strings.Repeat("🙂", 1<<18),
		"random bytes":       string(bytes),
		"NUL":                "a\x00b",
		"only NUL":           "\x00\x00",
		"control characters": "\x01\x02\x1b[2J\x7f\u0085\u202e",
		"empty":              "",
		"blank":              " \n\t\u00a0",
		"markup":             "<b>&amp;</i> *_`[x](tg://user?id=1) </script>",
		"a lone slash":       "/",
		"SQL":                `'; DROP TABLE messages; --"`,
	}
}

// TestHostileTexts has a person write each hostile text and then an ordinary one, which must be
// answered.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	seed := fromEnv(t, "FAULT_SEED", 1)
	w := newWorld(t, settings{})
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		for _, m := range c.Messages {
			if !utf8.ValidString(m.Content) || strings.Contains(m.Content, "\x00") {
				return llmtest.Answer{Status: 400, Body: `{"error":{"message":"not text"}}`}
			}
		}
		said := c.LastUser()
		return llmtest.Answer{Text: "fine: " + said[max(0, len(said)-200):]}
	})
	p := w.startServing()
	chat, names := 0, map[int]string{}
	for name, text := range hostileTexts(rand.New(rand.NewPCG(uint64(seed), 0))) {
		chat++
		names[chat] = name
		w.telegram.Say(telegramtest.Private(person(chat)), person(chat), text)
		w.say(chat, fmt.Sprintf("after%d", chat))
	}
	w.awaitStored()
	w.awaitAllAnswered()
	for chat, name := range names {
		for _, reply := range w.platform.sent(chat) {
			if strings.Contains(reply, "(run ") {
				t.Errorf("%s: the answer is an error: %q", name, reply)
			}
		}
	}
	p.Stop()
	db := w.copyDatabase()
	for _, left := range append(column(t, db, `SELECT text FROM inbox WHERE run_id IS NULL`), w.due(db)...) {
		t.Errorf("left behind: %.80q", left)
	}
}

// TestHostileUpdates mixes undocumented updates with ordinary messages: the offset must go past each.
func TestHostileUpdates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.startServing()
	for i, raw := range []string{
		`{}`,
		`{"poll":{"id":"1","options":[]}}`,
		`{"something_of_next_year":{"a":[1,{"b":null}]}}`,
		`{"message":null}`,
		`{"message":"text"}`,
		`{"message":[]}`,
		`{"message":{}}`,
		`{"message":{"message_id":"one","chat":5,"from":[],"text":{}}}`,
		`{"message":{"message_id":9007199254740993,"date":-1,"chat":{"id":1,"type":"private"},"from":{"id":1}}}`,
		`{"message":{"message_id":777001,"date":1,"chat":{"id":1,"type":"private"},"from":{"id":1,"first_name":"\u0000"},"text":"\ud800\u0000"}}`,
		"{\"message\":{\"message_id\":777002,\"date\":1,\"chat\":{\"id\":1,\"type\":\"private\"},\"from\":{\"id\":1},\"text\":\"\xff\xfe\xc0\"}}",
		`{"message":{"message_id":777003,"date":1e99,"chat":{"id":1,"type":"private"},"from":{"id":1},"text":"x"}}`,
		`{"message":{"message_id":777004,"date":1,"chat":{"id":-5,"type":"channel"},"sender_chat":{"id":-5},"text":"x"}}`,
		`{"edited_message":{"message_id":1,"date":1,"chat":{"id":1,"type":"private"},"text":"x"}}`,
		`{"message":` + strings.Repeat(`{"reply_to_message":`, 200) + `{}` + strings.Repeat(`}`, 200) + `}`,
	} {
		w.telegram.Push(raw)
		w.telegram.PushWithoutID(raw)
		w.say(1, fmt.Sprintf("m%d", i))
	}
	w.awaitStored()
	w.awaitAllAnswered()
	p.Stop()
}

// TestHostilePlatform answers the gateway's requests as proxies, broken servers and dying connections
// do.
func TestHostilePlatform(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	verdicts := []telegramtest.Verdict{
		telegramtest.BadGateway(),
		telegramtest.Drop(),
		telegramtest.TooMany(1),
		{Code: 200, Body: "\x00\xff\x1b not JSON"},
		{Code: 200, Body: `{"ok":true,"result":{"not":"a list"}}`},
		{Code: 200, Body: `{"ok":false}`},
		{Code: 200, Body: `{"ok":true,"result":[{"update_id":9223372036854775807}]}`},
		{Code: 200, Body: `{"ok":true,"result":[{}]}`},
	}
	p := w.startServing()
	w.say(1, "before")
	w.awaitAnswer(1, "before")
	for i, v := range verdicts {
		w.telegram.Fail("getUpdates", v, 1)
		w.say(1, fmt.Sprintf("m%d", i))
		w.awaitAnswer(1, fmt.Sprintf("m%d", i))
	}
	w.say(1, "after")
	w.awaitAnswer(1, "after")
	p.Stop()
	w.expectClean()
}
