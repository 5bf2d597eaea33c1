package telegram_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram/telegramtest"
	"parley/conversation"
)

// adaWrote is the field message of an update.
func adaWrote(id int, text string) string {
	return fmt.Sprintf(`"message":{"message_id":%d,"date":1,"text":%q,"chat":{"id":42,"type":"private"},"from":{"id":42,"first_name":"Ada"}}`, id, text)
}

// result is an answer to getUpdates with these updates.
func result(updates string) telegramtest.Verdict {
	return garbledAnswer(`{"ok":true,"result":[` + updates + `]}`)
}

func TestOffsetFollowsOnlyIDsThatWereRead(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]telegramtest.Verdict{
		"no id":              result(`{}`),
		"null":               result(`{"update_id":null}`),
		"a text":             result(`{"update_id":"1002"}`),
		"a fraction":         result(`{"update_id":1002.5}`),
		"below zero":         result(`{"update_id":-5}`),
		"the largest number": result(`{"update_id":9223372036854775807}`),
		"beyond all numbers": result(`{"update_id":1e30}`),
		"several":            result(`{},{"poll":{}},{"update_id":-1}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			private := telegramtest.Private(ada)
			g.srv.Say(private, ada, "before")
			g.run(g.channel())
			g.wait(1)
			must(t, g.srv.WaitPolling(deadline(t)))
			must(t, g.srv.WaitConfirmed(deadline(t)))
			g.srv.Fail("getUpdates", odd, 1) // which the poll after this one gets
			g.srv.Push(`{"poll":{}}`)
			g.srv.Say(private, ada, "behind it")
			if diff := cmp.Diff([]string{"before", "behind it"}, texts(g.wait(2))); diff != "" {
				t.Fatal(diff)
			}
			g.waitLog("have no ids")
			must(t, g.srv.WaitConfirmed(deadline(t)))
			g.until(func() bool { return g.cursor == conversation.Cursor{Name: "telegram:7000001", Value: "1004"} })
		})
	}
}

func TestMessagesWithoutUpdateIDsAreTakenOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it waits for tries again")
	}
	t.Parallel()
	g := newGateway(t)
	private := telegramtest.Private(ada)
	g.srv.Say(private, ada, "before")
	g.run(g.channel())
	g.wait(1)
	g.waitLog("Telegram bot identified") // which also shows that Telegram answers
	must(t, g.srv.WaitConfirmed(deadline(t)))
	g.srv.PushWithoutID(`{` + adaWrote(901, "without an id") + `}`)
	g.srv.PushWithoutID(`{"poll":{}}`)
	g.wait(2)
	must(t, g.srv.WaitCalls(deadline(t), "getUpdates", g.srv.Calls("getUpdates")+3))
	if n := g.srv.Pending(); n != 2 {
		t.Errorf("%d updates are pending, want both: no id was read behind which they could be confirmed", n)
	}
	g.srv.Say(private, ada, "behind it")
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if diff := cmp.Diff([]string{"before", "without an id", "behind it"}, texts(g.wait(3))); diff != "" {
		t.Fatal(diff)
	}
	g.waitLog("msg=\"updates received again\"")
	if n := g.logged("have no ids"); n != 1 {
		t.Errorf("told %d times:\n%s", n, g.log.String())
	}
	want := []string{"connecting", "serving", "interrupted", "serving"}
	g.until(func() bool { return slices.Equal(want, g.states) })
}

func TestUpdatesWithoutIDsAmongOthersDelayNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	private := telegramtest.Private(ada)
	g.srv.PushWithoutID(`{` + adaWrote(901, "first") + `}`)
	g.srv.Say(private, ada, "second")
	g.srv.PushWithoutID(`{` + adaWrote(902, "third") + `}`)
	g.srv.Say(private, ada, "fourth")
	g.run(g.channel())
	if diff := cmp.Diff([]string{"first", "second", "third", "fourth"}, texts(g.wait(4))); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if g.logged("have no ids") > 0 {
		t.Errorf("a batch that could be confirmed is logged as one that can't:\n%s", g.log.String())
	}
}

// The first update of this answer has no id, and the second one is cut off: an
// offset behind the second would skip what was never read.
func TestBrokenAnswerIsNotSkippedByTheIDOfAnotherUpdate(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it waits for tries again")
	}
	t.Parallel()
	g := newGateway(t)
	id := g.srv.Say(telegramtest.Private(ada), ada, "hello").UpdateID
	g.srv.Fail("getUpdates", garbledAnswer(fmt.Sprintf(`{"ok":true,"result":[{"poll":{}},{"update_id":%d,"mess`, id)), 5)
	g.run(g.channel())
	if diff := cmp.Diff([]string{"hello"}, texts(g.wait(1))); diff != "" {
		t.Fatal(diff)
	}
	if g.logged("skipping") > 0 {
		t.Errorf("an update was skipped:\n%s", g.log.String())
	}
}

func TestWebhookTakesUpdatesWithoutIDs(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.webhookChannel())
	g.srv.PushWithoutID(`{` + adaWrote(901, "without an id") + `}`)
	g.srv.PushWithoutID(`{}`)
	g.srv.Say(telegramtest.Private(ada), ada, "with one")
	if diff := cmp.Diff([]string{"without an id", "with one"}, texts(g.wait(2))); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if g.cursor != (conversation.Cursor{}) {
		t.Errorf("the webhook moved the offset of the polls: %+v", g.cursor)
	}
}
