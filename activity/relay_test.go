package activity

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cluster/clustertest"
	"parley/conversation"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// relayed is the feed of a node.
type relayed struct {
	*Feed
	t *testing.T
}

func newRelayed(t *testing.T, url, name string) relayed {
	t.Helper()
	feed := NewFeed()
	relay := NewRelay(feed, clustertest.Join(t, url, name), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		relay.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return relayed{feed, t}
}

// knowEachOther waits until each of n nodes sees the others.
func (r relayed) knowEachOther(n int, others ...relayed) {
	r.t.Helper()
	for _, one := range append(others, r) {
		r.await("the nodes to know each other", func() bool { return len(one.relay.node.Live()) == n })
	}
}

func (r relayed) await(what string, happened func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(waittest.Patience); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatal("waited in vain for " + what)
		}
	}
}

func (r relayed) awaitText(w *Watch, text string) {
	r.t.Helper()
	r.await("the text", func() bool {
		p, working := w.Now()
		return working && p.Text == text
	})
}

const watchedSession = conversation.Key("web:chat")

// newWatched returns two nodes that know each other. Somebody watches a session on the first.
func newWatched(t *testing.T) (here, there relayed, watch *Watch) {
	t.Helper()
	url := clustertest.Database(t)
	here, there = newRelayed(t, url, "here"), newRelayed(t, url, "there")
	here.knowEachOther(2, there)
	watch = here.Watch(watchedSession)
	t.Cleanup(watch.Close)
	return here, there, watch
}

// A watcher of a session whose runs are on another node sees their progress, even if it is longer than a notice, and
// their end.
func TestProgressIsSeenOnOtherNodes(t *testing.T) {
	t.Parallel()
	here, there, watch := newWatched(t)
	running, end := context.WithCancel(t.Context())
	defer end()
	there.Working(running, watchedSession, 7, 9)
	there.Thinking(watchedSession, "Let me see.")
	there.Tool(watchedSession, ToolProgress{ID: "1", Name: "recall", Arguments: `{"q":"<x>"}`})
	there.Thinking(watchedSession, "I see.")
	there.Preview(watchedSession, "Hello")
	here.awaitText(watch, "Hello")
	if p, _ := watch.Now(); p.Run != 7 || p.Through != 9 || !slices.Equal(p.Earlier, []string{"Let me see."}) || p.Thought != "I see." || len(p.Tools) != 1 || p.Tools[0].Arguments != `{"q":"<x>"}` || p.Since.IsZero() {
		t.Errorf("%+v", p)
	}
	long := "Hello, " + strings.Repeat("wörld & \"<all>\"\n", 2000)
	there.Preview(watchedSession, long)
	here.awaitText(watch, long)
	there.Waiting(watchedSession, "Busy. Again in 5 s.", Wait{Words: "Busy. Again", Until: time.Now().Add(5 * time.Second)})
	here.awaitText(watch, "Busy. Again in 5 s.")
	if p, _ := watch.Now(); p.Wait.Words != "Busy. Again" || p.Wait.Until.IsZero() {
		t.Errorf("the wait is %+v", p.Wait)
	}
	there.Preview(watchedSession, "Another call.")
	here.awaitText(watch, "Another call.")
	if p, _ := watch.Now(); p.Wait != (Wait{}) {
		t.Errorf("the wait stays: %+v", p.Wait)
	}
	later := here.Watch(watchedSession)
	defer later.Close()
	here.awaitText(later, "Another call.")
	watch.Stored()
	there.Committed(watchedSession, 7)
	here.await("the end of the run", func() bool { _, working := watch.Now(); return !working })
	here.await("the reader to be told that the store holds something new", watch.Stored)
	there.Working(running, watchedSession, 10, 10)
	there.Preview(watchedSession, "The next run")
	here.awaitText(watch, "The next run")
}

// When a piece gets lost, the node requests the whole text.
func TestLostPieceIsRequestedAgain(t *testing.T) {
	t.Parallel()
	here, there, watch := newWatched(t)
	there.Working(t.Context(), watchedSession, 1, 1)
	there.Preview(watchedSession, "one")
	here.awaitText(watch, "one")
	here.relay.mu.Lock()
	here.relay.heard[watchedSession].n-- // as if the latest one had not come
	here.relay.mu.Unlock()
	there.Preview(watchedSession, "one two")
	here.awaitText(watch, "one two")
}

// When the node with a run is cut off, and another one resumes the run, the other one's text replaces the first one's.
func TestProgressOfADeadNodeIsForgotten(t *testing.T) {
	t.Parallel()
	url := clustertest.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	here, dies, goesOn := newRelayed(t, url, "here"), newRelayed(t, proxy.URL(), "dies"), newRelayed(t, url, "goes on")
	here.knowEachOther(3, dies, goesOn)
	watch := here.Watch(watchedSession)
	defer watch.Close()
	other := here.Watch("web:other")
	defer other.Close()
	dies.Working(t.Context(), watchedSession, 1, 1)
	dies.Preview(watchedSession, "half an ans")
	dies.Working(t.Context(), "web:other", 2, 2)
	dies.Preview("web:other", "forgotten")
	here.awaitText(watch, "half an ans")
	here.awaitText(other, "forgotten")
	proxy.Interrupt()
	goesOn.Working(t.Context(), watchedSession, 1, 1)
	goesOn.Preview(watchedSession, "half an answer, and")
	here.awaitText(watch, "half an answer, and")
	here.await("the end of what the dead node said", func() bool { _, working := other.Now(); return !working })
	if p, working := watch.Now(); !working || p.Text != "half an answer, and" {
		t.Errorf("%+v", p)
	}
}

// Pieces fit into a notice, whatever the text and the session's key are, and together make up the text.
func TestPiecesMakeUpTheText(t *testing.T) {
	t.Parallel()
	key := conversation.Key("api:" + strings.Repeat("\"<", 100))
	r := &Relay{heard: map[conversation.Key]*heard{}}
	f := &follower{}
	for i, text := range []string{"a", strings.Repeat("ü\"\n", 9000), strings.Repeat("ü\"\n", 5000) + "!", "", "b"} {
		pieces := f.next(key, []byte(text))
		for n, p := range pieces {
			got, whole, ok := r.put(5, p)
			if !ok || whole != (n == len(pieces)-1) || whole && string(got) != text {
				t.Fatalf("text %d, piece %d of %d: %t %t", i, n, len(pieces), whole, ok)
			}
			if size := len(fmt.Sprintf("%q", key))*3 + len(p.Rest)*4/3; size > 7000 {
				t.Errorf("piece %d of text %d has %d bytes", n, i, size)
			}
		}
		if more := f.next(key, []byte(text)); len(more) > 0 {
			t.Error("a known piece is sent again")
		}
	}
}
