// Package preview shows answers while the model writes them: at most one in each
// place, as a message that is edited at a pace which the platform takes. It knows no
// platform: an adapter posts and edits the messages.
//
// The ID of the message is stored with the run, so that the process that delivers the reply knows it. Only the process that has
// posted a message edits it, and turns it into the reply. Any other process removes it, since an edit that a paused process has
// under way may reach the platform at any later time.
package preview

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/channels"
	"parley/cluster"
	"parley/conversation"
)

const (
	life           = 15 * time.Minute // how long a preview may get no text before its run counts as dead
	requestTimeout = 15 * time.Second // time for one request, see Request
)

// Store stores which message shows the answer of a run.
type Store interface {
	Lock(key conversation.Key) (release func(), err error)
	Node() *cluster.Node
	Preview(ctx context.Context, run int64) (id string, err error)
	SetPreview(ctx context.Context, key conversation.Key, run int64, from, to string) error
}

// Config is what a Board needs of its adapter. A is the adapter's address. Only one goroutine at a time makes the requests
// of a preview.
type Config[A any] struct {
	// Every returns the pace of edits in the place of an address.
	Every func(to A) time.Duration

	// Post posts the message of a preview, and returns its ID, "" if there is none: the text shows nothing, or the
	// preview is no message. Post and Edit may wait for a rate limit until ctx ends, and make their requests with
	// Request(ctx). After a permanent *channels.SendError nothing more is shown of the answer; one with
	// RetryAfter delays the next call.
	Post func(ctx context.Context, p *Preview[A], text string) (id string, err error)

	// Edit makes the message of a preview read text. An error that is no *channels.SendError with Permanent or
	// RetryAfter means that the platform may still carry the edit out, unless it is that of ctx.
	Edit func(ctx context.Context, to A, id, text string) error

	// Remove deletes the message of a preview. A message that is gone, or can't be deleted, is no error.
	Remove func(ctx context.Context, to A, id string) error

	Store Store // nil: nothing is stored
	Log   *slog.Logger
}

// Preview is an answer that is being written.
type Preview[A any] struct {
	To   A     // where the reply goes
	Run  int64 // number of the run
	Anew bool  // another message that showed the answer was removed

	place  string
	key    conversation.Key
	id     string // ID of the message; "" = there is none. Only the goroutine may use it until it has ended
	unsure bool   // the platform may still carry out an edit, likewise
	stop   context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
	noted  chan struct{} // signals that text has changed
	hurry  chan struct{} // signals that text is to be shown without waiting for the pace

	// Guarded by Board.mu.
	text  string   // the newest text of the answer
	ended bool     // the goroutine shows nothing more
	taken bool     // the reply takes the place of the preview
	next  *note[A] // what the next run has written meanwhile; nil if it has written nothing
}

// note is a text to be shown in a place.
type note[A any] struct {
	key  conversation.Key
	run  int64
	to   A
	text string
}

// Board holds the previews that are under way, at most one in a place. Each is shown
// by a goroutine of its own. Nothing is shown before Open.
type Board[A any] struct {
	cfg Config[A]

	mu     sync.Mutex
	isOpen bool
	places map[string]*Preview[A]
	over   map[string]int64 // by place: the run of which nothing more is shown, until another one is shown there
}

// NewBoard returns a Board that is not open yet.
func NewBoard[A any](cfg Config[A]) *Board[A] {
	return &Board[A]{cfg: cfg, places: map[string]*Preview[A]{}, over: map[string]int64{}}
}

// Open lets the Board show answers. The returned function ends that and waits for the
// requests under way; Take still works afterwards.
func (b *Board[A]) Open() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isOpen = true
	return func() {
		b.mu.Lock()
		b.isOpen = false
		left := slices.Collect(maps.Values(b.places))
		b.mu.Unlock()
		for _, p := range left {
			p.stop()
		}
		for _, p := range left {
			<-p.done
		}
	}
}

// Note records the text so far of the answer that a session's run writes for a place. While the place
// shows the preview of another session, or a reply is being sent there, the newest text waits. The caller calls it for the next run
// of a session only when the earlier replies are sent. Note does not block.
func (b *Board[A]) Note(place string, key conversation.Key, run int64, to A, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if over, isOver := b.over[place]; !b.isOpen || isOver && over == run {
		return
	}
	n := note[A]{key, run, to, text}
	p := b.places[place]
	switch {
	case p == nil:
		b.begin(place, n)
	case p.Run == run && !p.taken && !p.ended:
		p.show(text)
	case p.ended && !p.taken, p.Run != run && p.key == key: // its run was ended, or another process works it
		p.stop()
		b.begin(place, n)
	default:
		p.next = &n
	}
}

// Hurry shows the newest text of a place without waiting for the pace. It does not block.
func (b *Board[A]) Hurry(place string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.places[place]; p != nil {
		select {
		case p.hurry <- struct{}{}:
		default:
		}
	}
}

// begin begins the preview of a place. The caller holds mu.
func (b *Board[A]) begin(place string, n note[A]) {
	ctx, stop := b.node().While(context.Background())
	p := &Preview[A]{
		To: n.to, Run: n.run, place: place, key: n.key, stop: stop,
		done: make(chan struct{}), noted: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
	}
	b.places[place] = p
	delete(b.over, place)
	p.show(n.text)
	go b.follow(ctx, p)
}

func (b *Board[A]) node() *cluster.Node {
	if b.cfg.Store == nil {
		return nil
	}
	return b.cfg.Store.Node()
}

func (p *Preview[A]) show(text string) {
	p.text = text
	select {
	case p.noted <- struct{}{}:
	default:
	}
}

// follow shows the newest text of a preview until it is stopped, or this node may no longer work its session.
func (b *Board[A]) follow(ctx context.Context, p *Preview[A]) {
	defer close(p.done)
	defer b.ended(p)
	wait := b.cfg.Every(p.To)
	for p.pause(ctx, wait) {
		select {
		case <-p.noted:
		case <-time.After(life):
			return
		case <-ctx.Done():
			return
		}
		select {
		case <-p.hurry: // the text that is shown next is the newest
		default:
		}
		wait = b.cfg.Every(p.To)
		err := b.show(ctx, p, b.newest(p))
		if err == nil || ctx.Err() != nil {
			continue
		}
		b.cfg.Log.Debug("preview not shown", "place", p.place, "error", err)
		var refused *channels.SendError
		if !errors.As(err, &refused) {
			continue
		}
		wait = max(wait, refused.RetryAfter)
		if refused.Permanent { // the message was deleted, or the bot may not write there: the reply finds out
			b.forbid(p)
			return
		}
	}
}

// show posts or edits the message of a preview.
func (b *Board[A]) show(ctx context.Context, p *Preview[A], text string) error {
	if p.id == "" {
		return b.post(ctx, p, text)
	}
	err := b.cfg.Edit(ctx, p.To, p.id, text)
	p.unsure = p.unsure || err != nil && !isAnswer(err) && !errors.Is(err, context.Canceled)
	return err
}

// isAnswer reports whether an error is the platform's refusal of a request.
func isAnswer(err error) bool {
	var refused *channels.SendError
	return errors.As(err, &refused) && (refused.Permanent || refused.RetryAfter > 0)
}

// post posts the message of a preview and stores its ID, while this process has the session's lock. It removes an earlier message
// of the run, such as one that another process has posted.
func (b *Board[A]) post(ctx context.Context, p *Preview[A], text string) error {
	if b.cfg.Store == nil {
		id, err := b.cfg.Post(ctx, p, text)
		p.id = id
		return err
	}
	release, err := b.cfg.Store.Lock(p.key)
	if err != nil {
		return err
	}
	defer release()
	former, err := b.cfg.Store.Preview(ctx, p.Run)
	if err != nil {
		return err
	}
	if former != "" {
		p.Anew = true
		if err := b.cfg.Remove(ctx, p.To, former); err != nil {
			return err
		}
	}
	id, err := b.cfg.Post(ctx, p, text)
	if err != nil || id == "" {
		return err
	}
	storing, cancel := Request(ctx)
	defer cancel()
	if err := b.cfg.Store.SetPreview(storing, p.key, p.Run, former, id); err != nil {
		return &channels.SendError{Permanent: true, Err: errors.Join(err, b.cfg.Remove(storing, p.To, id))}
	}
	p.id = id
	return nil
}

// pause waits until the preview may be shown again. It returns false when ctx has ended.
func (p *Preview[A]) pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-p.hurry:
		return true
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

func (b *Board[A]) newest(p *Preview[A]) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.text
}

// ended records that the goroutine of a preview shows nothing more, so that a text that waits is shown in its place.
func (b *Board[A]) ended(p *Preview[A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.ended = true
	p.stop()
	if b.isOpen && b.places[p.place] == p && !p.taken && p.next != nil {
		b.begin(p.place, *p.next)
	}
}

// forbid has nothing more shown of a preview's run.
func (b *Board[A]) forbid(p *Preview[A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over[p.place] = p.Run
}

// Take ends the preview of a delivery's run in a place once its request under way has ended, and returns the ID of its
// message, whose place the reply takes; "" for none. The caller removes the message stale, "" for none: another process has
// posted it, or the platform may still carry out an edit of it. The place is the reply's until Done, also for further
// attempts. The error is the end of ctx.
func (b *Board[A]) Take(ctx context.Context, place string, d conversation.Delivery) (id, stale string, err error) {
	b.mu.Lock()
	p := b.places[place]
	if p == nil || p.Run != d.RunID {
		b.mu.Unlock()
		return "", d.Preview, nil
	}
	p.taken = true
	if p.next != nil && p.next.run == p.Run {
		p.next = nil
	}
	b.mu.Unlock()
	p.stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
	switch {
	case p.unsure:
		return "", p.id, nil
	case d.Preview == p.id:
		return p.id, "", nil
	}
	return p.id, d.Preview, nil
}

// Done frees the place of a run's preview after its reply was sent or given up, so that a waiting text is
// shown there.
func (b *Board[A]) Done(place string, run int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[place]
	if p == nil || p.Run != run {
		return
	}
	delete(b.places, place)
	if p.next != nil && b.isOpen {
		b.begin(place, *p.next)
	}
}

// End is Done for a run of which nothing is to be shown any more, whatever it still writes.
func (b *Board[A]) End(place string, run int64) {
	b.mu.Lock()
	b.over[place] = run
	if p := b.places[place]; p != nil && p.next != nil && p.next.run == run {
		p.next = nil
	}
	b.mu.Unlock()
	b.Done(place, run)
}

// UnderWay returns the run whose preview is in a place, and where its reply goes, if the answer is still being written.
func (b *Board[A]) UnderWay(place string) (to A, run int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.places[place]; p != nil && !p.taken && !p.ended {
		return p.To, p.Run, true
	}
	return to, 0, false
}

// Request returns the context of a preview's request. It does not end with ctx, which
// ends when the reply comes: the platform may carry out a request that was given up,
// after that of the reply, and the beginning of the answer would take its place.
func Request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
}
