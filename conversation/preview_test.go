package conversation_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"parley/cluster"
	"parley/conversation"
	"parley/conversation/deferred"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
)

// The message that shows an answer belongs to its run and to the run's reply, until the reply is sent.
func TestPreviewIsStoredWithItsRun(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "hello"))
	run := storetest.Begin(t, s, storetest.Chat, 1000).Waiting[0].ID
	set := func(from, to string) error { return s.SetPreview(t.Context(), storetest.Chat, run, from, to) }
	if err := set("", "7"); err != nil {
		t.Fatal(err)
	}
	if err := set("", "8"); !errors.Is(err, conversation.ErrSettled) {
		t.Errorf("another process overwrites the preview: %v", err)
	}
	if got, err := s.Preview(t.Context(), run); err != nil || got != "7" {
		t.Errorf("the preview is %q: %v", got, err)
	}
	done, err := s.Commit(t.Context(), storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "hi"))
	if err != nil {
		t.Fatal(err)
	}
	expectPreviews(t, s, done, "7")
	if err := set("7", "8"); err != nil { // its request was under way when the run was stored
		t.Fatal(err)
	}
	due := expectPreviews(t, s, conversation.Committed{}, "8")
	due[0].Sent = []string{"9"}
	if err := s.Mark(t.Context(), due[0], conversation.MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	if err := set("8", "10"); !errors.Is(err, conversation.ErrSettled) {
		t.Errorf("a preview of a run whose reply is sent is stored: %v", err)
	}
}

// expectPreviews checks the previews of all deliveries that are due, and of those of a commit, and returns the former.
func expectPreviews(t *testing.T, s *conversation.Store, done conversation.Committed, want ...string) []conversation.Delivery {
	t.Helper()
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]conversation.Delivery{done.Replies, due} {
		var got []string
		for _, d := range list {
			got = append(got, d.Preview)
		}
		if len(list) > 0 && !slices.Equal(got, want) {
			t.Errorf("the previews are %q, want %q", got, want)
		}
	}
	return due
}

// A run that ends in several places has its preview in the first one. A later process can't tell the places apart, so it gets none.
func TestPreviewBelongsToTheFirstOfSeveralReplies(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "hello"))
	run := storetest.Begin(t, s, storetest.Chat, 1000).Waiting[0].ID
	if err := s.SetPreview(t.Context(), storetest.Chat, run, "", "7"); err != nil {
		t.Fatal(err)
	}
	turn := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "hi")
	turn.Replies = append(turn.Replies, conversation.Delivery{Address: "to", Text: "and more"})
	done, err := s.Commit(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	if len(done.Replies) != 2 || done.Replies[0].Preview != "7" || done.Replies[1].Preview != "" {
		t.Errorf("%+v", done.Replies)
	}
	expectPreviews(t, s, conversation.Committed{}, "", "")
}

// The notice that a message waits ends the preview of its run, also when it is not read from the store.
func TestNoticeOfADeferralBelongsToItsRun(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "hello"))
	run := storetest.Begin(t, s, storetest.Chat, 1000).Waiting[0].ID
	if err := s.SetPreview(t.Context(), storetest.Chat, run, "", "7"); err != nil {
		t.Fatal(err)
	}
	took := storetest.Begin(t, s, storetest.Chat, 1000).Waiting
	due, err := deferred.New(s).Add(t.Context(), deferred.Deferral{Key: storetest.Chat, Took: took, Notice: "later"})
	if err != nil || len(due) != 1 || due[0].RunID != run || due[0].Preview != "7" {
		t.Errorf("%+v, %v", due, err)
	}
}

// A node that has lost a session stores that the platform has taken a reply, unless the next owner has done so, but no preview.
func TestFormerOwnerMarksWhatThePlatformHasTaken(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	former, owner := openNode(t, url), openNode(t, url)
	const key = conversation.Key("api:1")
	storetest.Accept(t, former, storetest.Say(key, 1, "hello"))
	release, err := former.Lock(key)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	member, cancel := former.Node().While(t.Context())
	defer cancel()
	stale := context.WithoutCancel(member)
	turn := storetest.Answered(key, storetest.Begin(t, former, key, 1000), "hi")
	turn.Replies = append(turn.Replies, conversation.Delivery{Address: "to", Text: "and more"})
	done, err := former.Commit(member, turn)
	if err != nil {
		t.Fatal(err)
	}
	id := former.Node().ID()
	declareDead(t, url, id)
	if err := former.Node().Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	for former.Node().ID() == id && t.Context().Err() == nil {
		former.Node().CheckMembership()
	}
	take, err := owner.Lock(key)
	if err != nil {
		t.Fatal(err)
	}
	defer take()
	if err := former.SetPreview(stale, key, turn.ID(), "", "7"); !errors.Is(err, cluster.ErrLost) {
		t.Errorf("a preview is stored: %v", err)
	}
	working, end := owner.Node().While(t.Context())
	defer end()
	byOwner, byFormer := done.Replies[0], done.Replies[1]
	byOwner.Sent = []string{"1"}
	if err := owner.Mark(working, byOwner, conversation.MarkSent, ""); err != nil {
		t.Fatal(err)
	}
	for _, d := range []conversation.Delivery{byOwner, byFormer} {
		d.Sent = []string{"2"}
		if err := former.Mark(stale, d, conversation.MarkSent, ""); !errors.Is(err, cluster.ErrLost) {
			t.Errorf("a mark with the membership of before: %v", err)
		}
		if err := former.Mark(cluster.WithoutMembership(stale), d, conversation.MarkSent, ""); err != nil {
			t.Error(err)
		}
	}
	for sent, want := range map[string]int64{`["1"]`: 1, `["2"]`: 1} {
		if n := storetest.Count(t, owner, `SELECT count(*) FROM outbox WHERE state = 'sent' AND sent = '`+sent+`'`); n != want {
			t.Errorf("%d replies are the message %s", n, sent)
		}
	}
}
