package activity

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/cluster"
	"parley/conversation"
	"parley/internal/clock"
)

// Relay shares the feeds of the nodes of a cluster. Each node tells the others when the store holds something
// new of a session. A node on which somebody watches a session that another node may work asks all others for
// the progress of its runs, every ten seconds; the one that works it then sends each change of the progress, at most
// five times a second.
//
// A progress travels as a JSON text. Of a change only the bytes behind those that have stayed are sent, in numbered
// pieces. A node that misses one asks for the whole.
type Relay struct {
	feed *Feed
	node *cluster.Node
	log  *slog.Logger

	mu        sync.Mutex
	wake      chan struct{}                            // signals that due or wanted is not empty
	due       map[conversation.Key]bool                // sessions whose progress may have to be sent
	wanted    map[conversation.Key]bool                // sessions that are watched here since a moment ago
	followers map[conversation.Key]map[int64]*follower // by session and node: the nodes that have asked for the progress of a session
	heard     map[conversation.Key]*heard              // by session: the progress that another node sends
}

// The topics of notices.
const (
	changedTopic  = "changed"  // the store holds something new of the session in the body
	followTopic   = "follow"   // the sender wants the progress of sessions
	wholeTopic    = "whole"    // the sender has missed a piece of the session in the body
	progressTopic = "progress" // the body is a piece
)

const (
	relayPace   = 200 * time.Millisecond // time between two changes that are sent
	followEvery = 10 * time.Second
	followFor   = 25 * time.Second // time after which a node that has not asked again gets nothing more: two lost notices do no harm

	// refreshEvery is how long it takes those who watch a session to learn of what another node has stored if
	// the notice is lost.
	refreshEvery = 2 * time.Second

	maxFollowed = 2000 // bytes of the keys in one notice, each of which may take three times as many in JSON
)

// follower is a node that has asked for the progress of a session.
type follower struct {
	asked time.Time // when the node asked last
	heed  bool      // the node has asked since something was sent: it is sent something even if nothing has changed
	n     int64     // number of the latest piece
	sent  []byte    // the progress that the node has; nil = no run is under way
}

// heard is what this node has of the progress of a session on another one.
type heard struct {
	from int64     // ID of the node that sends the progress
	at   time.Time // when the latest piece came
	n    int64     // number of the latest piece
	text []byte    // the progress, encoded
}

// piece is a part of the change of a progress.
type piece struct {
	Session conversation.Key `json:"session"`
	N       int64            `json:"n"`              // number of the piece; 1 = the progress begins anew
	Keep    int              `json:"keep,omitempty"` // number of bytes of the earlier progress that stay
	Rest    []byte           `json:"rest,omitempty"` // the bytes that follow them
	More    bool             `json:"more,omitempty"` // the change goes on in the next piece
}

// shared is a progress as it travels. What changes often comes last.
type shared struct {
	Run, Through int64
	Since        time.Time
	Tools        []ToolProgress
	Earlier      []string
	Wait         Wait
	Thought      string
	Text         string
}

// NewRelay shares a feed with those of the other nodes, before it is used. Run does the work.
func NewRelay(feed *Feed, node *cluster.Node, log *slog.Logger) *Relay {
	r := &Relay{
		feed: feed, node: node, log: log, wake: make(chan struct{}, 1),
		due: map[conversation.Key]bool{}, wanted: map[conversation.Key]bool{},
		followers: map[conversation.Key]map[int64]*follower{}, heard: map[conversation.Key]*heard{},
	}
	feed.relay = r
	node.Subscribe(changedTopic, func(n cluster.Notice) {
		if key := conversation.Key(n.Body); feed.received(key) {
			r.want(key)
		}
	})
	node.Subscribe(followTopic, r.followed)
	node.Subscribe(wholeTopic, func(n cluster.Notice) { r.askedBy(n.From, conversation.Key(n.Body), true) })
	node.Subscribe(progressTopic, r.receive)
	return r
}

// Run sends and asks until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { clock.Every(ctx, followEvery, r.renew) })
	working.Go(func() { clock.Every(ctx, refreshEvery, r.refresh) })
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			r.send()
			return
		}
		_ = clock.Sleep(ctx, relayPace) // which only fails when ctx ends: then the rest is sent at once
		r.send()
		r.ask()
	}
}

func (r *Relay) publish(to int64, topic, body string) {
	var err error
	if to == 0 {
		err = r.node.Publish(topic, body)
	} else {
		err = r.node.Send(to, topic, body)
	}
	if err != nil {
		r.log.Warn("other nodes not told", "topic", topic, "error", err)
	}
}

// publishChange tells the other nodes that the store holds something new of a session.
func (r *Relay) publishChange(key conversation.Key) { r.publish(0, changedTopic, string(key)) }

// changed notes that the progress of a run on this node has changed.
func (r *Relay) changed(key conversation.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.followers[key]) > 0 {
		r.due[key] = true
		r.signal()
	}
}

// want notes that a session is watched on this node.
func (r *Relay) want(key conversation.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted[key] = true
	r.signal()
}

// signal wakes Run.
func (r *Relay) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// ask asks for the sessions that are wanted and still watched.
func (r *Relay) ask() {
	r.mu.Lock()
	wanted := r.wanted
	r.wanted = map[conversation.Key]bool{}
	r.mu.Unlock()
	if len(wanted) > 0 {
		r.follow(slices.DeleteFunc(r.feed.watched(), func(key conversation.Key) bool { return !wanted[key] }))
	}
}

// renew asks the other nodes for all sessions that are watched here, and forgets what other nodes have asked for too long ago.
func (r *Relay) renew() {
	r.follow(r.feed.watched())
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, list := range r.followers {
		for node, f := range list {
			if time.Since(f.asked) > followFor {
				delete(list, node)
			}
		}
		if len(list) == 0 {
			delete(r.followers, key)
		}
	}
}

// follow asks the other nodes for the progress of those sessions that this one does not work.
func (r *Relay) follow(keys []conversation.Key) {
	if len(r.node.Live()) < 2 {
		return
	}
	var list []conversation.Key
	size := 0
	flush := func() {
		if body, err := json.Marshal(list); err == nil && len(list) > 0 {
			r.publish(0, followTopic, string(body))
		}
		list, size = nil, 0
	}
	for _, key := range keys {
		if r.node.Owns(string(key)) {
			continue
		}
		if size+len(key) > maxFollowed {
			flush()
		}
		list, size = append(list, key), size+len(key)+4
	}
	flush()
}

// followed takes what another node asks for.
func (r *Relay) followed(n cluster.Notice) {
	var keys []conversation.Key
	if json.Unmarshal([]byte(n.Body), &keys) != nil {
		return // of another version
	}
	for _, key := range keys {
		r.askedBy(n.From, key, false)
	}
}

// askedBy notes that a node wants the progress of a session, with anew the whole.
func (r *Relay) askedBy(node int64, key conversation.Key, anew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.followers[key][node]
	if f == nil || anew {
		f = &follower{}
		if r.followers[key] == nil {
			r.followers[key] = map[int64]*follower{}
		}
		r.followers[key][node] = f
	}
	f.asked, f.heed = time.Now(), anew || len(f.sent) > 0
	r.due[key] = true
	r.signal()
}

// send sends what has changed.
func (r *Relay) send() {
	r.mu.Lock()
	due := r.due
	r.due = map[conversation.Key]bool{}
	r.mu.Unlock()
	for key := range due {
		text := r.textOf(key)
		r.mu.Lock()
		for node, f := range r.followers[key] {
			for _, p := range f.next(key, text) {
				body, err := json.Marshal(p)
				if err != nil {
					panic(err) // texts and numbers always have JSON
				}
				r.publish(node, progressTopic, string(body))
			}
		}
		r.mu.Unlock()
	}
}

// textOf returns the progress of the run under way on this node, nil for none.
func (r *Relay) textOf(key conversation.Key) []byte {
	p, working := r.feed.here(key)
	if !working {
		return nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the signs < and > are frequent in code
	if err := encoder.Encode(shared{p.Run, p.Through, p.Since, p.Tools, p.Earlier, p.Wait, p.Thought, p.Text}); err != nil {
		panic(err) // texts and numbers always have JSON
	}
	return text.Bytes()
}

// next returns the pieces that make a progress of what the follower has.
func (f *follower) next(key conversation.Key, text []byte) (list []piece) {
	if !f.heed && bytes.Equal(f.sent, text) {
		return nil
	}
	keep := commonPrefix(f.sent, text)
	f.sent, f.heed = text, false
	// In a notice, four characters stand for three bytes.
	room := max(cluster.MaxBody-200-7*len(key), 400) / 4 * 3
	for {
		f.n++
		n := min(room, len(text)-keep)
		p := piece{Session: key, N: f.n, Keep: keep, Rest: text[keep : keep+n]}
		keep += n
		p.More = keep < len(text)
		list = append(list, p)
		if !p.More {
			break
		}
	}
	if len(text) == 0 {
		f.n = 0 // the next run begins anew
	}
	return list
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// receive takes a piece from another node.
func (r *Relay) receive(n cluster.Notice) {
	var p piece
	if json.Unmarshal([]byte(n.Body), &p) != nil || !r.isAlive(n.From) {
		return
	}
	text, whole, ok := r.put(n.From, p)
	switch {
	case !ok:
		r.publish(n.From, wholeTopic, string(p.Session))
	case whole:
		r.show(p.Session, text)
	}
}

// put adds a piece of a notice to those that have come. With the last piece, whole is true, and text is the progress, or nil
// where the run has ended. ok is false when an earlier piece is missing.
func (r *Relay) put(from int64, p piece) (text []byte, whole, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.heard[p.Session]
	isEmpty := p.Keep == 0 && len(p.Rest) == 0 // the run is over
	if isEmpty && (h == nil || h.from != from) {
		return nil, false, true // another node works the session, or none
	}
	if p.N == 1 {
		h = &heard{from: from}
		r.heard[p.Session] = h
	}
	if h == nil || h.from != from || p.N != h.n+1 || p.Keep > len(h.text) {
		return nil, false, false
	}
	h.at, h.n, h.text = time.Now(), p.N, append(h.text[:p.Keep], p.Rest...)
	switch {
	case p.More:
		return nil, false, true
	case isEmpty:
		delete(r.heard, p.Session)
	}
	return slices.Clone(h.text), true, true
}

// show reports a progress to those who watch the session.
func (r *Relay) show(key conversation.Key, text []byte) {
	var p *Progress
	if len(text) > 0 {
		var s shared
		if json.Unmarshal(text, &s) != nil {
			return // of another version
		}
		p = &Progress{Run: s.Run, Through: s.Through, Since: s.Since, Tools: s.Tools, Earlier: s.Earlier, Wait: s.Wait, Thought: s.Thought, Text: s.Text}
	}
	if !r.feed.setElsewhere(key, p) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.heard, key) // if it is watched again, the whole is asked for
	}
}

// isAlive reports whether a node may work sessions.
func (r *Relay) isAlive(node int64) bool {
	return slices.ContainsFunc(r.node.Live(), func(m cluster.Member) bool { return m.ID == node })
}

// refresh has those who watch a session that another node may work read the store, and forgets the progress on
// nodes that are dead or silent.
func (r *Relay) refresh() {
	for _, key := range r.feed.watched() {
		if !r.node.Owns(string(key)) {
			r.feed.received(key)
		}
	}
	r.mu.Lock()
	var silent []conversation.Key
	for key, h := range r.heard {
		if time.Since(h.at) > followFor || !r.isAlive(h.from) {
			silent = append(silent, key)
			delete(r.heard, key)
		}
	}
	r.mu.Unlock()
	for _, key := range silent {
		r.feed.setElsewhere(key, nil)
	}
}
