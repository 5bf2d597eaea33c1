package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/channels"
	"parley/channels/access"
	"parley/conversation"
	"parley/conversation/pairing"
	"parley/conversation/storetest"
)

// door is access in the mode "pairing" over a real store. In a synctest
// bubble an hour passes at once, for both.
type door struct {
	t      *testing.T
	store  *conversation.Store
	access *access.Control
	log    bytes.Buffer
}

func newDoor(t *testing.T) *door {
	t.Helper()
	store := storetest.New(t)
	d := &door{t: t, store: store}
	var err error
	d.access, err = access.New("pairing", nil, conversation.Account{Channel: "test"}, pairing.New(store), slog.New(slog.NewTextHandler(&d.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// knock is a message of a person; it gives the code in the answer, if any.
func (d *door) knock(id string, private bool) (ok bool, code string) {
	d.t.Helper()
	ok, words, err := d.access.Admit(d.t.Context(), access.Visitor{Sender: conversation.Sender{ID: id, Name: "Name of " + id}, Private: private})
	if err != nil {
		d.t.Fatal(err)
	}
	code = regexp.MustCompile(`[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(words)
	if words != "" && !strings.Contains(words, "gateway pair approve "+code) {
		d.t.Fatalf("the words do not say what the owner does: %q", words)
	}
	return ok, code
}

func (d *door) approve(code string) {
	d.t.Helper()
	if _, err := pairing.New(d.store).Approve(d.t.Context(), code); err != nil {
		d.t.Fatal(err)
	}
}

func (d *door) wantOut(id string, private bool) {
	d.t.Helper()
	if ok, code := d.knock(id, private); ok || code != "" {
		d.t.Fatalf("%s: let in %v, code %q; want silence", id, ok, code)
	}
}

// wantCode is the code that a stranger is told now.
func (d *door) wantCode(id string) string {
	d.t.Helper()
	ok, code := d.knock(id, true)
	if ok || code == "" {
		d.t.Fatalf("%s: let in %v, code %q; want a code", id, ok, code)
	}
	return code
}

func (d *door) wantIn(id string, private bool) {
	d.t.Helper()
	if ok, code := d.knock(id, private); !ok || code != "" {
		d.t.Fatalf("%s: let in %v, code %q; want in", id, ok, code)
	}
}

func TestAStrangerIsLetInByACode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		d.wantOut("7", false)
		code := d.wantCode("7")
		d.wantOut("7", true)
		d.approve(code)
		d.wantIn("7", true)
		d.wantIn("7", false)
		d.wantOut("8", false)
		if _, err := pairing.New(d.store).Revoke(t.Context(), conversation.Account{Channel: "test"}, "7"); err != nil {
			t.Fatal(err)
		}
		d.wantOut("7", false)
		d.wantOut("7", true)
	})
}

func TestAStrangerWhoWritesOnHearsTheSameCodeNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		told := map[string]int{}
		for range 59 {
			if _, code := d.knock("7", true); code != "" {
				told[code]++
			}
			time.Sleep(time.Minute)
		}
		if len(told) != 1 {
			t.Fatalf("codes within an hour: %v", told)
		}
		for code, times := range told {
			if times != 6 {
				t.Fatalf("%s was told %d times in an hour", code, times)
			}
		}
	})
}

func TestAnExpiredCodeIsRenewedByTheNextMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		d.wantCode("7")
		time.Sleep(55 * time.Minute)
		old := d.wantCode("7")
		time.Sleep(5 * time.Minute) // less than the pause between two answers, but the code is of no use any more
		fresh := d.wantCode("7")
		if fresh == old {
			t.Fatal("the expired code was told again")
		}
		if _, err := pairing.New(d.store).Approve(t.Context(), old); err == nil {
			t.Fatal("the expired code lets somebody in")
		}
		d.approve(fresh)
		d.wantIn("7", true)
	})
}

// However many strangers come, they get a bounded number of answers, who was let
// in is not held up, and a code that was given stays good.
func TestAFloodOfStrangers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		d.approve(d.wantCode("friend"))
		early := d.wantCode("early")
		answers := 0
		for range 2 {
			for i := range 1500 {
				if _, code := d.knock(fmt.Sprint("stranger ", i), true); code != "" {
					answers++
				}
			}
		}
		if answers != 998 {
			t.Fatalf("%d answers", answers)
		}
		d.wantIn("friend", true)
		if n := strings.Count(d.log.String(), "level=WARN"); n != 1 {
			t.Fatalf("the operator is warned %d times", n)
		}
		time.Sleep(time.Second / 2)
		d.approve(d.wantCode("late"))
		time.Sleep(59 * time.Minute)
		d.approve(early)
	})
}

// A hundred strangers, or a few hundred, are no reason for another one to wait.
func TestStrangerAmongHundredsGetsACode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		for i := range 300 {
			d.wantCode(fmt.Sprint("stranger ", i))
		}
		d.approve(d.wantCode("newcomer"))
		d.wantIn("newcomer", true)
	})
}

// An answer that could not be sent is sent again with the next message, unless the
// stranger has blocked the bot.
func TestUnsentAnswerToAStrangerIsSentWithTheNextMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go d.access.TellStrangers(ctx)
		for name, tt := range map[string]struct {
			err   error
			again bool
		}{
			"sent":         {nil, false},
			"no network":   {errors.New("no network"), true},
			"rate limited": {&channels.SendError{RetryAfter: time.Second, Err: errors.New("429")}, true},
			"blocked":      {&channels.SendError{Permanent: true, Err: errors.New("403")}, false},
		} {
			first := d.wantCode(name)
			d.access.Tell(name, func(context.Context) error { return tt.err })
			synctest.Wait()
			if _, code := d.knock(name, true); (code == first) != tt.again {
				t.Errorf("%s: told again %q, the first was %q", name, code, first)
			}
		}
	})
}

// Those for whom there is no room in the queue get the code when they write again.
func TestTellDoesNotBlock(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	sent := func(context.Context) error { return nil }
	for range 1000 {
		d.access.Tell("crowd", sent)
	}
	d.wantCode("late")
	d.access.Tell("late", sent)
	d.wantCode("late")
}

// A disk that fails must neither let a stranger in nor drop what a friend says:
// nothing is decided, and the adapter asks again.
func TestWithoutTheStoreNothingIsDecided(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.approve(d.wantCode("friend"))
	d.store.Close()
	for _, id := range []string{"friend", "stranger"} {
		if ok, words, err := d.access.Admit(context.Background(), access.Visitor{Sender: conversation.Sender{ID: id}, Private: true}); err == nil || ok || words != "" {
			t.Errorf("%s: %v, %q, %v", id, ok, words, err)
		}
	}
}
