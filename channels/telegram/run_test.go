package telegram_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/bots"
)

var (
	group = telegramtest.Group(-1001, "Friends")
	forum = telegramtest.Forum(-1002, "Project")
)

func TestPrivateMessageIsAccepted(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	said := g.srv.Say(telegramtest.Private(ada), ada, "Hello\nthere", telegramtest.At(time.Unix(1700000000, 0)))
	got := g.wait(1)
	want := []conversation.Inbound{{
		Key:      "telegram:chat:42",
		Account:  "7000001",
		SourceID: fmt.Sprintf("42:%d", said.MessageID),
		Address:  `{"chat":42}`,
		Sender:   conversation.Sender{ID: "42", Name: "Ada Lovelace"},
		Place:    "a private chat with Ada Lovelace",
		Text:     "Hello\nthere",
		At:       time.Unix(1700000000, 0),
		Joins:    300 * time.Millisecond,
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(conversation.Inbound{})); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
}

func TestForumTopicsAreSessions(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	g.srv.Say(forum, ada, "@parley_bot in a topic", telegramtest.InTopic(7))
	g.srv.Say(forum, ada, "@parley_bot in General")
	first := g.srv.Say(group, ada, "@parley_bot in a group")
	g.srv.Say(group, ada, "@parley_bot in a thread of replies", telegramtest.ReplyTo(first.MessageID))
	var keys []conversation.Key
	for _, in := range g.wait(4) {
		keys = append(keys, in.Key)
		if !in.Group {
			t.Errorf("%s is no group", in.Key)
		}
	}
	want := []conversation.Key{
		"telegram:chat:-1002:topic:7", "telegram:chat:-1002", "telegram:chat:-1001", "telegram:chat:-1001",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Fatal(diff)
	}
}

func TestGroupMessagesAreAcceptedWhenTheyMentionTheBot(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	g.srv.AddChat(group)
	c := g.channel()
	id, err := c.Send(deadline(t), conversation.Delivery{Address: `{"chat":-1001}`}, partOf("mine"))
	must(t, err)
	var mine int64
	fmt.Sscan(id, &mine)

	other := g.srv.Say(group, bob, "just chatting").MessageID
	g.srv.Say(group, ada, "hey @Parley_Bot, what is this?")
	g.srv.Say(group, ada, "@parley_bot: hi")
	g.srv.Say(group, ada, "- item one @parley_bot")
	g.srv.Say(group, ada, "mail me at x@parley_bot.example")
	g.srv.Say(group, ada, "@parley_bot_two hi")
	g.srv.Say(group, ada, "@parley_bot")
	g.srv.Say(group, ada, "thanks", telegramtest.ReplyTo(mine))
	g.srv.Say(group, ada, "not you", telegramtest.ReplyTo(other))
	g.srv.Say(group, ada, "/new@parley_bot my title")
	g.srv.Say(group, ada, "/status")
	g.srv.Say(group, ada, "/status@other_bot")
	g.srv.Say(group, ada, "/weather for another bot")
	g.srv.Say(group, ada, "/usr/bin is a path")
	g.srv.Say(group, ada, "😀 Parley come", telegramtest.WithEntities(
		telegramtest.Entity{Type: "text_mention", Offset: 3, Length: 6, User: &telegramtest.Bot}))
	g.srv.Say(group, telegramtest.User{ID: 9, IsBot: true, FirstName: "Other"}, "@parley_bot hi")
	g.srv.Say(group, ada, "@parley_bot broken", telegramtest.WithEntities(
		telegramtest.Entity{Type: "text_mention", Offset: -5, Length: 1 << 30, User: &telegramtest.Bot}))
	g.srv.Say(group, ada, "@parley_bot last")
	g.until(func() bool { n := len(g.accepted); return n > 0 && g.accepted[n-1].Text == "last" })
	want := []string{
		"hey @Parley_Bot, what is this?", "hi", "- item one @parley_bot", "@parley_bot", "[in reply to Parley:]\n> mine\n\nthanks",
		"/new my title", "/status", "😀 Parley come", "broken", "last",
	}
	if diff := cmp.Diff(want, texts(g.wait(0))); diff != "" {
		t.Fatal(diff)
	}
}

func TestMessagesOfAnonymousAdministratorsAreAccepted(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	g.srv.Say(group, ada, "@parley_bot hi", telegramtest.Anonymously())
	if got := g.wait(1)[0].Sender; got != (conversation.Sender{ID: "-1001", Name: "Friends"}) {
		t.Fatalf("sender %+v", got)
	}
}

func TestTopicsOpenedByTheBotAreNotRepliesToIt(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	g.srv.Push(`{"message":{"message_id":5,"message_thread_id":4,"is_topic_message":true,"date":1,"text":"chat",
		"from":{"id":42,"first_name":"Ada"},"chat":{"id":-1002,"type":"supergroup","is_forum":true},
		"reply_to_message":{"message_id":4,"from":{"id":7000001,"is_bot":true},"forum_topic_created":{"name":"x"}}}}`)
	g.srv.Say(telegramtest.Private(ada), ada, "end")
	if diff := cmp.Diff([]string{"end"}, texts(g.wait(1))); diff != "" {
		t.Fatal(diff)
	}
}

func TestMessagesWithoutTextAreNamed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	private := telegramtest.Private(ada)
	g.srv.Say(private, ada, "", telegramtest.With("sticker", map[string]string{"emoji": "👍"}))
	g.srv.Say(private, ada, "", telegramtest.With("photo", []int{}))
	g.srv.Say(private, ada, "what is this?", telegramtest.With("photo", []int{}))
	g.srv.Say(private, ada, "", telegramtest.With("document", map[string]string{"file_name": "a\nb.pdf"}))
	g.srv.Say(private, ada, "", telegramtest.With("hologram", 1))
	g.srv.Say(private, ada, "", telegramtest.With("pinned_message", map[string]int{"message_id": 1}))
	g.srv.Say(private, ada, " \n ")
	g.srv.Say(private, ada, "end")
	want := []string{
		"[sticker 👍]", "[photo]", "what is this?\n[photo]", "[document a b.pdf]", "[a message that can't be read]",
		"[a message that can't be read]", "end",
	}
	if diff := cmp.Diff(want, texts(g.wait(len(want)))); diff != "" {
		t.Fatal(diff)
	}
}

func TestBadUpdatesDoNotBlockTheBatch(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	private := telegramtest.Private(ada)
	g.srv.Say(private, ada, "before")
	for _, raw := range []string{
		`{}`, `{"poll":{"id":"1"}}`, `{"message":null}`, `{"message":[]}`, `{"message":"x"}`, `{"message":{}}`,
		`{"message":{"message_id":"x","chat":{"id":42},"from":{"id":42}}}`,
		`{"message":{"message_id":900,"chat":{"id":42,"type":"private"},"from":{"id":42,"first_name":"Ada"},"text":{"new":"form"}}}`,
		`{"message":{"message_id":901,"chat":{"id":42,"type":"private"},"from":{"id":42,"first_name":7},"text":"odd name"}}`,
		`{"message":{"message_id":902,"chat":{"id":42},"from":{"id":42},"text":"\u0000\ud800 \u001b"}}`,
		`{"edited_message":{"message_id":903,"chat":{"id":42},"from":{"id":42},"text":"edited"}}`,
		`{"message":{"message_id":904,"chat":{"id":-5,"type":"channel"},"from":{"id":42},"text":"/new"}}`,
	} {
		g.srv.Push(raw)
	}
	g.srv.Say(private, ada, strings.Repeat("x", 1<<20))
	g.srv.Say(private, ada, "after")
	g.run(g.channel())
	want := []string{
		"before", "[a message that can't be read]", "odd name", "\ufffd \u001b", strings.Repeat("x", 1<<20), "after",
	}
	if diff := cmp.Diff(want, texts(g.wait(len(want)))); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
}

func TestBatchWithNothingForUsMovesTheCursor(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	id := g.srv.Push(`{"poll":{"id":"1"}}`)
	g.run(g.channel())
	g.until(func() bool {
		return g.cursor == conversation.Cursor{Name: "telegram:7000001", Value: fmt.Sprint(id + 1)}
	})
	must(t, g.srv.WaitConfirmed(deadline(t)))
}

func TestOrderAndEveryMessageSurviveARestart(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	stop := g.run(g.channel())
	var want []string
	for i := range 250 {
		want = append(want, fmt.Sprint("message ", i))
		g.srv.Say(telegramtest.Private(ada), ada, want[i])
		if i == 120 {
			g.wait(1)
			must(t, stop())
			g.run(g.channel())
		}
	}
	if diff := cmp.Diff(want, texts(g.wait(250))); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if n := g.srv.Redeliver(0); n != 250 {
		t.Fatalf("%d redelivered", n)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if diff := cmp.Diff(want, texts(g.wait(250))); diff != "" {
		t.Fatalf("redelivery changed something: %s", diff)
	}
}

func TestUpdatesAreConfirmedOnlyWhenStored(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.full = 2
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.run(g.channel())
	g.until(func() bool { return g.full < 2 })
	if n := g.srv.Pending(); n != 1 {
		t.Fatalf("%d updates pending while the disk is full", n)
	}
	g.wait(1)
	must(t, g.srv.WaitConfirmed(deadline(t)))
	g.waitLog("msg=\"messages stored again\"")
	if n := g.logged("messages not stored"); n != 1 {
		t.Errorf("told %d times:\n%s", n, g.log.String())
	}
}

func TestStrangersGetSilenceAndAreLoggedOnce(t *testing.T) {
	t.Parallel()
	g, _ := newPairing(t)
	c := g.channel(func(cfg *telegram.Config) { cfg.Access, cfg.Allow = "allowlist", []string{"@ADA", "-1001"} })
	g.run(c)
	g.srv.Say(telegramtest.Private(bob), bob, "let me in")
	g.srv.Say(telegramtest.Private(bob), bob, "please")
	g.srv.Say(forum, bob, "@parley_bot please")
	g.srv.Say(group, bob, "@parley_bot in an allowed group")
	g.srv.Say(telegramtest.Private(ada), ada, "by name")
	want := []string{"in an allowed group", "by name"}
	if diff := cmp.Diff(want, texts(g.wait(2))); diff != "" {
		t.Fatal(diff)
	}
	if n := g.logged("id=43"); n != 1 || g.logged("name=Bob") != 1 {
		t.Errorf("the stranger is logged %d times:\n%s", n, g.log.String())
	}
	if len(g.srv.Sent()) != 0 {
		t.Error("a stranger got an answer")
	}
}

func TestCommandsAreRegistered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	must(t, g.srv.WaitCommands(deadline(t)))
	g.srv.Say(telegramtest.Private(ada), ada, "/new@parley_bot")
	g.wait(1)
	var got []map[string]string
	must(t, json.Unmarshal([]byte(g.srv.Commands()), &got))
	if diff := cmp.Diff([]map[string]string{{"command": "new", "description": "begin afresh"}}, got[:1]); diff != "" {
		t.Fatal(diff)
	}
}

func TestChannelStartsWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.Fail("getMe", telegramtest.BadGateway(), 1)
	g.srv.Fail("getUpdates", telegramtest.Drop(), 1)
	g.srv.Fail("setMyCommands", telegramtest.BadGateway(), 1)
	g.srv.Say(group, ada, "@parley_bot hello")
	g.run(g.channel())
	if diff := cmp.Diff([]string{"hello"}, texts(g.wait(1))); diff != "" {
		t.Fatal(diff)
	}
}

func TestAnotherPollerIsLoggedOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	conflict := telegramtest.Verdict{Code: 409, Description: "terminated by other getUpdates request; make sure that only one bot instance is running"}
	g.srv.Fail("getUpdates", conflict, 2)
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.run(g.channel())
	g.wait(1)
	g.waitLog("msg=\"updates received again\"")
	if n := g.logged("another program polls"); n != 1 {
		t.Errorf("told %d times:\n%s", n, g.log.String())
	}
}

func TestPollingResumesAfterAnotherPoller(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	must(t, g.srv.WaitPolling(deadline(t)))
	other := newGateway(t)
	other.srv = g.srv
	stop := other.run(other.channel())
	g.waitLog("another program polls")
	must(t, stop())
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.srv.Say(telegramtest.Private(ada), ada, "again")
	g.until(func() bool { return len(g.accepted) == 2 || len(other.wait(0)) == 2 })
}

func TestAWebhookIsExplainedAndLeftAlone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.SetWebhook("https://example.org/hook")
	g.run(g.channel())
	g.waitLog("deleteWebhook")
	g.srv.SetWebhook("")
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.wait(1)
	if g.srv.Calls("deleteWebhook") != 0 {
		t.Error("the webhook was deleted")
	}
}

func TestRunEndsAtOnceWithItsContext(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	stop := g.run(g.channel())
	must(t, g.srv.WaitPolling(deadline(t)))
	must(t, stop())
}

func TestTheTokenStaysOutOfLogsAndErrors(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.Fail("getMe", telegramtest.Drop(), 1)
	g.srv.Fail("getUpdates", telegramtest.Drop(), 1)
	g.srv.Fail("sendMessage", telegramtest.Drop(), 2) // the transport repeats nothing that it sent
	g.srv.AddChat(telegramtest.Private(ada))
	c := g.channel()
	g.run(c)
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.wait(1)
	_, err := c.Send(deadline(t), conversation.Delivery{Address: `{"chat":42}`}, partOf("hi"))
	if err == nil {
		t.Fatal("no error")
	}
	g.srv.Close()
	_, closed := c.Send(deadline(t), conversation.Delivery{Address: `{"chat":42}`}, partOf("hi"))
	_, wrong := telegram.New(telegram.Deps{Config: telegram.Config{Token: "7000001:telegramtest token-not-a-secret"}})
	for _, text := range []string{fmt.Sprint(err), fmt.Sprint(closed), fmt.Sprint(wrong), g.log.String()} {
		if strings.Contains(text, "not-a-secret") || text == "<nil>" {
			t.Errorf("the token is in %s", text)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*telegram.Config){
		"token":                   func(c *telegram.Config) { c.Token = "" },
		"api_url":                 func(c *telegram.Config) { c.APIURL = "ftp://x" },
		`access = "all"`:          func(c *telegram.Config) { c.Access = "all" },
		`allow has the entry "b"`: func(c *telegram.Config) { c.Allow = []string{"b"} },
		"send_rate = -1":          func(c *telegram.Config) { c.SendRate = -1 },
		"chat_rate = -1":          func(c *telegram.Config) { c.ChatRate = -1 },
	} {
		cfg := telegram.DefaultConfig()
		cfg.Token = telegramtest.Token
		change(&cfg)
		if _, err := telegram.New(telegram.Deps{Config: cfg, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %s, got %v", want, err)
		}
	}
}

// When the disk fails for a moment at the start, the channel tries again.
func TestStoreThatFailsAtTheStartIsRetried(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	var tries atomic.Int64
	cursor := func(ctx context.Context, name string) (string, error) {
		if tries.Add(1) == 1 {
			return "", errors.New("the disk failed")
		}
		return g.readCursor(ctx, name)
	}
	c, err := telegram.New(telegram.Deps{Config: g.config(), Cursor: cursor, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.run(c)()
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.wait(1)
}

// Health reports an outage and its end.
func TestHealthFollowsTheConnection(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	defer g.run(g.channel())()
	g.until(func() bool { return len(g.states) == 2 })
	g.srv.Fail("getUpdates", telegramtest.BadGateway(), 1)
	g.srv.Say(telegramtest.Private(ada), ada, "hello")
	g.until(func() bool { return len(g.states) == 3 })
	g.srv.Say(telegramtest.Private(ada), ada, "are you back?")
	want := []string{bots.Connecting, bots.Serving, bots.Interrupted, bots.Serving}
	g.until(func() bool { return slices.Equal(g.states, want) })
}
