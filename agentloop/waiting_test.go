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

// alice has one session over these places.
const (
	alice = conversation.Key("user:alice")
	phone = conversation.Key("cli:phone")
	desk  = conversation.Key("cli:desk")
)

// from is a message of alice's from one of her places, which is its address too.
func (h *harness) from(place conversation.Key, text string) conversation.Inbound {
	in := h.inbound(alice, text)
	in.Origin, in.Address = place, string(place)
	return in
}

// replies waits until so many are due in alice's session.
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

// One talk over two devices: each question is answered where it was asked, in
// order, and the assistant knows what was said on the other device. What waits
// from both at once makes no reply that only one of them sees.
func TestEachPlaceOfAPersonGetsItsOwnAnswers(t *testing.T) {
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

// What is asked on one device while the answer for another is being written
// waits for an answer of its own.
func TestAQuestionFromElsewhereDuringARunIsAnsweredThere(t *testing.T) {
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

// /stop on the desk ends what the phone asked for. Both are told, and so is
// whoever's question it settled unanswered; what was written is shown where it
// was asked for.
func TestStopFromOneDeviceEndsTheRunOfAnother(t *testing.T) {
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

// Another process runs the channel of one of the places. What comes from there
// is that one's to answer: this one has no way to send the reply.
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

// branches are where each channel keeps its files.
type branches map[string]shelf

func (b branches) Fetch(ctx context.Context, channel string, file media.Attachment) (io.ReadCloser, error) {
	return b[channel].Fetch(ctx, channel, file)
}

func TestFilesAreFetchedFromTheChannelThatTheyCameBy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Files = branches{"cli": {"notes": "buy milk"}} })
	h.accept(filed(h.from(desk, "see this"), media.Attachment{Name: "notes.txt", MediaType: "text/plain", Size: 8, Ref: "notes"}))
	h.replies(1)
	if !strings.Contains(h.asked(), "buy milk") {
		t.Errorf("the model was sent\n%s", h.asked())
	}
}

// Two bots share the session of a private chat: what waits for both at once makes
// no reply that the person sees only in the chat with one of them.
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
