package telegram_test

import (
	"strings"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/internal/clock"
)

// waitShown waits until a chat has one message with a text, and returns it.
func (g *gateway) waitShown(chat int64, text string) telegramtest.Message {
	g.t.Helper()
	ctx := deadline(g.t)
	for {
		sent := g.srv.SentTo(chat)
		if len(sent) == 1 && sent[0].Text == text {
			return sent[0]
		}
		if clock.Sleep(ctx, 5*time.Millisecond) != nil {
			g.t.Fatalf("sent %+v, want %q\n%s", sent, text, g.log.String())
		}
	}
}

func TestAnAnswerIsShownWhileItIsWrittenAndBecomesTheReply(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	c := g.channel()
	stop := g.run(c)
	must(t, g.srv.WaitPolling(deadline(t)))
	c.Preview(`{"chat":42}`, "")
	c.Preview(`{"chat":42}`, "**Hel")
	shown := g.waitShown(42, "**Hel …")
	c.Preview(`{"chat":42}`, "**Hello** wor")
	g.waitShown(42, "Hello wor …")
	must(t, deliver(deadline(t), c, `{"chat":42}`, "**Hello** world"))
	if reply := g.waitShown(42, "Hello world"); reply.ID != shown.ID {
		t.Errorf("the reply is message %d, not %d", reply.ID, shown.ID)
	}
	must(t, deliver(deadline(t), c, `{"chat":42}`, "another"))
	if sent := g.srv.SentTo(42); len(sent) != 2 || sent[0].Text != "Hello world" {
		t.Errorf("sent %+v", sent)
	}
	must(t, stop())
	c.Preview(`{"chat":42}`, "after the end")
}

// The gateway dies while it shows an answer: the next process makes the answer anew,
// and puts it into the same message.
func TestAPreviewOfADeadProcessBecomesTheReply(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	c := g.channel()
	stop := g.run(c)
	must(t, g.srv.WaitPolling(deadline(t)))
	c.Preview(`{"chat":42}`, "Hel")
	shown := g.waitShown(42, "Hel …")
	g.until(func() bool { return strings.Contains(g.previews, "telegram:chat:42") })
	must(t, stop())

	next := g.channel()
	g.run(next)
	must(t, g.srv.WaitPolling(deadline(t)))
	must(t, deliver(deadline(t), next, `{"chat":42}`, "Hello world"))
	if reply := g.waitShown(42, "Hello world"); reply.ID != shown.ID {
		t.Errorf("the reply is message %d, not %d", reply.ID, shown.ID)
	}
	if g.previews != "{}" {
		t.Errorf("noted: %s", g.previews)
	}
}

func TestAPreviewThatWasDeletedIsPostedAnew(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	c := g.channel()
	g.run(c)
	must(t, g.srv.WaitPolling(deadline(t)))
	c.Preview(`{"chat":42}`, "Hel")
	shown := g.waitShown(42, "Hel …")
	g.srv.Delete(42, shown.ID)
	long := strings.Repeat("word ", 1500)
	must(t, deliver(deadline(t), c, `{"chat":42}`, long))
	if sent := g.srv.SentTo(42); len(sent) != 2 || sent[0].ID == shown.ID {
		t.Errorf("sent %+v", sent)
	}
	c.Preview(`{"chat":42}`, "next")
	must(t, deliver(deadline(t), c, `{"chat":42}`, "next answer"))
	if sent := g.srv.SentTo(42); len(sent) != 3 {
		t.Errorf("sent %+v", sent)
	}
}
