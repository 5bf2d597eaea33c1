package delivery_test

import (
	"testing"
	"time"

	"parley/conversation"
)

// The operator removes the cause of a refusal and has the reply sent again: it arrives once, although
// newer replies were sent before it.
func TestFailedReplyIsSentAgainOnRequest(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	sender, _ := p.start()
	in := conversation.Inbound{Key: chatKey(7), SourceID: "first", Address: `{"chat":7}`, Text: "?", At: time.Now()}
	if _, err := p.store.Accept(t.Context(), nil, in); err != nil {
		t.Fatal(err)
	}
	turn, err := p.store.Begin(t.Context(), in.Key, 100)
	if err != nil {
		t.Fatal(err)
	}
	done, err := p.store.Commit(t.Context(), conversation.Run{
		Key: in.Key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: "?"}, {Role: conversation.RoleAssistant, Content: "refused"}},
		Replies:  []conversation.Delivery{{Key: in.Key, Address: in.Address, Text: "refused"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	sender.Enqueue(done.Replies...)
	p.waitNothingDue()
	sender.Enqueue(p.reply(7, "newer")...) // makes the chat known
	p.waitSent(1)
	failed, err := p.store.Deliveries(t.Context(), conversation.DeliveryQuery{Failed: true, Limit: 5})
	if err != nil || len(failed) != 1 || failed[0].Text == "" {
		t.Fatalf("failed: %+v, %v", failed, err)
	}
	again, err := p.store.Redeliver(t.Context(), failed[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	sender.EnqueueDue(again.Key)
	if sent := p.waitSent(2); sent[1].Text != "refused" {
		t.Errorf("sent: %+v", sent)
	}
	p.waitNothingDue()
	if failed, _ := p.store.Deliveries(t.Context(), conversation.DeliveryQuery{Failed: true, Limit: 5}); len(failed) != 0 {
		t.Errorf("still failed: %+v", failed)
	}
}
