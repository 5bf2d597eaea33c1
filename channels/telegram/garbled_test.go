package telegram_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
)

// garbledAnswer returns an answer with status 200 and an undocumented body.
func garbledAnswer(body string) telegramtest.Verdict {
	return telegramtest.Verdict{Code: 200, Body: body}
}

func TestOnlyTheBrokenUpdateIsSkipped(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it waits for tries again")
	}
	t.Parallel()
	g := newGateway(t)
	private := telegramtest.Private(ada)
	var want []string
	for i := range 30 {
		if i == 11 {
			g.srv.Push(`{"message":{"text":"broken`)
		}
		want = append(want, fmt.Sprint("message ", i))
		g.srv.Say(private, ada, want[i])
	}
	g.run(g.channel())
	if diff := cmp.Diff(want, texts(g.wait(len(want)))); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
	g.waitLog("msg=\"updates received again\"")
	if g.logged("skipping it") != 1 || g.logged("update_id=1012") != 1 || !strings.Contains(g.log.String(), `text\\\":\\\"broken`) {
		t.Errorf("the log does not show what was skipped:\n%s", g.log.String())
	}
}

func TestUpdateThatIsCutOffIsReadAgain(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	id := g.srv.Say(telegramtest.Private(ada), ada, "hello").UpdateID
	g.srv.Fail("getUpdates", garbledAnswer(fmt.Sprintf(`{"ok":true,"result":[{"update_id":%d,"mess`, id)), 3)
	g.run(g.channel())
	if diff := cmp.Diff([]string{"hello"}, texts(g.wait(1))); diff != "" {
		t.Fatal(diff)
	}
}

func TestLogExplainsMalformedAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer telegramtest.Verdict
		want   string
	}{
		"nothing":           {garbledAnswer(" "), "is not the Bot API's"},
		"a login page":      {garbledAnswer("<html>Sign in to this network"), "Sign in to this network"},
		"another result":    {garbledAnswer(`{"ok":true,"result":{"a":1}}`), "is not the Bot API's"},
		"no reason":         {garbledAnswer(`{"ok":false}`), "refused without a reason (error_code 0)"},
		"a proxy's error":   {telegramtest.BadGateway(), "Telegram server failed"},
		"a lost connection": {telegramtest.Drop(), "can't be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			g.srv.Fail("getUpdates", tt.answer, 1)
			g.srv.Say(telegramtest.Private(ada), ada, "hello")
			g.run(g.channel())
			g.wait(1)
			if g.logged(tt.want) == 0 || g.logged("can't be reached") > 0 != strings.Contains(tt.want, "can't be reached") {
				t.Errorf("the log does not say %q:\n%s", tt.want, g.log.String())
			}
			if g.logged("skipping") > 0 {
				t.Error("an answer without updates was logged as a skipped update")
			}
		})
	}
}

// A reply that fails although Telegram works is given up in the end. No reply is given up during an
// outage.
func TestUnsendableReplyIsDistinguishedFromAnOutage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	g.srv.Refuse(ada.ID, telegramtest.BadGateway(), 2)
	c := g.channel()
	send := func() (stuck bool) {
		t.Helper()
		_, err := c.Send(deadline(t), conversation.Delivery{Address: `{"chat":42}`}, partOf("hi"))
		if err == nil {
			t.Fatal("no error")
		}
		var own *channels.StuckError
		return errors.As(err, &own)
	}
	if send() {
		t.Error("Telegram counts as working before the first poll")
	}
	g.run(c)
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.wait(1)
	if !send() {
		t.Error("polls are answered, but the failure counts as an outage")
	}
	g.srv.Close()
	g.waitLog("can't be reached")
	if send() {
		t.Error("Telegram is away, but the failure counts as the message's own")
	}
}
