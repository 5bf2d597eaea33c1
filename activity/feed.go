// Package activity is what goes on right now: the runs under way in the sessions,
// for pages and programs that follow them, and how deliveries end, for whoever
// counts them. It knows no channel, and it holds no history.
package activity

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"parley/conversation"
)

// Feed is what goes on in the sessions right now, for whoever watches. It holds
// no history: that is in the store. What the gateway tells it never waits for
// those who watch, and a session without a run and a watcher takes no memory.
type Feed struct {
	mu       sync.Mutex
	sessions map[conversation.Key]*live
	wide     map[*Watch]struct{} // those that watch more than one session
}

// live is a session in which a run is under way, or that somebody watches.
type live struct {
	run     *Progress // nil: none is under way
	watches map[*Watch]struct{}
}

// Progress is a run under way.
type Progress struct {
	Run     int64  // its id, which is that of the first inbound that it took: what it commits carries it
	Through int64  // id of the last inbound that it took
	Text    string // the whole text so far of the model call under way, or of the latest one
	Tools   []ToolProgress
	Since   time.Time
}

// ToolProgress is a tool call of a run under way.
type ToolProgress struct {
	ID, Name  string
	Arguments string // JSON as the model wrote it, which may be broken
	Done      bool
	Error     string        // how it failed, "" when it did not
	Took      time.Duration // 0 until it is done
}

// NewFeed makes a feed in which nothing goes on.
func NewFeed() *Feed {
	return &Feed{sessions: map[conversation.Key]*live{}, wide: map[*Watch]struct{}{}}
}

// Takes reports whether the run answers an inbound of its session, by the id of
// that, which no run has settled before.
func (p Progress) Takes(inbound int64) bool { return p.Run <= inbound && inbound <= p.Through }

// Working says that a run goes on in a session, until it is Committed or ctx
// ends. It has taken what waited from the inbound that it is numbered by through
// another. It takes the place of the run before.
func (f *Feed) Working(ctx context.Context, key conversation.Key, run, through int64) {
	p := &Progress{Run: run, Through: through, Since: time.Now()}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live(key).run = p
	f.signal(key, true)
	context.AfterFunc(ctx, func() { f.end(key, func(now *Progress) bool { return now == p }) })
}

// Preview shows the whole text so far of the model call under way.
func (f *Feed) Preview(key conversation.Key, text string) {
	f.progress(key, func(p *Progress) { p.Text = text })
}

// Tool says that a tool call has begun, or that the one of the same ID that is
// under way is done.
func (f *Feed) Tool(key conversation.Key, call ToolProgress) {
	f.progress(key, func(p *Progress) {
		i := slices.IndexFunc(p.Tools, func(t ToolProgress) bool { return t.ID == call.ID && !t.Done })
		if i < 0 {
			p.Tools = append(p.Tools, call)
		} else {
			p.Tools[i] = call
		}
	})
}

// Committed says that a run is over and that the store holds what came of it.
// It is what lets a reader see the answer either under way or stored, not twice.
func (f *Feed) Committed(key conversation.Key, run int64) {
	f.end(key, func(now *Progress) bool { return now.Run == run })
	f.Changed(key)
}

// Changed says that the store holds something new of a session.
func (f *Feed) Changed(key conversation.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signal(key, true)
}

// UnderWay gives the sessions of a channel in which a run goes on, in the order
// of their keys; "" means all channels.
func (f *Feed) UnderWay(channel string) []conversation.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []conversation.Key
	for key, s := range f.sessions {
		if s.run != nil && (channel == "" || key.Channel() == channel) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, cmp.Compare[conversation.Key])
	return keys
}

// live gives the state of a session, which is made when there is none. The
// caller holds the lock.
func (f *Feed) live(key conversation.Key) *live {
	s := f.sessions[key]
	if s == nil {
		s = &live{}
		f.sessions[key] = s
	}
	return s
}

// progress changes the run under way, if there is one.
func (f *Feed) progress(key conversation.Key, change func(*Progress)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[key]; s != nil && s.run != nil {
		change(s.run)
		f.signal(key, false)
	}
}

// end ends the run under way when it is the one that is meant.
func (f *Feed) end(key conversation.Key, meant func(*Progress) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[key]; s != nil && s.run != nil && meant(s.run) {
		s.run = nil
		f.signal(key, true)
		f.forget(key, s)
	}
}

// forget drops a session in which nothing goes on and that nobody watches.
func (f *Feed) forget(key conversation.Key, s *live) {
	if s.run == nil && len(s.watches) == 0 {
		delete(f.sessions, key)
	}
}

// signal wakes those that watch a session, and those of its channel when wide.
func (f *Feed) signal(key conversation.Key, wide bool) {
	if s := f.sessions[key]; s != nil {
		for w := range s.watches {
			w.wake(wide)
		}
	}
	if !wide {
		return
	}
	for w := range f.wide {
		if w.channel == "" || w.channel == key.Channel() {
			w.wake(wide)
		}
	}
}

// Watch tells one reader when to look again. It holds one signal however much
// happens, so that a slow reader costs nothing and misses nothing.
type Watch struct {
	feed    *Feed
	key     conversation.Key // "" of one that watches a channel
	channel string
	news    chan struct{}
	stored  bool // the store may hold something new
}

// Watch watches one session. Close ends it.
func (f *Feed) Watch(key conversation.Key) *Watch {
	w := &Watch{feed: f, key: key, news: make(chan struct{}, 1), stored: true}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.live(key)
	if s.watches == nil {
		s.watches = map[*Watch]struct{}{}
	}
	s.watches[w] = struct{}{}
	return w
}

// WatchChannel watches all sessions of a channel, "" those of all channels: what
// the store holds of them, and the beginning and end of runs, but not how these
// come on. Close ends it.
func (f *Feed) WatchChannel(channel string) *Watch {
	w := &Watch{feed: f, channel: channel, news: make(chan struct{}, 1), stored: true}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wide[w] = struct{}{}
	return w
}

// C gives a signal when something is new since the last one was taken.
func (w *Watch) C() <-chan struct{} { return w.news }

// Stored reports whether, since it was last asked, the store may have come to
// hold something new of what is watched, or a run has begun or ended there. It
// spares a reader the store while a run only comes on. The first time it is true.
func (w *Watch) Stored() bool {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	was := w.stored
	w.stored = false
	return was
}

// wake is called with the feed's lock.
func (w *Watch) wake(stored bool) {
	w.stored = w.stored || stored
	select {
	case w.news <- struct{}{}:
	default: // it is to look anyway
	}
}

// Now is the run under way in the session. A reader asks for it before it reads
// the store, and leaves it out when it finds the run there.
func (w *Watch) Now() (p Progress, working bool) {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	s := w.feed.sessions[w.key]
	if s == nil || s.run == nil {
		return Progress{}, false
	}
	p = *s.run
	p.Tools = slices.Clone(p.Tools)
	return p, true
}

// Close ends the watch; it may be called more than once. C gives no more
// signals, but for one that was not taken yet.
func (w *Watch) Close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	delete(w.feed.wide, w)
	if s := w.feed.sessions[w.key]; s != nil {
		delete(s.watches, w)
		w.feed.forget(w.key, s)
	}
}
