package telegram_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/channels"
	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/storetest"
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
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "")
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "**Hel")
	shown := g.waitShown(42, "**Hel …")
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "**Hello** wor")
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
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "after the end")
}

// The reply of the next process takes the place of the preview of a process that died, whose message that one might still edit.
func TestPreviewOfADeadProcessIsRemovedBeforeItsReply(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.store = storetest.New(t)
	c := g.channel()
	stop := g.run(c)
	g.srv.Say(telegramtest.Private(ada), ada, "hi")
	in := g.wait(1)[0]
	c.Preview(in.Key, in.ID, in.Address, "Hel")
	shown := g.waitShown(42, "Hel …")
	must(t, stop())

	stored, err := g.store.Preview(t.Context(), in.ID)
	must(t, err)
	if stored != fmt.Sprint(shown.ID) {
		t.Errorf("the message %q is stored, not %d", stored, shown.ID)
	}
	next := g.channel()
	_, err = next.Send(deadline(t), conversation.Delivery{Key: in.Key, RunID: in.ID, Preview: stored, Address: in.Address}, partOf("Hello world"))
	must(t, err)
	if reply := g.waitShown(42, "Hello world"); reply.ID == shown.ID {
		t.Error("the reply is the message of the preview")
	}
}

func TestAPreviewThatWasDeletedIsPostedAnew(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	c := g.channel()
	g.run(c)
	must(t, g.srv.WaitPolling(deadline(t)))
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "Hel")
	shown := g.waitShown(42, "Hel …")
	g.srv.Delete(42, shown.ID)
	long := strings.Repeat("word ", 1500)
	must(t, deliver(deadline(t), c, `{"chat":42}`, long))
	if sent := g.srv.SentTo(42); len(sent) != 2 || sent[0].ID == shown.ID {
		t.Errorf("sent %+v", sent)
	}
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "next")
	must(t, deliver(deadline(t), c, `{"chat":42}`, "next answer"))
	if sent := g.srv.SentTo(42); len(sent) != 3 {
		t.Errorf("sent %+v", sent)
	}
}

// A question is a message of its own, and the answer so far is removed before it.
func TestPreviewIsRemovedBeforeAQuestion(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	g.run(c)
	g.srv.AddChat(telegramtest.Private(ada))
	must(t, g.srv.WaitPolling(deadline(t)))
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "Let me look")
	shown := g.waitShown(42, "Let me look …")
	_, err := c.Send(deadline(t), conversation.Delivery{Address: `{"chat":42}`, Interim: true}, partOf("May I?"))
	must(t, err)
	if question := g.waitShown(42, "May I?"); question.ID == shown.ID {
		t.Error("the question is the message of the preview")
	}
}

// The preview of the text before a picture is removed if the answer is the picture alone, also when Telegram asks to
// wait first, and the next answer does not reuse its message.
func TestPreviewIsRemovedBeforeAPictureAlone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	c := g.channel()
	g.run(c)
	must(t, g.srv.WaitPolling(deadline(t)))
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "Let me draw")
	g.waitShown(42, "Let me draw …")
	gif := channels.File{Name: "cat.gif", Data: []byte("GIF89a"), Picture: &media.Image{Name: "cat.gif", MediaType: "image/gif"}}
	g.srv.Fail("deleteMessage", telegramtest.TooMany(1), 1)
	_, err := c.Send(deadline(t), conversation.Delivery{Address: `{"chat":42}`}, channels.Part{File: &gif})
	var wait *channels.SendError
	if !errors.As(err, &wait) || wait.RetryAfter != time.Second {
		t.Errorf("the picture was sent although its preview is still there: %v", err)
	}
	_, err = c.Send(deadline(t), conversation.Delivery{Address: `{"chat":42}`}, channels.Part{File: &gif})
	must(t, err)
	must(t, deliver(deadline(t), c, `{"chat":42}`, "next answer"))
	if sent := g.srv.SentTo(42); len(sent) != 2 || sent[0].Document == nil || sent[1].Text != "next answer" {
		t.Errorf("sent %+v", sent)
	}
}

func TestDraftsShowAnswersInPrivateChatsAndCanBeStopped(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	private := telegramtest.Private(ada)
	g.srv.AddChat(private)
	g.srv.AddChat(group)
	c := g.channel(func(cfg *telegram.Config) { cfg.Drafts = true })
	g.run(c)
	must(t, g.srv.WaitPolling(deadline(t)))
	g.underWay = 7
	c.Preview("telegram:chat:42", 7, `{"chat":42}`, "**Hello** wor")
	var draft telegramtest.Draft
	for ctx := deadline(t); draft.Text != "Hello wor …" || !draft.Stop; draft = g.srv.Draft(42) {
		must(t, clock.Sleep(ctx, 5*time.Millisecond))
	}
	g.srv.StopDraft(private, draft.ID+1)
	g.srv.StopDraft(private, draft.ID)
	if in := g.wait(1)[0]; in.Text != "/stop" || in.Key != "telegram:chat:42" || in.Sender.ID != "42" {
		t.Errorf("pressed: %+v", in)
	}
	must(t, deliver(deadline(t), c, `{"chat":42}`, "**Hello** wor\n\n⏹ Stopped."))
	if sent := g.srv.SentTo(42); len(sent) != 1 || g.srv.Draft(42).ID != 0 {
		t.Errorf("sent %+v, draft %+v", sent, g.srv.Draft(42))
	}
	g.mu.Lock()
	g.underWay = 0
	g.mu.Unlock()
	g.srv.StopDraft(private, draft.ID) // too late
	g.srv.Say(private, ada, "thanks")
	if got := texts(g.wait(2)); got[1] != "thanks" {
		t.Errorf("accepted %q", got)
	}
}

func TestAnswersAreShownAsMessagesWhereTheServerHasNoDrafts(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	g.srv.Fail("sendMessageDraft", telegramtest.Verdict{Code: 404, Description: "method not found"}, 1)
	c := g.channel(func(cfg *telegram.Config) { cfg.Drafts = true })
	g.run(c)
	must(t, g.srv.WaitPolling(deadline(t)))
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "Hel")
	shown := g.waitShown(42, "Hel …")
	must(t, deliver(deadline(t), c, `{"chat":42}`, "Hello"))
	if reply := g.waitShown(42, "Hello"); reply.ID != shown.ID || g.logged("drafts refused") != 1 {
		t.Errorf("the reply is message %d, not %d", reply.ID, shown.ID)
	}
}
