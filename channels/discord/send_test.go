package discord

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/channels"
	"parley/channels/delivery"
	"parley/channels/discord/discordtest"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/internal/waittest"
)

func TestLongRepliesAreSeveralMessagesOrAFile(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	said := g.srv.Say(dm, ann, "tell me much")
	in := g.wait(1)[0]
	r.reply(t, in, strings.Repeat("A sentence of some words. ", 150))
	sent := g.srv.SentTo(dm)
	if len(sent) != 2 || sent[0].ReplyTo != said.ID || sent[1].ReplyTo != "" {
		t.Fatalf("%d messages: %+v", len(sent), sent)
	}
	g.srv.Say(dm, ann, "tell me a book")
	r.reply(t, g.wait(2)[1], strings.Repeat("A sentence of some words. ", 1500))
	book := g.srv.SentTo(dm)[2:]
	if len(book) != 1 || len(book[0].Files) != 1 || book[0].Files[0].Name != "reply.md" || len(book[0].Files[0].Data) < 30_000 {
		t.Fatalf("%+v", book)
	}
	if kind := book[0].Files[0].ContentType; kind != "text/markdown; charset=utf-8" {
		t.Errorf("the file is %q", kind)
	}
}

// Where the bot may not attach files, a long reply comes as messages, the first of which takes the place of the preview.
func TestLongReplyComesAsMessagesWhereFilesAreForbidden(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	g.srv.Deny(general, discordtest.AttachFiles)
	ann := g.srv.Person("Ann")
	r := g.run()
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" tell me a book")
	in := g.wait(1)[0]
	r.Preview(in.Key, in.ID, in.Address, "A sentence")
	waitShown(t, g, general, "A sentence"+previewMark)
	g.srv.Fail("PATCH /channels/{channel}/messages/{message}", discordtest.MissingPermissions, 1)
	g.srv.Advance(10 * time.Minute) // Discord does not know the nonce of the preview any more
	sent := g.sendAll(r, general, 7, g.commitPictures(in, strings.Repeat("A sentence of some words. ", 500)))
	text := ""
	for _, m := range sent {
		text += m.Content + " "
		if len(m.Files) > 0 || strings.Contains(m.Content, channels.ReplyNotice) {
			t.Errorf("%+v", m)
		}
	}
	if n := strings.Count(text, "A sentence of some words."); n != 500 {
		t.Errorf("%d sentences of 500 in %d messages", n, len(sent))
	}
}

// A channel is told of a reply that Discord does not take, and nothing is tried where the bot may not write.
func TestChannelIsToldOfARefusedReply(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	r := g.run()
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" hi")
	replies := g.commitPictures(g.wait(1)[0], "a bad word")
	g.srv.Refuse(general, discordtest.Verdict{Status: 400, Code: 200000, Message: "Message was blocked by automatic moderation"}, 1)
	sent := g.sendAll(r, general, 1, replies)
	if sent[0].Content != "⚠️ A reply could not be sent to this chat. The details are in the gateway's log." {
		t.Errorf("sent %q", sent[0].Content)
	}
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" hi again")
	replies = g.commitPictures(g.wait(2)[1], "an answer")
	g.srv.Refuse(general, discordtest.MissingPermissions, 1)
	if sent := g.sendAll(r, general, 1, replies); len(sent) != 1 {
		t.Errorf("sent %+v", sent)
	}
}

func TestModelCannotPingAnybody(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	role := g.srv.Role(discordtest.Guild{ID: general.Guild}, "Staff")
	r := g.run()
	said := g.srv.Say(general, ann, discordtest.Bot.Mention()+" call everybody")
	in := g.wait(1)[0]
	addr, err := parseAddress(in.Address)
	must(t, err)
	for i := range 1000 {
		text := fmt.Sprintf("@everyone @here %s %s %d", ann.Mention(), role.Mention(), i)
		addr.Source, addr.ReplyTo = fmt.Sprint(number(said.ID)+uint64(i)), "" // each an answer of its own
		d := conversation.Delivery{Address: addr.String(), Text: text}
		must(t, r.deliver(deadline(t), d))
	}
	sent := g.srv.SentTo(general)
	if len(sent) != 1000 {
		t.Fatalf("%d messages", len(sent))
	}
	for _, m := range sent {
		for _, v := range m.Versions {
			if v.AllowedMentions == nil || !v.Pinged.Nobody() {
				t.Fatalf("%q pings %+v by %s", v.Content, v.Pinged, v.AllowedMentions)
			}
		}
	}
}

// A reply that Discord took just before the process died is in the channel once, whether or not Discord
// still remembers its nonce.
func TestARepeatedReplyIsNotDoubled(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"at once": 0, "an hour later": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			general := g.srv.Channel(g.srv.Guild("Home"), "general")
			ann := g.srv.Person("Ann")
			r := g.run()
			g.srv.Say(general, ann, discordtest.Bot.Mention()+" hi")
			in := g.wait(1)[0]
			text := strings.Repeat("A sentence of some words. ", 150)
			d := conversation.Delivery{Key: in.Key, RunID: in.ID, Address: in.Address, Text: text}
			must(t, r.deliver(deadline(t), d))
			must(t, r.stop())
			g.srv.Advance(away)
			again := g.channel() // knows nothing of the first attempt
			must(t, running{Channel: again}.deliver(deadline(t), d))
			if sent := g.srv.SentTo(general); len(sent) != 2 {
				t.Errorf("%d messages, want the two parts once", len(sent))
			}
		})
	}
}

// When Discord has forgotten the nonce, the adapter looks for the reply in the channel. If Discord fails
// then, the adapter tries again, and does not conclude that there is none.
func TestARepeatedReplyIsNotDoubledWhenDiscordFails(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	r := g.run()
	g.srv.Say(dm, ann, "question")
	in := g.wait(1)[0]
	r.reply(t, in, "the answer")
	must(t, r.stop())
	g.srv.Advance(time.Hour)
	r = g.run()
	g.srv.Fail("GET /channels/{channel}/messages", discordtest.BadGateway(), 1)
	d := conversation.Delivery{Key: in.Key, RunID: in.ID, Address: in.Address, Text: "the answer"}
	for err := r.deliver(deadline(t), d); err != nil; err = r.deliver(deadline(t), d) { // as delivery does
		t.Log(err)
	}
	if sent := g.srv.SentTo(dm); len(sent) != 1 {
		t.Errorf("the answer is there %d times", len(sent))
	}
}

// The file of a long reply is posted once, also if the reply was sent again, and with the message that it
// belongs to.
func TestFileOfALongReplyIsPostedOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	r := g.runWithCommands()
	long := strings.Repeat("a line of a reply that is a file\n", 500)
	g.srv.Say(dm, ann, "write a book")
	book := g.wait(1)[0]
	r.reply(t, book, long)
	must(t, r.stop())
	g.srv.Advance(time.Hour)
	r = g.run()
	r.reply(t, book, long)
	if sent := g.srv.SentTo(dm); len(sent) != 1 || len(sent[0].Files) != 1 {
		t.Errorf("the book is there %d times, with %d files", len(sent), len(sent[0].Files))
	}

	used := g.slash(dm, ann, "history")
	r.reply(t, g.wait(2)[1], long, conversation.Action{Label: "Older", Command: "/history 5 5"})
	page, err := g.srv.WaitAnswers(deadline(t), used, 1)
	must(t, err)
	_, err = g.srv.Press(page[0], ann, "/history 5 5")
	must(t, err)
	r.reply(t, g.wait(3)[2], "a short page")
	if now, _ := g.srv.Message(page[0].ID); now.Content != "a short page" || len(now.Files) != 0 {
		t.Errorf("%q has %d files", now.Content, len(now.Files))
	}
}

func TestOneRateLimitedChannelDelaysNoOther(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	slow, quick := g.srv.Channel(home, "slow"), g.srv.Channel(home, "quick")
	ann := g.srv.Person("Ann")
	r := g.run()
	g.srv.Say(slow, ann, discordtest.Bot.Mention()+" slow")
	g.srv.Say(quick, ann, discordtest.Bot.Mention()+" quick")
	got := g.wait(2)
	g.srv.Refuse(slow, discordtest.TooMany(time.Hour), 1)
	err := r.deliver(deadline(t), conversation.Delivery{Address: got[0].Address, Text: "late"})
	var refused *channels.SendError
	if !errors.As(err, &refused) || refused.Permanent || refused.RetryAfter != time.Hour {
		t.Fatalf("got %v, want to come back in an hour", err)
	}
	r.reply(t, got[1], "at once")
	if sent := g.srv.SentTo(quick); len(sent) != 1 {
		t.Fatalf("%+v", sent)
	}
}

func TestRefusalsAreClassified(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		verdict   discordtest.Verdict
		permanent bool
	}{
		"no permission":  {discordtest.MissingPermissions, true},
		"no such place":  {discordtest.UnknownChannel, true},
		"bad gateway":    {discordtest.BadGateway(), false},
		"server error":   {discordtest.ServerError(), false},
		"no answer":      {discordtest.Drop(), false},
		"rejected token": {discordtest.Unauthorized, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			ann := g.srv.Person("Ann")
			dm := g.srv.DM(ann)
			said := g.srv.Say(dm, ann, "hi")
			g.srv.Refuse(dm, tt.verdict, 1)
			to := address{Channel: dm.ID, Source: said.ID, ReplyTo: said.ID}
			err := running{Channel: g.channel()}.deliver(deadline(t), conversation.Delivery{Address: to.String(), Text: "hello"})
			var refused *channels.SendError
			if !errors.As(err, &refused) || refused.Permanent != tt.permanent {
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "html") || strings.Contains(err.Error(), discordtest.Token) || strings.Contains(err.Error(), "/api/") {
				t.Errorf("the error says too much: %v", err)
			}
		})
	}
}

func TestReplyToADeletedMessageIsSent(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	said := g.srv.Say(dm, ann, "hi")
	in := g.wait(1)[0]
	g.srv.Delete(said)
	r.reply(t, in, "hello")
	if sent := g.srv.SentTo(dm); len(sent) != 1 || sent[0].ReplyTo != "" {
		t.Fatalf("%+v", sent)
	}
}

// When a moderator deletes a preview, the reply is posted all the same.
func TestReplyIsPostedWhenItsPreviewWasDeleted(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "hi")
	in := g.wait(1)[0]
	r.Preview(in.Key, in.ID, in.Address, "Hel")
	g.srv.Delete(waitShown(t, g, dm, "Hel"+previewMark))
	g.srv.Fail("PATCH /channels/{channel}/messages/{message}", discordtest.ServerError(), 1)
	d := conversation.Delivery{Key: in.Key, RunID: in.ID, Address: in.Address, Text: "Hello"}
	if err := r.deliver(deadline(t), d); err == nil {
		t.Fatal("the server's failure is not reported")
	}
	must(t, r.deliver(deadline(t), d))
	if sent := g.srv.SentTo(dm); len(sent) != 1 || sent[0].Content != "Hello" {
		t.Fatalf("%+v", sent)
	}
}

// Two people get the same reply, and the process dies between the two.
func TestEqualRepliesToTwoPeopleAreBothPosted(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	r := g.run()
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" one")
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" two")
	got := g.wait(2)
	r.reply(t, got[0], "Hello")
	must(t, r.stop())
	running{Channel: g.channel()}.reply(t, got[1], "Hello")
	if sent := g.srv.SentTo(general); len(sent) != 2 {
		t.Fatalf("%+v", sent)
	}
}

// Discord takes a reply but answers with an error. At the next attempt, Discord has forgotten the nonce.
func TestReplyThatDiscordTookWithAnErrorIsNotDoubled(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	r := g.run()
	g.srv.Say(dm, ann, "question")
	in := g.wait(1)[0]
	d := conversation.Delivery{Key: in.Key, RunID: in.ID, Address: in.Address, Text: "the answer"}
	g.srv.OnSend(nil, func(discordtest.Message) discordtest.Verdict { return discordtest.BadGateway() })
	if err := r.deliver(deadline(t), d); err == nil {
		t.Fatal("the error is not reported")
	}
	g.srv.Advance(time.Hour)
	d.Attempts++
	must(t, r.deliver(deadline(t), d))
	if sent := g.srv.SentTo(dm); len(sent) != 1 {
		t.Errorf("the answer is there %d times", len(sent))
	}
}

// While Discord fails on one reply although its connection works, the reply to a command is sent.
func TestReplyToACommandPassesAReplyThatDiscordFailsOn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	r := g.run()
	g.srv.Say(dm, ann, "question")
	g.srv.Say(dm, ann, "/status")
	g.until("a connection", func() bool { return slices.Contains(g.states, bots.Serving) })
	g.srv.OnSend(func(m discordtest.Message) discordtest.Verdict {
		if m.Content == "bad" {
			return discordtest.ServerError()
		}
		return discordtest.Verdict{}
	}, nil)
	sender := delivery.New(r.Channel, g.store, r.Log, delivery.WithPatience(time.Millisecond))
	flush, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		sender.Run(t.Context(), conversation.Scope{Channel: "discord"}, flush)
	}()
	for i, in := range g.wait(2) {
		committed, err := g.store.Commit(t.Context(), conversation.Run{
			Key: in.Key, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: []conversation.Inbound{in},
			Replies: []conversation.Delivery{{Key: in.Key, Address: in.Address, Text: []string{"bad", "the answer to a command"}[i]}},
		})
		must(t, err)
		sender.Enqueue(committed.Replies...)
	}
	sent, err := g.srv.WaitSentTo(deadline(t), dm, 1)
	must(t, err)
	if sent[0].Content != "the answer to a command" {
		t.Errorf("sent %q", sent[0].Content)
	}
	close(flush)
	waittest.Receive(t, done, "the end of the sender")
	if list, err := bots.New(g.store).Queues(t.Context()); err != nil || len(list) != 1 || list[0].Held != 1 {
		t.Errorf("the queues read %+v, %v", list, err)
	}
}
