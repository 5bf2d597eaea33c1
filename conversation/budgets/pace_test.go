package budgets

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
)

// newPaces returns the paces of a store with two answers a minute, and messages that wait in it.
func newPaces(t *testing.T, path string, now *clock, messages int) (*Paces, []int64) {
	t.Helper()
	store := storetest.Open(t, path, conversation.Config{Now: now.now})
	const key = conversation.Key("telegram:chat:42")
	for i := range messages {
		storetest.Accept(t, store, storetest.Say(key, i+1, "Are you there?"))
	}
	waiting, err := store.Inbox(t.Context(), key, 100)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(waiting))
	for i, in := range waiting {
		ids[i] = in.ID
	}
	return OpenPaces(store, Config{MessagesPerMinute: 2}), ids
}

func wantWait(t *testing.T, p *Paces, person string, message int64, want time.Duration) {
	t.Helper()
	if now, wait, err := p.Take(t.Context(), person, message); err != nil || wait != want || (len(now) == 1) != (want == 0) {
		t.Errorf("message %d of %s waits %s, want %s: %v", message, person, wait, want, err)
	}
}

func TestPaceLimitsAnswersForEachPerson(t *testing.T) {
	t.Parallel()
	now := &clock{at: noon}
	p, ids := newPaces(t, filepath.Join(t.TempDir(), "test.db"), now, 6)
	const ann, bob = "telegram:1", "telegram:2"
	wantWait(t, p, ann, ids[0], 0)
	wantWait(t, p, ann, ids[1], 0)
	wantWait(t, p, ann, ids[2], 30*time.Second)
	now.set(noon.Add(10 * time.Second))
	wantWait(t, p, ann, ids[2], 20*time.Second)
	wantWait(t, p, bob, ids[3], 0)
	now.set(noon.Add(30 * time.Second))
	wantWait(t, p, ann, ids[2], 0)
	now.set(noon.Add(-time.Hour)) // the clock is set back
	wantWait(t, p, ann, ids[4], 30*time.Second)
	now.set(noon.Add(time.Hour))
	wantWait(t, p, ann, ids[4], 0)
	var rows int
	if err := p.db.QueryRowContext(t.Context(), `SELECT count(*) FROM paces`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d people are stored: %v", rows, err)
	}
}

// Messages that are answered together are counted each. They are as soon as there is room for all of them, or for a minute's.
func TestPaceCountsMessagesAndNotAnswers(t *testing.T) {
	t.Parallel()
	now := &clock{at: noon}
	p, ids := newPaces(t, filepath.Join(t.TempDir(), "test.db"), now, 7)
	take := func(messages []int64, want []int64, wantWait time.Duration) {
		t.Helper()
		if got, wait, err := p.Take(t.Context(), "telegram:1", messages...); err != nil || wait != wantWait || !slices.Equal(got, want) {
			t.Errorf("%d may be answered now, want %d; the others wait %s, want %s: %v", got, want, wait, wantWait, err)
		}
	}
	take(ids[:5], ids[:2], 0)
	take(ids[2:5], nil, time.Minute)
	take(ids[:3], ids[:2], 30*time.Second) // their run begins again with one more
	now.set(noon.Add(time.Minute))
	take(ids[2:5], ids[2:4], 0)
	now.set(noon.Add(90 * time.Second))
	take(ids[4:6], nil, 30*time.Second)
	take(ids[4:5], ids[4:5], 0)
}

// After a restart and in a second gateway, earlier answers count. A message whose run is repeated is not
// counted again.
func TestPaceCountsAnswersOfAllProcesses(t *testing.T) {
	t.Parallel()
	now := &clock{at: noon}
	path := filepath.Join(t.TempDir(), "test.db")
	first, ids := newPaces(t, path, now, 3)
	second, _ := newPaces(t, path, now, 0)
	wantWait(t, first, "telegram:1", ids[0], 0)
	wantWait(t, second, "telegram:1", ids[1], 0)
	wantWait(t, first, "telegram:1", ids[2], 30*time.Second)
	wantWait(t, second, "telegram:1", ids[2], 30*time.Second)
	wantWait(t, second, "telegram:1", ids[0], 0)
}

func TestNoLimitKeepsNoPace(t *testing.T) {
	t.Parallel()
	if p := OpenPaces(storetest.New(t), Config{PersonTokens: 1}); p != nil {
		t.Error("paces were opened without a limit")
	}
}

// Several nodes that begin runs of the same people at the same time give nobody more answers than one node.
func TestPaceCountsAnswersOfAllNodes(t *testing.T) {
	t.Parallel()
	const people, nodes = 12, 3
	url := postgrestest.Database(t)
	var paces []*Paces
	var ids []int64
	for i := range nodes {
		store, err := conversation.Open(t.Context(), conversation.Config{Path: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		paces = append(paces, OpenPaces(store, Config{MessagesPerMinute: 1}))
		key := conversation.Key(fmt.Sprint("telegram:chat:", i))
		for n := range people {
			in, err := store.Accept(t.Context(), nil, conversation.Inbound{Key: key, SourceID: fmt.Sprint(i, ":", n), Text: "Are you there?"})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, in[0].ID)
		}
	}
	for person := range people {
		var taken atomic.Int32
		var working sync.WaitGroup
		for i, p := range paces {
			working.Go(func() {
				_, wait, err := p.Take(t.Context(), fmt.Sprint("telegram:", person), ids[i*people+person])
				if err != nil {
					t.Error(err)
				}
				if wait == 0 {
					taken.Add(1)
				}
			})
		}
		working.Wait()
		if n := taken.Load(); n != 1 {
			t.Errorf("the person %d got %d answers", person, n)
		}
	}
}
