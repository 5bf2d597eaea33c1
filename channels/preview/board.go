// Package preview shows answers while the model writes them: at most one in each
// place, as a message that is edited at a pace which the platform takes. It knows no
// platform: an adapter posts and edits the messages.
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
	"parley/internal/clock"
)

const (
	life           = 15 * time.Minute // how long a preview may get no text before its run counts as dead
	requestTimeout = 15 * time.Second // time for one request of Show, see Request
)

// Config is what a Board needs of its adapter. A is the adapter's address.
type Config[A any] struct {
	// Every returns the pace of edits in the place of an address.
	Every func(to A) time.Duration

	// Show posts the message of a preview, or edits it, so that it reads text, and sets
	// the preview's ID. Only the preview's own goroutine calls it. It may wait for a rate
	// limit until ctx ends, and makes its requests with Request(ctx). After a permanent
	// *channels.SendError nothing more is shown of the answer; one with RetryAfter delays
	// the next call.
	Show func(ctx context.Context, p *Preview[A], text string) error

	Log *slog.Logger
}

// Preview is an answer that is being written.
type Preview[A any] struct {
	To A      // where the reply goes
	ID string // ID of the message that shows the answer; "" if there is none. Only Show may use it until Take has returned

	place string
	run   string
	stop  context.CancelFunc
	done  chan struct{} // closed when the goroutine has ended
	noted chan struct{} // signals that text has changed
	hurry chan struct{} // signals that text is to be shown without waiting for the pace

	// Guarded by Board.mu.
	text  string   // the newest text of the answer
	taken bool     // the reply takes the place of the preview
	next  *note[A] // what the next run has written meanwhile; nil if it has written nothing
}

// note is a text that waits until the place is free.
type note[A any] struct {
	run  string
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
	over   map[string]string // by place: the run that End was called for last, until another one is shown there
}

// NewBoard returns a Board that is not open yet.
func NewBoard[A any](cfg Config[A]) *Board[A] {
	return &Board[A]{cfg: cfg, places: map[string]*Preview[A]{}, over: map[string]string{}}
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

// Note records the text so far of the answer that a run writes for a place. run is any name that
// identifies the run. While the place shows the preview of another run, or a reply is being sent
// there, the newest text waits. Note does not block.
func (b *Board[A]) Note(place, run string, to A, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if over, isOver := b.over[place]; !b.isOpen || isOver && over == run {
		return
	}
	p := b.places[place]
	switch {
	case p == nil:
		b.begin(place, note[A]{run, to, text})
	case p.taken || p.run != run:
		p.next = &note[A]{run, to, text}
	default:
		p.show(text)
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
	ctx, stop := context.WithCancel(context.Background())
	p := &Preview[A]{To: n.to, place: place, run: n.run, stop: stop, done: make(chan struct{}), noted: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	b.places[place] = p
	delete(b.over, place)
	p.show(n.text)
	go b.follow(ctx, p)
}

func (p *Preview[A]) show(text string) {
	p.text = text
	select {
	case p.noted <- struct{}{}:
	default:
	}
}

// follow shows the newest text of a preview until it is stopped.
func (b *Board[A]) follow(ctx context.Context, p *Preview[A]) {
	defer close(p.done)
	wait := b.cfg.Every(p.To)
	for p.pause(ctx, wait) {
		select {
		case <-p.noted:
		case <-time.After(life):
			b.Done(p)
			return
		case <-ctx.Done():
			return
		}
		select {
		case <-p.hurry: // the text that is shown next is the newest
		default:
		}
		wait = b.cfg.Every(p.To)
		err := b.cfg.Show(ctx, p, b.newest(p))
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
			if clock.Sleep(ctx, life) == nil {
				b.Done(p)
			}
			return
		}
	}
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

// Take ends the preview of a place and returns it once its request under way has
// ended, so that the reply can take its message's place. It returns nil where there is
// none, or where replaced reports that the reply does not replace it. The place is the
// reply's until Done, also for further attempts. What waits there is dropped if over
// reports that its answer ends with this reply. The error is the end of ctx.
func (b *Board[A]) Take(ctx context.Context, place string, replaced, over func(to A) bool) (*Preview[A], error) {
	b.mu.Lock()
	p := b.places[place]
	if p == nil || !replaced(p.To) {
		b.mu.Unlock()
		return nil, nil
	}
	p.taken = true
	if p.next != nil && over(p.next.to) {
		p.next = nil
	}
	b.mu.Unlock()
	p.stop()
	select {
	case <-p.done:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Done frees the place of a preview after its reply was sent or given up, so that a waiting text is
// shown there. p may be nil.
func (b *Board[A]) Done(p *Preview[A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == nil || b.places[p.place] != p {
		return
	}
	delete(b.places, p.place)
	if p.next != nil && b.isOpen {
		b.begin(p.place, *p.next)
	}
}

// End is Done for a preview whose run is not to be shown any more, whatever it still writes.
func (b *Board[A]) End(p *Preview[A]) {
	b.mu.Lock()
	if p != nil {
		b.over[p.place] = p.run
		if p.next != nil && p.next.run == p.run {
			p.next = nil
		}
	}
	b.mu.Unlock()
	b.Done(p)
}

// UnderWay returns where the reply of the preview in a place goes, if one is written.
func (b *Board[A]) UnderWay(place string) (to A, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.places[place]; p != nil && !p.taken {
		return p.To, true
	}
	return to, false
}

// Request returns the context of a preview's request. It does not end with ctx, which
// ends when the reply comes: the platform may carry out a request that was given up,
// after that of the reply, and the beginning of the answer would take its place.
func Request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
}
