package agentloop

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/media"
	"parley/llm/llmtest"
)

// Alice's linked accounts: her session has these places.
const (
	alice = conversation.Key("user:alice")
	phone = conversation.Key("cli:phone")
	desk  = conversation.Key("cli:desk")
)

// from returns a message that Alice writes in one of her places.
func (h *harness) from(place conversation.Key, text string) conversation.Inbound {
	in := h.inbound(alice, text)
	in.Origin, in.Address = place, string(place)
	return in
}

// replies waits until n replies are due in Alice's session, and returns them.
func (h *harness) replies(n int) (list []string) {
	h.t.Helper()
	until(h.t, fmt.Sprint(n, " replies"), func() bool {
		due, err := h.store.Deliveries(h.t.Context(), conversation.DeliveryQuery{Key: alice, Ready: true, Limit: n + 1})
		if err != nil {
			h.t.Fatal(err)
		}
		list = nil
		for _, d := range due {
			list = append(list, d.Channel+" "+d.Address+": "+d.Text)
		}
		return len(due) >= n
	})
	return list
}

// Alice writes from two devices: each question is answered where it was asked, in order, and the
// assistant knows what was said on the other device. Messages that wait from both get separate
// replies, since a reply is shown on one device only.
func TestEachPlaceOfAPersonGetsTheAnswersToItsOwnQuestions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.end()
	if _, err := h.store.Accept(t.Context(), nil, h.from(phone, "p1"), h.from(phone, "p2"), h.from(desk, "d1"), h.from(phone, "p3"), h.from(phone, "/status"), h.from(desk, "d2")); err != nil {
		t.Fatal(err)
	}
	h.start()
	got := h.replies(5)
	got[3], _, _ = strings.Cut(got[3], "- **Model") // the answer to /status
	want := []string{"cli cli:phone: echo: p2", "cli cli:desk: echo: d1", "cli cli:phone: echo: p3", "cli cli:phone: ", "cli cli:desk: echo: d2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	history := []string{"user: p1", "user: p2", "assistant: echo: p2", "user: d1", "assistant: echo: d1", "user: p3", "assistant: echo: p3", "user: d2", "assistant: echo: d2"}
	if diff := cmp.Diff(history, h.history(alice)); diff != "" {
		t.Error(diff)
	}
}

// A question from one device, during the answer to another device, gets an answer of its own.
func TestQuestionFromAnotherPlaceDuringARunIsAnsweredThere(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		a := llmtest.Echo(c)
		if c.LastUser() == "p1" {
			a.Text, a.ChunkDelay = strings.Repeat("slow ", 8), 40*time.Millisecond
		}
		return a
	})
	h.accept(h.from(phone, "p1"))
	until(t, "the first words", func() bool { return h.preview(alice) != "" })
	h.accept(h.from(desk, "d1"), h.from(desk, "d2"))
	h.accept(h.from(phone, "p2"))
	want := []string{"cli cli:phone: " + strings.Repeat("slow ", 8), "cli cli:desk: echo: d2", "cli cli:phone: echo: p2"}
	if diff := cmp.Diff(want, h.replies(3)); diff != "" {
		t.Error(diff)
	}
}

// A /stop from the desk ends the run that the phone began. Both get a reply, and so does each place
// whose question it settled without an answer. The part of the answer that was written is shown where
// the question came from.
func TestStopFromOnePlaceEndsTheRunOfAnother(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "once upon a time", NoFinish: true, Silence: true}
	})
	h.accept(h.from(phone, "tell me a tale"))
	until(t, "the first words", func() bool { return strings.HasPrefix(h.preview(alice), "once upon") })
	h.accept(h.from("cli:tablet", "me too"))
	h.accept(h.from(desk, "/stop"))
	got := h.replies(3)
	if !strings.HasPrefix(got[0], "cli cli:phone: once upon a time") || !strings.HasSuffix(got[0], stopped) {
		t.Errorf("the phone got %q", got[0])
	}
	if diff := cmp.Diff([]string{"cli cli:tablet: " + stopped, "cli cli:desk: " + stopped}, got[1:]); diff != "" {
		t.Error(diff)
	}
}

// Messages from a place whose channel another process runs are left to that process, since this one
// can't send the reply.
func TestAPlaceOfAChannelThatDoesNotRunIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.accept(h.from("telegram:chat:1", "not ours"), h.from(desk, "ours"))
	if diff := cmp.Diff([]string{"cli cli:desk: echo: ours"}, h.replies(1)); diff != "" {
		t.Error(diff)
	}
	h.accept(h.from(desk, "/status"))
	h.replies(2)
	if list, err := h.store.Waiting(t.Context(), conversation.Scope{Channel: "telegram"}); err != nil || len(list) != 1 {
		t.Errorf("what waits for the other process: %+v, %v", list, err)
	}
}

// filesByChannel holds the files of each channel.
type filesByChannel map[string]channelFiles

func (b filesByChannel) Fetch(ctx context.Context, channel string, file media.Attachment) (io.ReadCloser, error) {
	return b[channel].Fetch(ctx, channel, file)
}

func TestFilesAreFetchedFromTheirOwnChannel(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Files = filesByChannel{"cli": {"notes": "buy milk"}} })
	h.accept(withFiles(h.from(desk, "see this"), media.Attachment{Name: "notes.txt", MediaType: "text/plain", Size: 8, Ref: "notes"}))
	h.replies(1)
	if !strings.Contains(h.asked(), "buy milk") {
		t.Errorf("the model was sent\n%s", h.asked())
	}
}

// When two bots share the session of a private chat, messages that wait for both get separate replies,
// each in the chat with its bot.
func TestARunAnswersTheMessagesOfOneBot(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.end()
	to := func(bot, text string) conversation.Inbound {
		in := h.from(phone, text)
		in.Account, in.Address = bot, bot
		return in
	}
	if _, err := h.store.Accept(t.Context(), nil, to("a", "1"), to("a", "2"), to("b", "3"), to("a", "4"), to("b", "/stop")); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.replies(2)
	var got []string
	due, err := h.store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: alice, Ready: true, Limit: 10})
	for _, d := range due {
		got = append(got, d.Account+" "+d.Address)
	}
	if diff := cmp.Diff([]string{"a a", "b b"}, got); diff != "" || err != nil { // both are told of the /stop
		t.Error(diff, err)
	}

	h.end()
	if _, err := h.store.Accept(t.Context(), nil, to("a", "5"), to("a", "6"), to("b", "7"), to("a", "8")); err != nil {
		t.Fatal(err)
	}
	h.start()
	want := []string{"cli b: echo: 7"}
	if replies := h.replies(5); !cmp.Equal(want, replies[3:4]) {
		t.Errorf("%q", replies)
	}
}
