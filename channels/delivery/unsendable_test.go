package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/activity"
	"parley/channels"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/storetest"
)

// damage changes rows of the store in a way in which the gateway never does.
func (p *outboxHarness) damage(change string) {
	p.t.Helper()
	storetest.Exec(p.t, p.store, change)
}

// failed returns the texts of the deliveries that were given up, with the reasons.
func (p *outboxHarness) failed() (list []string) {
	p.t.Helper()
	all, err := p.store.Deliveries(p.t.Context(), conversation.DeliveryQuery{Failed: true, Limit: 100})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range all {
		list = append(list, fmt.Sprintf("%s (%d parts sent): %s", f.Text, len(f.Sent), f.Reason))
	}
	return list
}

// If a file can't be made, there is no second attempt: the chat is told.
func TestSenderTellsTheChatWhenAFileCantBeMade(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.export(1, "what about the mill?", "Here it is")
	p.commit(1, "next")
	p.damage(`UPDATE messages SET tool_calls = '{'`)
	p.start()
	sent := p.waitSent(2)
	if sent[0].Document != nil || !strings.Contains(sent[0].Text, "The file talk.md could not be made") || sent[1].Text != "next" {
		t.Errorf("sent %+v", sent)
	}
	p.waitNothingDue()
	if list := p.failed(); len(list) != 1 || !strings.Contains(list[0], "Here it is (0 parts sent): the reply can't be prepared") {
		t.Errorf("failed: %q", list)
	}
}

// An old version stored whatever date a platform gave.
func TestTranscriptOfMessagesWithImpossibleDatesIsSent(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.export(1, "what about the mill?", "Here it is")
	p.damage(`UPDATE messages SET created_at = 9223372036854775807`)
	p.damage(`UPDATE outbox SET transcript = replace(transcript, 'md', 'json') WHERE transcript IS NOT NULL`)
	p.start()
	if sent := p.waitSent(1); sent[0].Document == nil || !strings.Contains(sent[0].Document.Data, `"at":"9999-12-30T23:59:59.999Z"`) {
		t.Errorf("sent %+v", sent)
	}
}

// The notice about a reply that can't be prepared is sent at the platform's pace, and delays nothing if
// it is refused.
func TestNoticeOfALocalErrorIsRetriedLikeAnyReply(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		verdict telegramtest.Verdict
		times   int
		want    []string
	}{
		"asked to wait": {telegramtest.TooMany(1), 1, []string{"⚠️ The file talk.md could not be made. The details are in the gateway's log.", "next"}},
		"a bad gateway": {telegramtest.BadGateway(), 1, []string{"⚠️ The file talk.md could not be made. The details are in the gateway's log.", "next"}},
		"refused":       {telegramtest.Verdict{Code: 403, Description: "Forbidden"}, 1, []string{"next"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newOutboxHarness(t)
			p.export(1, "?", "Here it is")
			p.commit(1, "next")
			p.damage(`UPDATE messages SET tool_calls = '{'`)
			p.server.Refuse(1, tt.verdict, tt.times)
			p.start()
			p.waitNothingDue()
			var texts []string
			for _, m := range p.server.Sent() {
				texts = append(texts, m.Text)
			}
			if diff := cmp.Diff(tt.want, texts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// failingAtThirdPart is a platform whose adapter has a local error at the third part.
type failingAtThirdPart struct {
	*fakePlatform
	sent []string
}

func (l *failingAtThirdPart) Split(d conversation.Delivery) (parts []channels.Part) {
	for i, word := range strings.Fields(d.Text) {
		parts = append(parts, channels.Part{Index: i, Text: word, Plain: word})
	}
	return parts[:min(len(parts), 3)]
}

func (l *failingAtThirdPart) Send(_ context.Context, _ conversation.Delivery, p channels.Part) (string, error) {
	if p.Text == "three" {
		return "", &channels.LocalError{Words: "sorry", Err: errors.New("no")}
	}
	l.sent = append(l.sent, fmt.Sprint(p.Index, p.Text))
	return fmt.Sprint(len(l.sent)), nil
}

// Parts that were taken stay marked. A later attempt continues after them.
func TestPartsBeforeALocalErrorStayMarked(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.commit(1, "one two three")
	to := &failingAtThirdPart{fakePlatform: &fakePlatform{}}
	kinds := p.deliver(to)
	if diff := cmp.Diff([]string{"0one", "1two", "2sorry"}, to.sent); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{" (2 parts sent): the reply can't be prepared: no"}, p.failed()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]activity.OutcomeKind{activity.Failed}, kinds); diff != "" {
		t.Error(diff)
	}
}

// If the notice fails, too, as with an adapter that fails on every text, the reply is given up.
func TestReplyIsGivenUpWhenItsNoticeFailsToo(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.commit(1, "bad")
	if kinds := p.deliver(alwaysPanickingSink{}); len(kinds) != 1 || kinds[0] != activity.Failed {
		t.Errorf("outcomes %v", kinds)
	}
	if list := p.failed(); len(list) != 1 {
		t.Errorf("failed: %q", list)
	}
	if _, err := bots.New(p.store).Queues(t.Context()); err != nil {
		t.Error(err)
	}
}

// alwaysPanickingSink is a platform whose adapter panics over everything.
type alwaysPanickingSink struct{ *fakePlatform }

func (alwaysPanickingSink) Split(conversation.Delivery) []channels.Part { panic("a bug") }
