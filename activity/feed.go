// Package activity publishes the progress of runs under way, to pages and
// programs that follow a session, and the outcomes of deliveries, to the metrics.
// It knows no channel and holds no history.
package activity

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"parley/conversation"
)

// Feed reports the runs under way and the changes of the store to its watches.
// Its methods never wait for a watch, and a session without a run and a watch
// takes no memory. It may be used from several goroutines at once.
type Feed struct {
	mu       sync.Mutex
	sessions map[conversation.Key]*live
	wide     map[*Watch]struct{} // watches of more than one session
	relay    *Relay              // nil: no other process shares the feed
}

// live is a session with a run under way or a watch.
type live struct {
	run       *Progress // the run under way in this process; nil: none
	elsewhere *Progress // the run under way in another process, as far as it is known here; nil: none
	watches   map[*Watch]struct{}
}

// Progress is the state of a run under way.
type Progress struct {
	Run     int64    // ID of the run: that of the first inbound that it took. The messages that it commits have it, too
	Through int64    // ID of the last inbound that the run took
	Wait    Wait     // the wait that Text tells of; the zero value if it tells of none
	Text    string   // the whole text so far of the model call under way, or of the latest one
	Thought string   // what the model has thought in this call
	Earlier []string // what the model has thought in earlier calls, which asked for tools; oldest first
	Tools   []ToolProgress
	Since   time.Time
}

// Wait is a wait for a model, or for one's turn, of which the text of a progress tells.
type Wait struct {
	Notice string    // what stands above the words in the text
	Words  string    // the words of the text without the time at their end
	Until  time.Time // end of the wait
}

// ToolProgress is a tool call of a run under way.
type ToolProgress struct {
	ID, Name  string
	Arguments string // JSON as the model wrote it, which may be broken
	Done      bool
	Error     string        // how the call failed; "" if it did not
	Took      time.Duration // 0 until the call has ended
}

// NewFeed returns a feed without runs.
func NewFeed() *Feed {
	return &Feed{sessions: map[conversation.Key]*live{}, wide: map[*Watch]struct{}{}}
}

// Takes reports whether the run answers an inbound of its session, given by its
// id, that no earlier run has settled.
func (p Progress) Takes(inbound int64) bool { return p.Run <= inbound && inbound <= p.Through }

// Working reports that a run has begun in a session. It lasts until Committed is
// called for it or ctx ends, and replaces the run before. The run has taken the
// inbound with the ids from run, which is its own id as well, to through.
func (f *Feed) Working(ctx context.Context, key conversation.Key, run, through int64) {
	p := &Progress{Run: run, Through: through, Since: time.Now()}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.live(key)
	s.run, s.elsewhere = p, nil
	f.changed(key, true)
	context.AfterFunc(ctx, func() { f.end(key, func(now *Progress) bool { return now == p }) })
}

// Thinking reports all that the model has thought so far in the call under way.
func (f *Feed) Thinking(key conversation.Key, text string) {
	f.progress(key, func(p *Progress) { p.Thought = text })
}

// Preview reports all of the text so far of the model call under way.
func (f *Feed) Preview(key conversation.Key, text string) {
	f.progress(key, func(p *Progress) { p.Text, p.Wait = text, Wait{} })
}

// Waiting reports a text that tells of a wait.
func (f *Feed) Waiting(key conversation.Key, text string, w Wait) {
	f.progress(key, func(p *Progress) { p.Text, p.Wait = text, w })
}

// Tool reports that a tool call has begun, or that the one under way with the
// same ID is done. The thought that led to it stays until the run is over.
func (f *Feed) Tool(key conversation.Key, call ToolProgress) {
	f.progress(key, func(p *Progress) {
		if p.Thought != "" {
			p.Earlier, p.Thought = append(p.Earlier, p.Thought), ""
		}
		i := slices.IndexFunc(p.Tools, func(t ToolProgress) bool { return t.ID == call.ID && !t.Done })
		if i < 0 {
			p.Tools = append(p.Tools, call)
		} else {
			p.Tools[i] = call
		}
	})
}

// Committed reports that a run is over and that the store holds its result. A
// reader sees the answer either under way or stored, never twice.
func (f *Feed) Committed(key conversation.Key, run int64) {
	f.end(key, func(now *Progress) bool { return now.Run == run })
	f.Changed(key)
}

// Changed reports that the store holds something new of a session.
func (f *Feed) Changed(key conversation.Key) {
	f.mu.Lock()
	f.signal(key, true)
	f.mu.Unlock()
	if f.relay != nil {
		f.relay.publishChange(key)
	}
}

// received is Changed for what another process has stored. It reports whether somebody here watches the session.
func (f *Feed) received(key conversation.Key) (watched bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signal(key, true)
	s := f.sessions[key]
	return s != nil && s.isWatched()
}

// watched returns the sessions that have a watch of their own while no run is under way in this process.
func (f *Feed) watched() []conversation.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []conversation.Key
	for key, s := range f.sessions {
		if s.isWatched() {
			keys = append(keys, key)
		}
	}
	return keys
}

// isWatched reports whether the session is among those that watched returns.
func (s *live) isWatched() bool { return s.run == nil && len(s.watches) > 0 }

// here returns the run under way in this process, if there is one.
func (f *Feed) here(key conversation.Key) (p Progress, working bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[key]; s != nil && s.run != nil {
		return s.run.clone(), true
	}
	return Progress{}, false
}

// setElsewhere reports the run under way in another process, nil for none. It counts while the session
// is watched and no run is under way in this one.
func (f *Feed) setElsewhere(key conversation.Key, p *Progress) (watched bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[key]
	if s == nil || !s.isWatched() {
		return false
	}
	before := s.elsewhere
	s.elsewhere = p
	f.signal(key, (before == nil) != (p == nil) || p != nil && before.Run != p.Run)
	return true
}

// UnderWay returns the keys of the sessions of a channel in which a run is under
// way, in order; "" means all channels. Of those in which another process works it knows the watched ones.
func (f *Feed) UnderWay(channel string) []conversation.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []conversation.Key
	for key, s := range f.sessions {
		if (s.run != nil || s.elsewhere != nil) && (channel == "" || key.Channel() == channel) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, cmp.Compare[conversation.Key])
	return keys
}

// live returns the state of a session, and adds it when there is none. The caller
// holds the lock.
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
		f.changed(key, false)
	}
}

// end removes the run under way if isMeant reports true for it.
func (f *Feed) end(key conversation.Key, isMeant func(*Progress) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[key]; s != nil && s.run != nil && isMeant(s.run) {
		s.run = nil
		f.changed(key, true)
		f.forget(key, s)
	}
}

// forget removes a session that has neither a run nor a watch.
func (f *Feed) forget(key conversation.Key, s *live) {
	if s.run == nil && len(s.watches) == 0 { // then nobody needs to know what happens elsewhere
		delete(f.sessions, key)
	}
}

// changed reports a change of the run under way in this process. The caller holds the lock.
func (f *Feed) changed(key conversation.Key, stored bool) {
	f.signal(key, stored)
	if f.relay != nil {
		f.relay.changed(key)
	}
}

// signal wakes the watches of a session, and with stored those of its channel
// too: the store may hold something new.
func (f *Feed) signal(key conversation.Key, stored bool) {
	if s := f.sessions[key]; s != nil {
		for w := range s.watches {
			w.wake(stored)
		}
	}
	if !stored {
		return
	}
	for w := range f.wide {
		if w.channel == "" || w.channel == key.Channel() {
			w.wake(stored)
		}
	}
}

// Watch wakes one reader when something is new. It holds one signal however much
// happens, so a slow reader delays nobody and misses nothing.
type Watch struct {
	feed    *Feed
	key     conversation.Key // "" for a watch of a channel
	channel string
	news    chan struct{}
	stored  bool // the store may hold something new
}

// Watch returns a watch of one session, until Close.
func (f *Feed) Watch(key conversation.Key) *Watch {
	w := &Watch{feed: f, key: key, news: make(chan struct{}, 1), stored: true}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.live(key)
	if s.watches == nil {
		s.watches = map[*Watch]struct{}{}
	}
	s.watches[w] = struct{}{}
	if f.relay != nil && s.run == nil {
		f.relay.want(key)
	}
	return w
}

// WatchChannel returns a watch of all sessions of a channel, "" for all channels,
// until Close. It is woken when the store holds something new and when runs begin
// and end, but not by their progress.
func (f *Feed) WatchChannel(channel string) *Watch {
	w := &Watch{feed: f, channel: channel, news: make(chan struct{}, 1), stored: true}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wide[w] = struct{}{}
	return w
}

// C returns the channel on which the watch is woken.
func (w *Watch) C() <-chan struct{} { return w.news }

// Stored reports whether, since the last call, the store may hold something new
// or a run has begun or ended. The first call returns true. A reader that is
// woken by the progress of a run need not read the store.
func (w *Watch) Stored() bool {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	was := w.stored
	w.stored = false
	return was
}

// wake sends the signal, unless one waits already. The caller holds the lock of
// the feed.
func (w *Watch) wake(stored bool) {
	w.stored = w.stored || stored
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Now returns the run under way in the session, if there is one. A reader calls
// it before it reads the store, and ignores the run when it finds it there.
func (w *Watch) Now() (p Progress, working bool) { return w.feed.Now(w.key) }

// Now returns the run under way in a session, if there is one.
func (f *Feed) Now(key conversation.Key) (p Progress, working bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch s := f.sessions[key]; {
	case s == nil:
	case s.run != nil:
		return s.run.clone(), true
	case s.elsewhere != nil:
		return s.elsewhere.clone(), true
	}
	return Progress{}, false
}

func (p *Progress) clone() Progress {
	clone := *p
	clone.Tools = slices.Clone(p.Tools)
	return clone
}

// Close ends the watch. It may be called more than once. A signal that was not
// taken stays in C.
func (w *Watch) Close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	delete(w.feed.wide, w)
	if s := w.feed.sessions[w.key]; s != nil {
		delete(s.watches, w)
		w.feed.forget(w.key, s)
	}
}
