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

// entrance is access in the mode "pairing" over a real store. In a synctest
// bubble, an hour passes at once for both.
type entrance struct {
	t      *testing.T
	store  *conversation.Store
	access *access.Control
	log    bytes.Buffer
}

func newEntrance(t *testing.T) *entrance {
	t.Helper()
	store := storetest.New(t)
	d := &entrance{t: t, store: store}
	var err error
	d.access, err = access.New("pairing", nil, conversation.Account{Channel: "test"}, pairing.New(store), slog.New(slog.NewTextHandler(&d.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// write has a person send a message, and returns the code in the answer, if there is one.
func (d *entrance) write(id string, private bool) (ok bool, code string) {
	d.t.Helper()
	ok, words, err := d.access.Admit(d.t.Context(), access.Visitor{Sender: conversation.Sender{ID: id, Name: "Name of " + id}, Private: private})
	if err != nil {
		d.t.Fatal(err)
	}
	code = regexp.MustCompile(`[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(words)
	if words != "" && !strings.Contains(words, "gateway pair approve "+code) {
		d.t.Fatalf("the answer does not name the owner's command: %q", words)
	}
	return ok, code
}

func (d *entrance) approve(code string) {
	d.t.Helper()
	if _, err := pairing.New(d.store).Approve(d.t.Context(), code); err != nil {
		d.t.Fatal(err)
	}
}

func (d *entrance) wantNoAnswer(id string, private bool) {
	d.t.Helper()
	if ok, code := d.write(id, private); ok || code != "" {
		d.t.Fatalf("%s: admitted %v, code %q; want no answer", id, ok, code)
	}
}

// wantCode returns the code that a stranger is told now.
func (d *entrance) wantCode(id string) string {
	d.t.Helper()
	ok, code := d.write(id, true)
	if ok || code == "" {
		d.t.Fatalf("%s: admitted %v, code %q; want a code", id, ok, code)
	}
	return code
}

func (d *entrance) wantAdmitted(id string, private bool) {
	d.t.Helper()
	if ok, code := d.write(id, private); !ok || code != "" {
		d.t.Fatalf("%s: admitted %v, code %q; want admitted", id, ok, code)
	}
}

func TestApprovedCodeAdmitsAStranger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newEntrance(t)
		d.wantNoAnswer("7", false)
		code := d.wantCode("7")
		d.wantNoAnswer("7", true)
		d.approve(code)
		d.wantAdmitted("7", true)
		d.wantAdmitted("7", false)
		d.wantNoAnswer("8", false)
		if _, err := pairing.New(d.store).Revoke(t.Context(), conversation.Account{Channel: "test"}, "7"); err != nil {
			t.Fatal(err)
		}
		d.wantNoAnswer("7", false)
		d.wantNoAnswer("7", true)
	})
}

func TestStrangerIsToldTheSameCodeEveryTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newEntrance(t)
		told := map[string]int{}
		for range 59 {
			if _, code := d.write("7", true); code != "" {
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

func TestExpiredCodeIsReplacedWithTheNextMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newEntrance(t)
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
		d.wantAdmitted("7", true)
	})
}

// Strangers get a bounded number of answers, however many of them write. People who were
// admitted don't wait, and a code that was given stays valid.
func TestAnswersToManyStrangersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newEntrance(t)
		d.approve(d.wantCode("friend"))
		early := d.wantCode("early")
		answers := 0
		for range 2 {
			for i := range 1500 {
				if _, code := d.write(fmt.Sprint("stranger ", i), true); code != "" {
					answers++
				}
			}
		}
		if answers != 998 {
			t.Fatalf("%d answers", answers)
		}
		d.wantAdmitted("friend", true)
		if n := strings.Count(d.log.String(), "level=WARN"); n != 1 {
			t.Fatalf("the operator is warned %d times", n)
		}
		time.Sleep(time.Second / 2)
		d.approve(d.wantCode("late"))
		time.Sleep(59 * time.Minute)
		d.approve(early)
	})
}

// A few hundred strangers do not make the next one wait for a code.
func TestStrangerAmongHundredsGetsACode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newEntrance(t)
		for i := range 300 {
			d.wantCode(fmt.Sprint("stranger ", i))
		}
		d.approve(d.wantCode("newcomer"))
		d.wantAdmitted("newcomer", true)
	})
}

// An answer that could not be sent is sent again with the next message, unless the
// stranger has blocked the bot.
func TestUnsentAnswerToAStrangerIsSentWithTheNextMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newEntrance(t)
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
			if _, code := d.write(name, true); (code == first) != tt.again {
				t.Errorf("%s: told again %q, the first was %q", name, code, first)
			}
		}
	})
}

// A stranger for whom the queue of answers has no room gets the code with the next message.
func TestTellDoesNotBlock(t *testing.T) {
	t.Parallel()
	d := newEntrance(t)
	sent := func(context.Context) error { return nil }
	for range 1000 {
		d.access.Tell("crowd", sent)
	}
	d.wantCode("late")
	d.access.Tell("late", sent)
	d.wantCode("late")
}

// A disk that fails must neither admit a stranger nor drop the message of somebody who was
// admitted: Admit returns an error, and the adapter asks again.
func TestNothingIsDecidedWithoutTheStore(t *testing.T) {
	t.Parallel()
	d := newEntrance(t)
	d.approve(d.wantCode("friend"))
	d.store.Close()
	for _, id := range []string{"friend", "stranger"} {
		if ok, words, err := d.access.Admit(context.Background(), access.Visitor{Sender: conversation.Sender{ID: id}, Private: true}); err == nil || ok || words != "" {
			t.Errorf("%s: %v, %q, %v", id, ok, words, err)
		}
	}
}
