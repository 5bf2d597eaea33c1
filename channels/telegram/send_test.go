package telegram_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels"
	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
)

func partOf(text string) channels.Part { return channels.Part{Text: text, Plain: text} }

// deliver sends all parts of a text.
func deliver(ctx context.Context, c *telegram.Channel, addr, text string) error {
	d := conversation.Delivery{Address: addr, Text: text}
	for _, p := range c.Split(d) {
		if _, err := c.Send(ctx, d, p); err != nil {
			return err
		}
	}
	return nil
}

// shape holds the parts of a sent message that the tests compare.
type shape struct {
	Chat, Topic, ReplyTo int64
	Text                 string
	HTML                 bool
}

func shapes(sent []telegramtest.Message) []shape {
	var all []shape
	for _, m := range sent {
		all = append(all, shape{m.Chat, m.Topic, m.ReplyTo, m.Text, m.HTML})
	}
	return all
}

func TestRepliesAreSentToTheirChatAndTopic(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	g.run(c)
	g.srv.Say(telegramtest.Private(ada), ada, "private")
	inGroup := g.srv.Say(group, ada, "@parley_bot group").MessageID
	inTopic := g.srv.Say(forum, ada, "@parley_bot topic", telegramtest.InTopic(7)).MessageID
	for _, in := range g.wait(3) {
		must(t, deliver(deadline(t), c, in.Address, "to **"+in.Text+"**"))
	}
	want := []shape{
		{Chat: 42, Text: "to private", HTML: true},
		{Chat: -1001, ReplyTo: inGroup, Text: "to group", HTML: true},
		{Chat: -1002, Topic: 7, ReplyTo: inTopic, Text: "to topic", HTML: true},
	}
	if diff := cmp.Diff(want, shapes(g.srv.Sent())); diff != "" {
		t.Fatal(diff)
	}
}

func TestLongRepliesArriveWhole(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(group)
	c := g.channel()
	text := strings.TrimSpace(strings.Repeat("Some *words* & `code`, and many more that have no style of their own. ", 300))
	must(t, deliver(deadline(t), c, `{"chat":-1001,"reply_to":1}`, text))
	var whole []string
	for _, m := range g.srv.Sent() {
		whole = append(whole, m.Text)
	}
	want := strings.NewReplacer("*", "", "`", "").Replace(text)
	if diff := cmp.Diff(want, strings.Join(whole, " ")); diff != "" {
		t.Fatal(diff)
	}
}

func TestMarkupThatTelegramCantReadGoesAsPlainText(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	for _, html := range []string{"<x>hi</x>", `<a href="https://x.org/` + strings.Repeat("a", 9500) + `">hi</a>`} { // the second is too long for Telegram
		part := channels.Part{Text: html, Plain: "hi & bye"}
		_, err := g.channel().Send(deadline(t), conversation.Delivery{Address: `{"chat":42}`}, part)
		must(t, err)
	}
	if diff := cmp.Diff([]shape{{Chat: 42, Text: "hi & bye"}, {Chat: 42, Text: "hi & bye"}}, shapes(g.srv.Sent())); diff != "" {
		t.Fatal(diff)
	}
}

func TestRefusalsAreClassified(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		verdict telegramtest.Verdict
		want    channels.SendError
	}{
		"chat not found": {telegramtest.Verdict{Code: 400, Description: "chat not found"}, channels.SendError{Permanent: true}},
		"blocked":        {telegramtest.Verdict{Code: 403, Description: "bot was blocked by the user"}, channels.SendError{Permanent: true}},
		"rights":         {telegramtest.Verdict{Code: 400, Description: "not enough rights to send text messages to the chat"}, channels.SendError{Permanent: true}},
		"closed topic":   {telegramtest.Verdict{Code: 400, Description: "TOPIC_CLOSED"}, channels.SendError{Permanent: true}},
		"flood":          {telegramtest.TooMany(7), channels.SendError{RetryAfter: 7 * time.Second}},
		"flood, no time": {telegramtest.Verdict{Code: 429}, channels.SendError{RetryAfter: time.Second}},
		"away":           {telegramtest.BadGateway(), channels.SendError{}},
		"broken":         {telegramtest.Verdict{Code: 500}, channels.SendError{}},
		"revoked":        {telegramtest.Verdict{Code: 401}, channels.SendError{}},
		"garbage":        {telegramtest.Verdict{Code: 200, Body: "<html>"}, channels.SendError{}},
		"no answer":      {telegramtest.Drop(), channels.SendError{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			g.srv.Refuse(42, tt.verdict, 1)
			err := deliver(deadline(t), g.channel(), `{"chat":42}`, "hi **you**")
			var got *channels.SendError
			if !errors.As(err, &got) {
				t.Fatalf("%T: %v", err, err)
			}
			if got.Permanent != tt.want.Permanent || got.RetryAfter != tt.want.RetryAfter {
				t.Fatalf("%+v", got)
			}
		})
	}
}

func TestABadAddressIsRefusedForGood(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, addr := range []string{"", "{}", "null", `{"chat":"x"}`} {
		err := deliver(deadline(t), g.channel(), addr, "hi")
		if got := (*channels.SendError)(nil); !errors.As(err, &got) || !got.Permanent {
			t.Errorf("address %q: %v", addr, err)
		}
	}
}

func TestAMissingMessageToReplyToDoesNotMatter(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(group)
	c := g.channel()
	must(t, deliver(deadline(t), c, `{"chat":-1001,"reply_to":99}`, "allowed without"))
	g.srv.Refuse(-1001, telegramtest.Verdict{Code: 400, Description: "message to be replied not found"}, 1)
	must(t, deliver(deadline(t), c, `{"chat":-1001,"reply_to":99}`, "tried without"))
	want := []shape{{Chat: -1001, Text: "allowed without"}, {Chat: -1001, Text: "tried without"}}
	if diff := cmp.Diff(want, shapes(g.srv.Sent())); diff != "" {
		t.Fatal(diff)
	}
}

func TestAGroupThatMovedGetsItsReply(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.Migrate(-5, -1005)
	must(t, deliver(deadline(t), g.channel(), `{"chat":-5}`, "hi"))
	if diff := cmp.Diff([]shape{{Chat: -1005, Text: "hi"}}, shapes(g.srv.Sent())); diff != "" {
		t.Fatal(diff)
	}
}

func TestRateLimitedChatDelaysNoOther(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(forum, 7, 8)
	g.srv.AddChat(telegramtest.Private(ada))
	flood := func(c *telegram.Channel, seconds int) {
		t.Helper()
		g.srv.Refuse(forum.ID, telegramtest.TooMany(seconds), 1)
		if err := deliver(deadline(t), c, `{"chat":-1002,"topic":7}`, "flooded"); err == nil {
			t.Fatal("no error")
		}
	}
	c := g.channel()
	flood(c, 3600)
	ctx, giveUp := context.WithCancel(deadline(t))
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := deliver(ctx, c, `{"chat":-1002,"topic":8}`, "another topic"); err == nil {
			t.Error("another topic of the rate-limited chat does not wait")
		}
	})
	must(t, deliver(deadline(t), c, `{"chat":42}`, "another chat"))
	giveUp()
	waiting.Wait()

	c = g.channel()
	flood(c, 1)
	must(t, deliver(deadline(t), c, `{"chat":-1002,"topic":8}`, "another topic"))
	want := []shape{{Chat: 42, Text: "another chat"}, {Chat: -1002, Topic: 8, Text: "another topic"}}
	if diff := cmp.Diff(want, shapes(g.srv.Sent())); diff != "" {
		t.Fatal(diff)
	}
}

func TestTelegramsLimitsAreKept(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	g.srv.LimitRates(10, 0)
	c := g.channel(func(cfg *telegram.Config) { cfg.ChatRate = 10 })
	for range 13 {
		must(t, deliver(deadline(t), c, `{"chat":42}`, "hi"))
	}
}

func TestTypingShowsWhileARunLasts(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(forum, 7)
	c := g.channel()
	ctx, stop := context.WithCancel(deadline(t))
	c.Typing(ctx, `{"chat":-1002,"topic":7}`)
	must(t, g.srv.WaitCalls(ctx, "sendChatAction", 1))
	stop()
	want := []telegramtest.Call{{
		Method: "sendChatAction", Params: map[string]string{"chat_id": "-1002", "message_thread_id": "7", "action": "typing"},
	}}
	if diff := cmp.Diff(want, g.srv.Log()); diff != "" {
		t.Fatal(diff)
	}
}

func TestQuickAnswersShowNoTyping(t *testing.T) {
	t.Parallel()
	for quickly := false; !quickly; {
		g := newGateway(t)
		g.srv.AddChat(telegramtest.Private(ada))
		g.srv.AddChat(telegramtest.Private(bob))
		c := g.channel()
		quick, stop := context.WithCancel(deadline(t))
		began := time.Now()
		c.Typing(quick, `{"chat":42}`)
		stop()
		quickly = time.Since(began) < 200*time.Millisecond // unless the machine did something else meanwhile
		c.Typing(deadline(t), `{"chat":43}`)               // would show later than the first
		must(t, g.srv.WaitCalls(deadline(t), "sendChatAction", 1))
		if got := g.srv.Log()[0].Params["chat_id"]; got != "43" && quickly {
			t.Fatalf("chat %s is shown typing", got)
		}
	}
}

// A reply that would take very many messages is sent as its beginning and a file.
func TestAReplyOfVeryManyMessagesIsAFile(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(group)
	text := strings.TrimSpace(strings.Repeat("Some **words** & `code`.\n\n", 50_000)) // 1.3 MB
	must(t, deliver(deadline(t), g.channel(), `{"chat":-1001,"reply_to":1}`, text))
	sent := g.srv.Sent()
	if len(sent) != 2 {
		t.Fatalf("%d messages", len(sent))
	}
	if !strings.HasPrefix(sent[0].Text, "Some words & code.\n\nSome") || len(sent[0].Text) < 900 || sent[0].Document != nil {
		t.Errorf("the first message shows %.60q", sent[0].Text)
	}
	file := sent[1].Document
	if file == nil || file.Name != "reply.md" || file.Data != text || sent[1].Text != "… The whole reply is in the file reply.md." {
		t.Errorf("the second message shows %q with %+.100v", sent[1].Text, file)
	}
}

func TestTenMessagesAreNoFile(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	whole := strings.Repeat("x", 10*4096)
	if parts := c.Split(conversation.Delivery{Text: whole}); len(parts) != 10 || parts[9].File != nil {
		t.Errorf("%d parts", len(parts))
	}
	if parts := c.Split(conversation.Delivery{Text: whole + "x"}); len(parts) != 2 || parts[1].File == nil {
		t.Errorf("%d parts, where a file was due", len(parts))
	}
	cfg := g.config()
	cfg.FileOver = 0
	never, err := telegram.New(telegram.Deps{Config: cfg, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	if parts := never.Split(conversation.Delivery{Text: whole + "x"}); len(parts) != 11 {
		t.Errorf("%d parts with file_over 0", len(parts))
	}
}

// An earlier version sent any reply in messages, and file_over may change between two starts: the rest of
// a reply is sent in the form in which it began.
func TestReplyContinuesInTheFormInWhichItBegan(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	text := strings.Repeat("x", 30*4096)
	for sent, want := range map[int]int{0: 2, 1: 2, 2: 30, 29: 30} {
		parts := c.Split(conversation.Delivery{Text: text, Sent: make([]string, sent)})
		if len(parts) != want || parts[0].Text != strings.Repeat("x", 4096) || (parts[1].File != nil) != (want == 2) {
			t.Errorf("%d parts when %d are sent, want %d", len(parts), sent, want)
		}
	}
}
