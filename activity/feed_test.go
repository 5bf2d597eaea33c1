package activity

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
)

const kitchen, garden = conversation.Key("web:kitchen"), conversation.Key("web:garden")

// news reports whether something is new, without waiting for it.
func news(w *Watch) bool {
	select {
	case <-w.C():
		return true
	default:
		return false
	}
}

func TestPageOpenedDuringAnAnswerShowsAllOfIt(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	f.Working(t.Context(), kitchen, 7, 7)
	f.Preview(kitchen, "It ra")
	f.Preview(kitchen, "It rains.")
	f.Tool(kitchen, ToolProgress{ID: "call_0", Name: "clock"})
	w := f.Watch(kitchen)
	defer w.Close()
	p, working := w.Now()
	if !working || p.Run != 7 || p.Text != "It rains." || len(p.Tools) != 1 || p.Tools[0].Done || p.Since.IsZero() {
		t.Errorf("under way: %+v, %t", p, working)
	}
}

// Models may use the same call IDs again in the next round.
func TestToolCallOfALaterRoundDoesNotChangeAnEarlierOne(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	f.Working(t.Context(), kitchen, 1, 1)
	first := ToolProgress{ID: "call_0", Name: "clock", Done: true, Took: time.Second}
	f.Tool(kitchen, ToolProgress{ID: "call_0", Name: "clock"})
	f.Tool(kitchen, first)
	second := ToolProgress{ID: "call_0", Name: "search"}
	f.Tool(kitchen, second)
	w := f.Watch(kitchen)
	defer w.Close()
	p, _ := w.Now()
	if diff := cmp.Diff([]ToolProgress{first, second}, p.Tools); diff != "" {
		t.Error(diff)
	}
	p.Tools[0].Name = "mine"
	if again, _ := w.Now(); again.Tools[0].Name != "clock" {
		t.Error("what one reader was given changes what others see")
	}
}

func TestSlowReaderGetsOneSignalForSeveralChanges(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	w := f.Watch(kitchen)
	defer w.Close()
	f.Working(t.Context(), kitchen, 1, 1)
	for i := range 10_000 {
		f.Preview(kitchen, fmt.Sprint("word ", i))
	}
	if !news(w) || news(w) {
		t.Error("the signals were not made one")
	}
	if p, _ := w.Now(); p.Text != "word 9999" {
		t.Errorf("it reads %q", p.Text)
	}
}

func TestACommittedRunIsNoLongerUnderWay(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	w := f.Watch(kitchen)
	defer w.Close()
	f.Working(t.Context(), kitchen, 1, 1)
	f.Committed(kitchen, 99) // a command's
	if _, working := w.Now(); !working {
		t.Error("another run's commit ended this one")
	}
	news(w)
	f.Committed(kitchen, 1)
	if _, working := w.Now(); working || !news(w) {
		t.Error("the reader sees the answer stored and under way at once")
	}
}

func TestARunThatIsGivenUpEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	w := f.Watch(kitchen)
	defer w.Close()
	first, endFirst := context.WithCancel(t.Context())
	f.Working(first, kitchen, 1, 1)
	second, endSecond := context.WithCancel(t.Context())
	f.Working(second, kitchen, 1, 1) // begun again
	endFirst()
	runtime.Gosched()
	if _, working := w.Now(); !working {
		t.Error("the end of the first one ended the second")
	}
	endSecond()
	for working := true; working; _, working = w.Now() {
		<-w.C()
	}
}

func TestWatchersOfAChannelSeeRunsOfItsSessions(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	web, all, other := f.WatchChannel("web"), f.WatchChannel(""), f.WatchChannel("telegram")
	for _, w := range []*Watch{web, all, other} {
		defer w.Close()
	}
	f.Changed(kitchen)
	if !news(web) || !news(all) || news(other) {
		t.Error("a change woke the wrong ones")
	}
	f.Working(t.Context(), garden, 1, 1)
	f.Working(t.Context(), kitchen, 2, 2)
	if !news(web) || !news(all) {
		t.Error("the begin of a run was not told")
	}
	f.Preview(kitchen, "word by word")
	if news(web) || news(all) {
		t.Error("a list of sessions is woken for every word")
	}
	if diff := cmp.Diff([]conversation.Key{garden, kitchen}, f.UnderWay("web")); diff != "" {
		t.Error(diff)
	}
	if keys := f.UnderWay("telegram"); len(keys) != 0 {
		t.Errorf("runs of another channel: %v", keys)
	}
}

func TestWatcherSeesItsOwnSessionOnly(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	w := f.Watch(garden)
	defer w.Close()
	f.Working(t.Context(), kitchen, 1, 1)
	f.Preview(kitchen, "a secret")
	f.Changed(kitchen)
	if p, working := w.Now(); working || p.Text != "" || news(w) {
		t.Errorf("the garden sees %+v", p)
	}
}

func TestFeedForgetsWatchersAndRunsThatEnded(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	ctx, end := context.WithCancel(t.Context())
	for i := range 1000 {
		key := conversation.Key(fmt.Sprint("web:", i))
		f.Changed(key)
		f.Preview(key, "of no run")
		f.Tool(key, ToolProgress{ID: "of no run"})
		w, wide := f.Watch(key), f.WatchChannel("web")
		f.Working(ctx, key, int64(i), int64(i))
		w.Close()
		w.Close()
		wide.Close()
	}
	if n := len(f.UnderWay("")); n != 1000 {
		t.Fatalf("%d runs are under way", n)
	}
	end()
	for len(f.UnderWay("")) > 0 {
		runtime.Gosched()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sessions) != 0 || len(f.wide) != 0 {
		t.Errorf("%d sessions and %d watchers are left", len(f.sessions), len(f.wide))
	}
}

// Fast and slow watchers come and go during runs in many sessions: each watcher that stays sees the end
// of every run.
func TestConcurrentWatchersSeeTheEndOfEveryRun(t *testing.T) {
	t.Parallel()
	const sessions, readers, words = 8, 125, 50
	f := NewFeed()
	var reading, talking sync.WaitGroup
	for n := range sessions {
		key := conversation.Key(fmt.Sprint("web:", n))
		for range readers {
			w := f.Watch(key)
			reading.Go(func() {
				defer w.Close()
				for range w.C() {
					if p, working := w.Now(); working && p.Text == "the end" {
						return
					}
				}
			})
		}
	}
	for n := range sessions {
		key := conversation.Key(fmt.Sprint("web:", n))
		talking.Go(func() {
			f.Working(t.Context(), key, 1, 1)
			for i := range words {
				f.Preview(key, fmt.Sprint("word ", i))
				f.Tool(key, ToolProgress{ID: fmt.Sprint(i / 2), Done: i%2 == 1})
				passing := f.Watch(key)
				passing.Now()
				passing.Close()
			}
			f.Preview(key, "the end")
		})
	}
	talking.Wait()
	reading.Wait()
}

// BenchmarkPreview measures the cost of publishing a word of an answer.
func BenchmarkPreview(b *testing.B) {
	for _, watchers := range []int{0, 1, 1000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			f := NewFeed()
			f.Working(b.Context(), kitchen, 1, 1)
			for range watchers {
				defer f.Watch(kitchen).Close()
			}
			for b.Loop() {
				f.Preview(kitchen, "the whole text so far")
			}
		})
	}
}

// A watcher need not read the store while only the progress of a run changes, and never misses a change
// of the store.
func TestWatchSaysWhetherTheStoreHasChanged(t *testing.T) {
	t.Parallel()
	feed := NewFeed()
	const key = conversation.Key("web:one")
	one, all := feed.Watch(key), feed.WatchChannel("web")
	defer one.Close()
	defer all.Close()
	expect := func(when string, want bool) {
		t.Helper()
		if got := one.Stored(); got != want {
			t.Errorf("%s: to be read is %t for who watches the session", when, got)
		}
		if got := all.Stored(); got != want {
			t.Errorf("%s: to be read is %t for who watches the channel", when, got)
		}
	}
	expect("at first", true)
	expect("when nothing has happened", false)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	feed.Working(ctx, key, 1, 1)
	expect("when a run begins", true)
	feed.Preview(key, "so far")
	expect("when it comes on", false)
	feed.Preview(key, "so far, and on")
	feed.Changed(key)
	feed.Preview(key, "so far, and on, and on")
	expect("when the store was changed meanwhile", true)
}
