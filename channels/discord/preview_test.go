package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/channels/discord/discordtest"
	"parley/conversation"
)

// waitShown waits until a place has a message with a text, and returns the message.
func waitShown(t *testing.T, g *gateway, place discordtest.Channel, text string) discordtest.Message {
	t.Helper()
	var found discordtest.Message
	must(t, g.srv.Wait(deadline(t), text, func() bool {
		for _, m := range g.srv.SentTo(place) {
			if m.Content == text {
				found = m
				return true
			}
		}
		return false
	}))
	return found
}

func TestAnswerIsShownInOneMessageWhileItIsWritten(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	said := g.srv.Say(dm, ann, "hi")
	in := g.wait(1)[0]
	r.Preview(in.Key, in.ID, in.Address, "Hel")
	shown := waitShown(t, g, dm, "Hel"+previewMark)
	r.Preview(in.Key, in.ID, in.Address, "Hello\n```go\nx")
	waitShown(t, g, dm, "Hello\n```go\nx\n```"+previewMark)
	r.reply(t, in, "Hello Ann")
	sent := g.srv.SentTo(dm)
	if len(sent) != 1 || sent[0].ID != shown.ID || sent[0].Content != "Hello Ann" || sent[0].ReplyTo != said.ID {
		t.Fatalf("%+v", sent)
	}
	for _, v := range sent[0].Versions {
		if !v.Pinged.Nobody() {
			t.Errorf("%q pings %+v", v.Content, v.Pinged)
		}
	}
}

func TestAtMostOnePreviewInAChannel(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	r := g.run()
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" one")
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" two")
	got := g.wait(2)
	r.Preview(got[0].Key, got[0].ID, got[0].Address, "first")
	waitShown(t, g, general, "first"+previewMark)
	r.Preview("discord:another", got[1].ID, got[1].Address, "second")
	r.reply(t, got[0], "first done")
	r.reply(t, got[1], "second done")
	sent := g.srv.SentTo(general)
	if len(sent) != 2 || len(sent[1].Versions) != 1 {
		t.Fatalf("%+v", sent)
	}
}

// When /stop ends a run, its preview stays, with the notice, as the only message of the answer.
func TestStoppedAnswerStaysInItsPreview(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "count")
	g.srv.Say(dm, ann, "/stop")
	got := g.wait(2)
	r.Preview(got[0].Key, got[0].ID, got[0].Address, "one two")
	waitShown(t, g, dm, "one two"+previewMark)
	r.replyOf(t, got[0], got[1], "one two three\n\n⏹ Stopped.")
	if sent := g.srv.SentTo(dm); len(sent) != 1 || sent[0].Content != "one two three\n\n⏹ Stopped." {
		t.Fatalf("%+v", sent)
	}
}

// When a run is stopped during a tool call, its reply does not have the text of its preview. The preview
// is removed, and the next answer has one again.
func TestPreviewIsRemovedWhenARunStopsDuringATool(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "what time is it")
	g.srv.Say(dm, ann, "/stop")
	got := g.wait(2)
	r.Preview(got[0].Key, got[0].ID, got[0].Address, "Let me look.")
	waitShown(t, g, dm, "Let me look."+previewMark)
	r.replyOf(t, got[0], got[1], "⏹ Stopped.")
	if sent := g.srv.SentTo(dm); len(sent) != 1 || sent[0].Content != "⏹ Stopped." {
		t.Fatalf("%+v", sent)
	}
	g.srv.Say(dm, ann, "and now")
	third := g.wait(3)[2]
	r.Preview(third.Key, third.ID, third.Address, "It is")
	waitShown(t, g, dm, "It is"+previewMark)
}

// The reply replaces its preview even if Discord has failed for longer than it remembers nonces.
func TestPreviewBecomesTheReplyAfterALongOutage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "question")
	in := g.wait(1)[0]
	r.Preview(in.Key, in.ID, in.Address, "half of an ans")
	waitShown(t, g, dm, "half of an ans"+previewMark)
	g.srv.Fail("PATCH /channels/{channel}/messages/{message}", discordtest.BadGateway(), 1)
	d := conversation.Delivery{Key: in.Key, RunID: in.ID, Address: in.Address, Text: "a whole answer"}
	if err := r.deliver(deadline(t), d); err == nil {
		t.Fatal("the outage was not noticed")
	}
	g.srv.Advance(time.Hour)
	must(t, r.deliver(deadline(t), d))
	if sent := g.srv.SentTo(dm); len(sent) != 1 || sent[0].Content != "a whole answer" {
		t.Fatalf("%+v", sent)
	}
}

// The next process removes the preview of a process that died when it answers another message.
func TestPreviewOfADeadProcessIsRemovedBeforeTheNextReply(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "one")
	first := g.wait(1)[0]
	r.Preview(first.Key, first.ID, first.Address, "half of an ans")
	waitShown(t, g, dm, "half of an ans"+previewMark)
	must(t, r.stop())
	g.srv.Say(dm, ann, "two")

	next := g.run()
	second := g.wait(2)[1]
	next.reply(t, second, "an answer to both")
	if sent := g.srv.SentTo(dm); len(sent) != 1 || sent[0].Content != "an answer to both" {
		t.Fatalf("%+v", sent)
	}
}

// The reply of the next process takes the place of a preview, whose message the earlier process might still edit.
func TestPreviewOfADeadProcessIsRemovedBeforeItsReply(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "one")
	first := g.wait(1)[0]
	r.Preview(first.Key, first.ID, first.Address, "half of an ans")
	shown := waitShown(t, g, dm, "half of an ans"+previewMark)
	must(t, r.stop())
	next := g.run()
	next.reply(t, first, "a whole answer")
	if sent := g.srv.SentTo(dm); len(sent) != 1 || sent[0].ID == shown.ID || sent[0].Content != "a whole answer" {
		t.Fatalf("%+v", sent)
	}
}

func TestDeletedPreviewIsNotEditedAgain(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]bool{"of Discord": false, "of a foreign server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGatewayWith(t, discordtest.Config{Foreign: foreign})
			r := g.run()
			ann := g.srv.Person("Ann")
			dm := g.srv.DM(ann)
			g.srv.Say(dm, ann, "hi")
			in := g.wait(1)[0]
			r.Preview(in.Key, in.ID, in.Address, "Hel")
			g.srv.Delete(waitShown(t, g, dm, "Hel"+previewMark))
			r.Preview(in.Key, in.ID, in.Address, "Hell")
			must(t, g.srv.Wait(deadline(t), "an edit", func() bool { return g.srv.Calls("PATCH /channels/{channel}/messages/{message}") == 1 }))
			r.Preview(in.Key, in.ID, in.Address, "Hello A")
			r.reply(t, in, "Hello Ann")
			if n := g.srv.Calls("PATCH /channels/{channel}/messages/{message}"); n > 2 {
				t.Errorf("the deleted preview was edited %d times, with the attempt of the reply", n)
			}
			if sent := g.srv.SentTo(dm); len(sent) != 1 || sent[0].Content != "Hello Ann" {
				t.Fatalf("%+v", sent)
			}
		})
	}
}

// slowEdits is a Discord whose edits take longer than the time that a reply waits for other requests.
type slowEdits struct {
	mu   sync.Mutex
	text string // of the message
}

func (s *slowEdits) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		return answerOf(req, "[]"), nil
	}
	var m struct{ Content string }
	if err := json.NewDecoder(req.Body).Decode(&m); err != nil {
		return nil, err
	}
	taken := make(chan struct{})
	go func() { // goes on if the gateway gives up: the request was sent
		defer close(taken)
		if req.Method == http.MethodPatch && isPreview(m.Content) {
			time.Sleep(10 * time.Second)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text = m.Content
	}()
	select {
	case <-taken:
		return answerOf(req, fmt.Sprintf(`{"id":"7","content":%q}`, m.Content)), nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

func answerOf(req *http.Request, body string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req}
}

func TestReplyComesAfterAnEditOfItsPreview(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Token = discordtest.Token
		c, err := New(Deps{Config: cfg, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		server := &slowEdits{}
		c.api.session.Client.Transport = server
		end := c.previews.Open()
		to := address{Channel: "1", Source: "2"}.String()
		c.Preview(dmKey("1"), 0, to, "a")
		time.Sleep(2 * time.Second)
		c.Preview(dmKey("1"), 0, to, "ab")
		time.Sleep(2 * time.Second) // the edit is under way
		d := conversation.Delivery{Address: to, Text: "abc"}
		_, err = c.Send(t.Context(), d, c.Split(d)[0])
		must(t, err)
		time.Sleep(time.Minute)
		end()
		server.mu.Lock()
		defer server.mu.Unlock()
		if server.text != "abc" {
			t.Errorf("the chat shows %q", server.text)
		}
	})
}

func TestHugePreviewsAreCut(t *testing.T) {
	t.Parallel()
	m, ok := previewOf(strings.Repeat("😀", 1<<20))
	if n := len([]rune(m.Content)); !ok || n > maxUnits {
		t.Errorf("%d characters, %v", n, ok)
	}
	if _, ok := previewOf(" \n "); ok {
		t.Error("an empty text has a preview")
	}
}

func TestTypingIsShownWhileARunGoesOn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "hi")
	in := g.wait(1)[0]
	ctx, done := context.WithCancel(t.Context())
	defer done()
	r.Typing(ctx, in.Address)
	must(t, g.srv.Wait(deadline(t), "typing", func() bool { return g.srv.Typing(dm) > 0 }))
}

// Somebody deletes a message while the bot shows a part of its answer, or how long the person has to wait. The bot's message is
// deleted, too. It does not become the reply to a later message, above which it stands.
func TestPreviewIsRemovedWhenItsMessageIsDeleted(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	said := g.srv.Say(dm, ann, "hi")
	in := g.wait(1)[0]
	r.Preview(in.Key, in.ID, in.Address, "⏳ Yours comes in 55 s.")
	waitShown(t, g, dm, "⏳ Yours comes in 55 s."+previewMark)
	g.srv.Delete(said)
	must(t, g.srv.Wait(deadline(t), "the removal", func() bool { return len(g.srv.SentTo(dm)) == 0 || g.srv.SentTo(dm)[0].Deleted }))
	next := g.srv.Say(dm, ann, "hello again")
	r.reply(t, g.wait(2)[1], "Hello Ann")
	sent := g.srv.SentTo(dm)
	if last := sent[len(sent)-1]; last.Content != "Hello Ann" || number(last.ID) < number(next.ID) || last.ReplyTo != next.ID {
		t.Errorf("sent %+v", sent)
	}
	r.reply(t, in, "an answer all the same")
	sent = g.srv.SentTo(dm)
	if last := sent[len(sent)-1]; last.Content != "an answer all the same" {
		t.Errorf("sent %+v", sent)
	}
}
