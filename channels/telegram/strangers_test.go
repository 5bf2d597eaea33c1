package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/pairing"
	"parley/conversation/places"
	"parley/conversation/storetest"
)

// newPairing returns a gateway with pairing, and the store of another process, in which the operator
// approves codes.
func newPairing(t *testing.T, config ...conversation.Config) (g *gateway, operator *conversation.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	operator = openStore(t, path, config...)
	g = newGateway(t)
	store := openStore(t, path)
	g.pairings, g.places = pairing.New(store), places.New(store)
	return g, operator
}

func openStore(t *testing.T, path string, config ...conversation.Config) *conversation.Store {
	t.Helper()
	return storetest.Open(t, path, config...)
}

func withPairing(cfg *telegram.Config) { cfg.Access, cfg.Allow = "pairing", nil }

// codeTo waits until the bot has sent n messages in all, and returns the code in the last one to a chat.
func (g *gateway) codeTo(chat int64, n int) string {
	g.t.Helper()
	_, err := g.srv.WaitSent(deadline(g.t), n)
	must(g.t, err)
	sent := g.srv.SentTo(chat)
	if len(sent) == 0 {
		g.t.Fatalf("chat %d got nothing", chat)
	}
	last := sent[len(sent)-1]
	code := regexp.MustCompile(`[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(last.Text)
	if !strings.Contains(last.Text, "gateway pair approve "+code) {
		g.t.Fatalf("the answer does not name the owner's command: %q", last.Text)
	}
	return code
}

func TestStrangerIsAdmittedByOneCode(t *testing.T) {
	t.Parallel()
	g, operator := newPairing(t)
	g.run(g.channel(withPairing))
	private := telegramtest.Private(ada)
	g.srv.Say(group, ada, "@parley_bot in a group")
	g.srv.Say(private, ada, "hello?")
	g.srv.Say(private, ada, "hello again")
	code := g.codeTo(ada.ID, 1)
	must(t, g.srv.WaitConfirmed(deadline(t)))

	p, err := pairing.New(operator).Approve(t.Context(), code)
	must(t, err)
	if p.Channel != "telegram" || p.UserID != "42" || p.Name != "Ada Lovelace (@ada)" {
		t.Errorf("the operator sees %+v", p)
	}
	g.srv.Say(private, ada, "in at last")
	g.srv.Say(group, ada, "@parley_bot here too")
	g.srv.Say(group, bob, "@parley_bot and me?")
	g.wait(2)
	must(t, g.srv.WaitConfirmed(deadline(t)))

	_, err = pairing.New(operator).Revoke(t.Context(), conversation.Account{Channel: "telegram"}, "42")
	must(t, err)
	g.srv.Say(private, ada, "still there?")
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if diff := cmp.Diff([]string{"hello?", "hello again", "in at last", "here too"}, texts(g.wait(0))); diff != "" {
		t.Error(diff)
	}
	if sent := g.srv.Sent(); len(sent) != 1 || !regexp.MustCompile(`expires in (59|60) min`).MatchString(sent[0].Text) { // 59 on a busy machine
		t.Errorf("strangers got %d messages: %+v", len(sent), sent)
	}
}

func TestAStrangerWithAnExpiredCodeGetsAnother(t *testing.T) {
	t.Parallel()
	g, yesterday := newPairing(t, conversation.Config{Now: func() time.Time { return time.Now().Add(-24 * time.Hour) }})
	old, _, err := pairing.New(yesterday).Ask(t.Context(), conversation.Account{Channel: "telegram"}, "42", "Ada")
	must(t, err)
	g.run(g.channel(withPairing))
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	if code := g.codeTo(ada.ID, 1); code == old.Code {
		t.Errorf("%s has expired", code)
	}
}

// Answers to strangers are sent in the background: neither their number nor a slow server delays people
// with access.
func TestManyStrangersDelayNobody(t *testing.T) {
	t.Parallel()
	g, _ := newPairing(t)
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release) // else the server would wait for its handlers for ever when the test has failed
	g.srv.OnSend(func(telegramtest.Message) telegramtest.Verdict {
		<-held
		return telegramtest.Verdict{}
	}, nil)
	g.run(g.channel(func(cfg *telegram.Config) { cfg.Access, cfg.Allow = "pairing", []string{"@ada"} }))
	for i := range int64(150) {
		stranger := telegramtest.User{ID: 1000 + i, FirstName: fmt.Sprint("Stranger ", i)}
		g.srv.Say(telegramtest.Private(stranger), stranger, "let me in")
		g.srv.Say(telegramtest.Private(stranger), stranger, "please")
	}
	g.srv.Say(telegramtest.Private(ada), ada, "and I?")
	if diff := cmp.Diff([]string{"and I?"}, texts(g.wait(1))); diff != "" {
		t.Error(diff)
	}
	release()
	_, err := g.srv.WaitSent(deadline(t), 1)
	must(t, err)
	for chat := int64(1000); chat < 1150; chat++ {
		if n := len(g.srv.SentTo(chat)); n > 1 {
			t.Errorf("chat %d got %d messages", chat, n)
		}
	}
}

// failingPairings fails at first, like a store with a failing disk.
type failingPairings struct {
	*pairing.Pairings
	fails atomic.Int64
}

func (s *failingPairings) Has(ctx context.Context, of conversation.Account, user string) (bool, error) {
	if s.fails.Add(-1) >= 0 {
		return false, errors.New("the disk failed")
	}
	return s.Pairings.Has(ctx, of, user)
}

// A message waits at Telegram, and is not dropped, while the store can't say whether its sender has
// access.
func TestAMessageWaitsUntilItsSenderIsKnown(t *testing.T) {
	t.Parallel()
	g, operator := newPairing(t)
	p, _, err := pairing.New(operator).Ask(t.Context(), conversation.Account{Channel: "telegram"}, "42", "Ada")
	must(t, err)
	_, err = pairing.New(operator).Approve(t.Context(), p.Code)
	must(t, err)
	pairings := &failingPairings{Pairings: pairing.New(operator)}
	pairings.fails.Store(2)
	g.pairings = pairings
	g.run(g.channel(withPairing))
	g.srv.Say(telegramtest.Private(ada), ada, "it's me")
	if diff := cmp.Diff([]string{"it's me"}, texts(g.wait(1))); diff != "" {
		t.Error(diff)
	}
	if n := g.logged("access list not readable"); n != 1 {
		t.Errorf("told %d times:\n%s", n, g.log.String())
	}
}

// An answer to a stranger who blocked the bot is not retried.
func TestStrangerWhoCannotBeReachedCausesNoRetries(t *testing.T) {
	t.Parallel()
	g, _ := newPairing(t)
	g.srv.AddChat(telegramtest.Private(bob))
	g.srv.Block(bob.ID, "bot was blocked by the user")
	g.run(g.channel(withPairing))
	g.srv.Say(telegramtest.Private(bob), bob, "hello")
	g.waitLog("pairing instructions not sent")
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if len(g.wait(0)) != 0 {
		t.Error("a stranger's message was accepted")
	}
}

// The name "@ada" in allow belongs to Ada's account, also when she gives it up and somebody else takes
// it. The name of a group belongs to the group.
func TestNameInTheAllowListBelongsToItsFirstAccount(t *testing.T) {
	t.Parallel()
	g, operator := newPairing(t)
	club := telegramtest.Chat{ID: -1005, Type: "supergroup", Title: "Club", Username: "club"}
	g.run(g.channel(func(cfg *telegram.Config) { cfg.Access, cfg.Allow = "allowlist", []string{"@ada", "@Club"} }))
	taker, squatters := telegramtest.User{ID: 66, FirstName: "Eve", Username: "Ada"}, club
	squatters.ID = -1006
	g.srv.Say(telegramtest.Private(ada), ada, "I am Ada")
	g.srv.Say(club, bob, "@parley_bot in the club")
	g.srv.Say(telegramtest.Private(taker), taker, "so am I")
	g.srv.Say(squatters, taker, "@parley_bot in another club")
	g.srv.Say(telegramtest.Private(ada), ada, "still me")
	if diff := cmp.Diff([]string{"I am Ada", "in the club", "still me"}, texts(g.wait(3))); diff != "" {
		t.Error(diff)
	}
	if n := g.logged("bound_to=42 id=66"); n != 1 || g.logged("bound_to=-1005 id=-1006") != 1 {
		t.Errorf("told %d times:\n%s", n, g.log.String())
	}
	_, err := pairing.New(operator).ReleaseName(t.Context(), "telegram", "@ada")
	must(t, err)
	g.srv.Say(telegramtest.Private(taker), taker, "now I am")
	if got := texts(g.wait(5)); got[3] != "so am I" || got[4] != "now I am" {
		t.Errorf("accepted %q", got)
	}
}
