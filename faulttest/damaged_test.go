package faulttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/internal/dbdamage"
)

// A damaged database page is reported in the chat whose messages it holds, and disturbs no other chat.
func TestDamagedPageIsReportedInItsChatAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.startServing()
	const lost, other = 2, 1
	long := strings.Repeat("marble", 100)
	for _, chat := range []int{other, lost, 3} {
		for n := range 10 {
			text := fmt.Sprintf("c%dm%d", chat, n)
			if chat == lost {
				text += long
			}
			w.say(chat, text)
			w.awaitAnswer(chat, text)
		}
	}
	p.Stop()
	pages := slices.DeleteFunc(dbdamage.Leaves(t, w.gw.Database, "messages"), func(p dbdamage.Page) bool {
		return !p.Has("marble") || p.Has("c1m") || p.Has("c3m")
	})
	dbdamage.Destroy(t, w.gw.Database, pages[len(pages)/2])

	p = w.startServing()
	w.say(lost, "hello?")
	gatewaytest.Await(w.t, "words on the damage", func() bool {
		return slices.ContainsFunc(w.platform.sent(lost), func(text string) bool { return strings.Contains(text, "can't be read") })
	})
	for _, chat := range []int{other, 3} {
		w.say(chat, "still")
		w.awaitAnswer(chat, "still")
	}
	w.say(lost, "/new")
	gatewaytest.Await(w.t, "the answer to /new", func() bool {
		return slices.ContainsFunc(w.platform.sent(lost), func(text string) bool { return strings.HasPrefix(text, "A new conversation begins") })
	})
	w.say(lost, "again")
	w.awaitAnswer(lost, "again")
	p.Stop()
	log := w.gw.Log.String()
	for _, part := range []string{"the table messages", "messages of " + w.platform.key(lost)} {
		if n := strings.Count(log, fmt.Sprintf("part=%q", part)); n != 1 {
			t.Errorf("the log says %q %d times", part, n)
		}
	}
}
