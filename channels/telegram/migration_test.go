package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/places"
)

// A group before and after it became a supergroup.
var (
	before = telegramtest.Chat{ID: -5, Type: "group", Title: "Friends"}
	after  = telegramtest.Group(-1005, "Friends")
)

// moveRecorder is a store that records moves of places.
type moveRecorder struct {
	telegram.Places

	mu    sync.Mutex
	moves []string
	fails int
}

func (m *moveRecorder) MovePlace(ctx context.Context, from, to conversation.Key, readdress func(string) string) (places.Moved, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails > 0 {
		m.fails--
		return places.Moved{}, errors.New("the disk failed")
	}
	m.moves = append(m.moves, fmt.Sprintf("%s to %s: %s %s %s", from, to, readdress(`{"chat":-5,"topic":3,"reply_to":9}`), readdress(`{"chat":7,"reply_to":9}`), readdress("?")))
	return m.Places.MovePlace(ctx, from, to, readdress)
}

func (m *moveRecorder) noted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moves
}

const noted = `telegram:chat:-5 to telegram:chat:-1005: {"chat":-1005} {"chat":7,"reply_to":9} ?`

// upgrades sends the service messages that Telegram sends in the old group, the supergroup, or both.
func (g *gateway) upgrades(old, fresh bool) {
	if old {
		g.srv.Say(before, ada, "", telegramtest.With("migrate_to_chat_id", after.ID))
	}
	if fresh {
		g.srv.Say(after, ada, "", telegramtest.With("migrate_from_chat_id", before.ID))
	}
}

func TestEitherUpdateReportsASupergroup(t *testing.T) {
	t.Parallel()
	for name, told := range map[string][2]bool{"both": {true, true}, "the old group": {true, false}, "the new one": {false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, store := newPairing(t)
			moves := &moveRecorder{Places: places.New(store), fails: 1}
			g.places = moves
			g.run(g.channel(func(cfg *telegram.Config) { cfg.Access, cfg.Allow = "allowlist", []string{"-5"} }))
			g.srv.Say(before, bob, "@parley_bot before")
			g.upgrades(told[0], told[1])
			g.srv.Say(after, bob, "@parley_bot after")
			g.srv.Say(after, bob, "@parley_bot in a topic", telegramtest.InTopic(3))
			g.srv.Say(telegramtest.Group(-1006, "Others"), bob, "@parley_bot elsewhere")
			g.srv.Say(after, bob, "@parley_bot end")
			if diff := cmp.Diff([]string{"before", "after", "in a topic", "end"}, texts(g.wait(4))); diff != "" {
				t.Error(diff)
			}
			must(t, g.srv.WaitConfirmed(deadline(t)))
			for _, move := range moves.noted() {
				if move != noted {
					t.Errorf("told %s", move)
				}
			}
			if got := len(moves.noted()); got == 0 || g.logged("session kept") != 1 {
				t.Errorf("%d moves, and the log:\n%s", got, g.log.String())
			}
			if n := g.logged("put the new one into allow"); n != 1 {
				t.Errorf("the log advises the operator %d times:\n%s", n, g.log.String())
			}
		})
	}
}

// Migration fields in messages that are no service messages of groups move nothing.
func TestOnlyAGroupBecomesASupergroup(t *testing.T) {
	t.Parallel()
	g, store := newPairing(t)
	moves := &moveRecorder{Places: places.New(store)}
	g.places = moves
	g.run(g.channel())
	g.srv.Say(telegramtest.Private(ada), ada, "", telegramtest.With("migrate_to_chat_id", -1005))
	g.srv.Say(before, ada, "", telegramtest.With("migrate_to_chat_id", 42))
	g.srv.Say(before, ada, "", telegramtest.With("migrate_to_chat_id", before.ID))
	g.srv.Say(before, ada, "", telegramtest.With("migrate_to_chat_id", "x"))
	g.srv.Say(telegramtest.Private(ada), ada, "end")
	g.until(func() bool { n := len(g.accepted); return n > 0 && g.accepted[n-1].Text == "end" })
	if got := moves.noted(); len(got) != 0 {
		t.Errorf("told %q", got)
	}
}

// No service message is needed: the refusal of a reply to the old id names the new one, and later
// replies go there at once.
func TestReplyFollowsAGroupThatBecameASupergroup(t *testing.T) {
	t.Parallel()
	g, store := newPairing(t)
	moves := &moveRecorder{Places: places.New(store), fails: 1}
	g.places = moves
	c := g.channel()
	g.srv.Migrate(before.ID, after.ID)
	for i := range 3 {
		d := conversation.Delivery{Key: "telegram:chat:-5", Address: `{"chat":-5,"reply_to":9}`}
		_, err := c.Send(deadline(t), d, partOf(fmt.Sprint("reply ", i)))
		must(t, err)
	}
	if sent := g.srv.SentTo(after.ID); len(sent) != 3 || sent[0].ReplyTo != 0 {
		t.Errorf("sent %+v", sent)
	}
	if diff := cmp.Diff([]string{noted}, moves.noted()); diff != "" {
		t.Error(diff)
	}
	if n := g.srv.Calls("sendMessage"); n != 5 { // the first move could not be stored
		t.Errorf("%d requests for three messages", n)
	}
	former, err := places.New(store).FormerPlaces(t.Context(), "telegram:chat:-1005")
	if diff := cmp.Diff([]conversation.Key{"telegram:chat:-5"}, former); diff != "" || err != nil {
		t.Errorf("%s, %v", diff, err)
	}
}

// A group's access also holds for its supergroup after a restart.
func TestSupergroupOfAnAllowedGroupIsAllowedAfterARestart(t *testing.T) {
	t.Parallel()
	g, _ := newPairing(t)
	listed := func(cfg *telegram.Config) { cfg.Access, cfg.Allow = "allowlist", []string{"-5"} }
	stop := g.run(g.channel(listed))
	g.upgrades(false, true)
	must(t, g.srv.WaitConfirmed(deadline(t)))
	must(t, stop())
	g.run(g.channel(listed))
	g.srv.Say(after, bob, "@parley_bot hello")
	g.wait(1)
}

// addressRecorder is a store that keeps what becomes of an address in a move.
type addressRecorder struct {
	telegram.Places
	address string
}

func (r *addressRecorder) MovePlace(_ context.Context, _, _ conversation.Key, readdress func(string) string) (places.Moved, error) {
	r.address = readdress(r.address)
	return places.Moved{}, nil
}

// The answer to a private command that waits while the group becomes a supergroup is not shown to everybody there.
func TestPrivateAnswerStaysPrivateInTheSupergroup(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	waiting := &addressRecorder{address: `{"chat":-5,"alone":{"user":42,"reply_to":3}}`}
	g.places = waiting
	c := g.channel(func(cfg *telegram.Config) { cfg.Ephemeral = true })
	g.run(c)
	g.upgrades(true, true)
	must(t, g.srv.WaitConfirmed(deadline(t)))
	must(t, deliverAll(deadline(t), c, conversation.Delivery{Address: waiting.address, Text: "the secret"}))
	for _, sent := range g.srv.SentTo(after.ID) {
		if strings.Contains(sent.Text, "secret") && sent.For == 0 {
			t.Errorf("everybody sees %+v, sent to %s", sent, waiting.address)
		}
	}
}
