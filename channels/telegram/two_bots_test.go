package telegram_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/pairing"
	"parley/conversation/places"
	"parley/internal/waittest"
)

// secondBot numbers its private chats like the first one.
var secondBot = telegramtest.User{ID: 7000002, FirstName: "Second", Username: "second_bot"}

// bot is the adapter of one bot, on a database that other bots use, too.
type bot struct {
	t     *testing.T
	srv   *telegramtest.Server // as the bot sees it
	store *conversation.Store
}

// read runs the adapter until every update is confirmed, and returns the accepted messages.
func (b *bot) read(changes ...func(*telegram.Config)) (taken []string) {
	b.t.Helper()
	return b.readUntil(func() error { return nil }, changes...)
}

// readUntil is read for an adapter that runs until wait returns, since answers to strangers are sent in
// the background and end with the adapter.
func (b *bot) readUntil(wait func() error, changes ...func(*telegram.Config)) (taken []string) {
	b.t.Helper()
	cfg := telegram.DefaultConfig()
	cfg.Token, cfg.APIURL, cfg.Allow, cfg.SendRate, cfg.ChatRate = b.srv.Token, b.srv.URL, []string{"*"}, 0, 0
	for _, change := range changes {
		change(&cfg)
	}
	channel, err := telegram.New(telegram.Deps{Config: cfg, Cursor: b.store.Cursor, Pairings: pairing.New(b.store), Places: places.New(b.store), Log: slog.New(slog.DiscardHandler)})
	must(b.t, err)
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- channel.Run(ctx, func(ctx context.Context, cursors []conversation.Cursor, batch ...conversation.Inbound) error {
			stored, err := b.store.Accept(ctx, cursors, batch...)
			taken = append(taken, texts(stored)...)
			return err
		})
	}()
	must(b.t, b.srv.WaitConfirmed(deadline(b.t)))
	err = wait()
	cancel()
	select {
	case failed := <-ended:
		must(b.t, failed)
	case <-time.After(waittest.Patience):
		b.t.Fatal("the adapter does not end")
	}
	must(b.t, err)
	return taken
}

// newTwoBots returns two bots on one server and one database.
func newTwoBots(t *testing.T) (first, second *bot) {
	t.Helper()
	srv, store := telegramtest.New(t), openStore(t, filepath.Join(t.TempDir(), "test.db"))
	return &bot{t: t, srv: srv, store: store}, &bot{t: t, srv: srv.AddBot(secondBot), store: store}
}

func TestMessagesOfASecondBotAreAllTaken(t *testing.T) {
	t.Parallel()
	first, second := newTwoBots(t)
	write := func(b *bot) (said []string) {
		for i := range 7 {
			said = append(said, fmt.Sprint(b.srv.Bot.Username, " ", i))
			if got := b.srv.Say(telegramtest.Private(ada), ada, said[i]).MessageID; got != int64(i+1) {
				t.Fatalf("the message has the id %d: this test wants both bots to number theirs alike", got)
			}
		}
		return said
	}
	for _, b := range []*bot{first, second} {
		if diff := cmp.Diff(write(b), b.read()); diff != "" {
			t.Errorf("%s: %s", b.srv.Bot.Username, diff)
		}
	}
	for _, b := range []*bot{second, first} {
		if n := b.srv.Redeliver(0); n != 7 {
			t.Fatalf("%d updates come again", n)
		}
		if taken := b.read(); len(taken) != 0 {
			t.Errorf("%s took twice: %q", b.srv.Bot.Username, taken)
		}
		turn, err := b.store.Begin(t.Context(), "telegram:chat:42", 1000, conversation.Account{Channel: "telegram", ID: fmt.Sprint(b.srv.Bot.ID)})
		if err != nil || len(turn.Waiting) != 7 {
			t.Errorf("for %s wait %q, %v", b.srv.Bot.Username, texts(turn.Waiting), err)
		}
	}
}

func TestAMessageOfAGroupIsTakenByOneOfItsBots(t *testing.T) {
	t.Parallel()
	first, second := newTwoBots(t)
	for _, b := range []*bot{first, second} {
		b.srv.AddChat(group)
	}
	first.srv.Say(group, ada, "/start")
	if taken := append(first.read(), second.read()...); len(taken) != 1 {
		t.Errorf("taken: %q", taken)
	}
	second.srv.Say(group, ada, "@second_bot you alone")
	if taken := append(first.read(), second.read()...); !cmp.Equal(taken, []string{"you alone"}) {
		t.Errorf("taken: %q", taken)
	}
}

func TestASecondBotGivesACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	first, second := newTwoBots(t)
	private := telegramtest.Private(ada)
	for n, b := range []*bot{first, second} {
		b.srv.Say(private, ada, "hello?")
		told := func() error {
			if _, err := b.srv.WaitSent(deadline(t), 1); err != nil {
				return fmt.Errorf("%s told the stranger nothing: %w", b.srv.Bot.Username, err)
			}
			return nil
		}
		if taken := b.readUntil(told, withPairing); len(taken) != 0 {
			t.Fatalf("%s let a stranger in: %q", b.srv.Bot.Username, taken)
		}
		list, err := pairing.New(b.store).List(t.Context())
		if err != nil || len(list) != n+1 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, p := range list {
			if p.Account == fmt.Sprint(b.srv.Bot.ID) {
				_, err = pairing.New(b.store).Approve(t.Context(), p.Code)
				must(t, err)
			}
		}
		b.srv.Say(private, ada, "let in")
		if taken := b.read(withPairing); !cmp.Equal(taken, []string{"let in"}) {
			t.Errorf("%s took %q", b.srv.Bot.Username, taken)
		}
	}
}
