package delivery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/dbdamage"
)

// Replies on a damaged database page can't be sent. Later ones are, once and in order, and so are those
// of other chats.
func TestSenderSkipsDamagedReplies(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	p := newOutboxHarness(t)
	const replies = 14
	for n := range replies {
		p.reply(7, fmt.Sprintf("%02d %s", n, strings.Repeat("marble ", 170)))
	}
	p.reply(8, "hello")
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
	pages := slices.DeleteFunc(dbdamage.Leaves(t, p.path, "outbox"), func(page dbdamage.Page) bool { return !page.Has("marble") || page.Has("hello") })
	if len(pages) < 3 {
		t.Fatalf("the replies have %d pages", len(pages))
	}
	dbdamage.Destroy(t, p.path, pages[len(pages)/2])
	p.open()
	var want []string
	due, err := p.store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: chatKey(7), Ready: true, Limit: replies})
	if err != nil || len(due) == 0 || len(due) >= replies {
		t.Fatalf("%d of %d replies can be read, %v", len(due), replies, err)
	}
	for _, d := range due {
		want = append(want, d.Text[:2])
	}
	_, stop := p.start()
	p.waitSent(len(due) + 1)
	stop()
	var got []string
	for _, m := range p.server.Sent() {
		if m.Chat == 7 {
			got = append(got, m.Text[:2])
		}
	}
	if !slices.Equal(got, want) || want[len(want)-1] != fmt.Sprintf("%02d", replies-1) {
		t.Errorf("the chat got the replies %q, want %q", got, want)
	}
}
