package conversation_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/retention"
	"parley/conversation/storetest"
)

// longDelivery returns a reply of 5 MB that is due.
func longDelivery(t testing.TB, s *conversation.Store) conversation.Delivery {
	t.Helper()
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "tell me everything"))
	done, err := s.Commit(t.Context(), storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), strings.Repeat("word ", 1_000_000)))
	if err != nil {
		t.Fatal(err)
	}
	return done.Replies[0]
}

// withoutCheckpoints empties the WAL, and lets it grow from now on.
func withoutCheckpoints(t testing.TB, s *conversation.Store) {
	t.Helper()
	err := s.DB().Read(t.Context(), func(ctx context.Context, conn *sql.Conn) error {
		if _, err := conn.ExecContext(ctx, `PRAGMA wal_autocheckpoint = 0`); err != nil {
			return err
		}
		var busy, frames, moved int
		err := conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved)
		if err == nil && busy != 0 {
			err = errors.New("the WAL can't be emptied")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func walBytes(t testing.TB, s *conversation.Store) int64 {
	t.Helper()
	info, err := os.Stat(s.Path() + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// markNext marks one further part, and returns the number of bytes that this wrote.
func markNext(t testing.TB, s *conversation.Store, d *conversation.Delivery) (bytes int64) {
	t.Helper()
	before := walBytes(t, s)
	d.Sent = append(d.Sent, fmt.Sprint(1000+len(d.Sent)))
	if err := s.Mark(t.Context(), *d, conversation.MarkPart, ""); err != nil {
		t.Fatal(err)
	}
	return walBytes(t, s) - before
}

// The cost of a mark does not depend on the length of the reply, nor on the number of parts before.
func TestMarkOfAPartWritesTheSameForTheFirstAndTheThousandth(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	s := storetest.New(t)
	d := longDelivery(t, s)
	storetest.Chores(t, s)
	withoutCheckpoints(t, s)
	first, last := markNext(t, s, &d), int64(0)
	for len(d.Sent) < 1000 {
		last = markNext(t, s, &d)
	}
	const pages = 4 * 4200 // a leaf, and the pages that its split changes
	if first == 0 || first > pages || last > pages {
		t.Errorf("the first mark writes %d bytes, the thousandth %d, want at most %d", first, last, pages)
	}
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 10})
	if err != nil || len(due) != 1 || !cmp.Equal(due[0].Sent, d.Sent) {
		t.Fatalf("%d parts are stored of the %d that were marked, %v", len(due[0].Sent), len(d.Sent), err)
	}
}

// A delivery that an earlier version has begun, which stored the ids in the delivery's row, continues after
// the parts that were sent.
func TestPartsMarkedByAnEarlierVersionAreNotSentAgain(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	d := longDelivery(t, s)
	err := s.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE outbox SET sent = '["1","2"]'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	stored := func() []string {
		t.Helper()
		due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 1})
		if err != nil || len(due) != 1 {
			t.Fatalf("%d due, %v", len(due), err)
		}
		return due[0].Sent
	}
	if diff := cmp.Diff([]string{"1", "2"}, stored()); diff != "" {
		t.Fatal(diff)
	}
	d.Sent = append(stored(), "3", "4") // the platform took both at once
	for range 2 {                       // the mark may be made twice
		if err := s.Mark(t.Context(), d, conversation.MarkPart, ""); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4"}, stored()); diff != "" {
		t.Error(diff)
	}
	if err := s.Mark(t.Context(), d, conversation.MarkFailed, "blocked"); err != nil {
		t.Fatal(err)
	}
	again, err := s.Redeliver(t.Context(), d.ID)
	if err != nil || !cmp.Equal(again.Sent, []string{"1", "2", "3", "4"}) {
		t.Errorf("sent again: %q, %v", again.Sent, err)
	}
	again.Sent = append(again.Sent, "5")
	if err := s.Mark(t.Context(), again, conversation.MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	if n := storetest.Count(t, s, `SELECT count(*) FROM outbox WHERE state = 'sent' AND text = ''`); n != 1 {
		t.Errorf("%d replies are sent", n)
	}
}

// A cleanup deletes the ids of parts with their delivery.
func TestPartsAreDeletedWithTheirDelivery(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	r := retention.New(s)
	storetest.TurnNow(t, s, clock, storetest.Chat, 1, "long")
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := due[0]
	d.Sent = []string{"1"}
	if err := s.Mark(t.Context(), d, conversation.MarkPart, ""); err != nil {
		t.Fatal(err)
	}
	d.Sent = append(d.Sent, "2")
	if err := s.Mark(t.Context(), d, conversation.MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	if n := storetest.Count(t, s, "SELECT count(*) FROM outbox_parts"); n != 2 {
		t.Fatalf("%d parts are stored", n)
	}
	clock.Pass(30 * day)
	storetest.TurnNow(t, s, clock, storetest.Chat, 2, "new")
	clean(t, r, retention.Rules{})
	if n := storetest.Count(t, s, "SELECT count(*) FROM outbox_parts"); n != 0 {
		t.Errorf("%d parts are left of a delivery that is deleted", n)
	}
}

// BenchmarkMarkPart marks the parts of a reply of 5 MB one after the other, from the
// first and from the thousandth on.
func BenchmarkMarkPart(b *testing.B) {
	for _, sent := range []int{0, 999} {
		b.Run(fmt.Sprintf("from part %d on", sent+1), func(b *testing.B) {
			s := storetest.New(b)
			d := longDelivery(b, s)
			storetest.Chores(b, s)
			for len(d.Sent) < sent {
				markNext(b, s, &d)
			}
			withoutCheckpoints(b, s)
			bytes, n := int64(0), 0
			for b.Loop() {
				bytes += markNext(b, s, &d)
				n++
			}
			b.ReportMetric(float64(bytes)/float64(n), "written-B/op")
		})
	}
}
