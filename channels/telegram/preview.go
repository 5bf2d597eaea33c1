package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"parley/channels"
	"parley/channels/markdown"
	"parley/conversation"
	"parley/internal/clock"
	"parley/plaintext"
)

// The pace of edits, which count as messages: a chat takes one a second, a group 20 a
// minute, and the reply itself needs one of them.
const (
	previewEvery      = 1500 * time.Millisecond
	previewEveryGroup = 5 * time.Second
)

const (
	previewLife = 15 * time.Minute // how long a preview waits for more text; after that its run is taken for dead
	previewMark = " …"
	maxPreview  = 16 << 10 // bytes of an answer that are rendered for its preview: more than a message holds

	previewTimeout = 15 * time.Second // of one request
)

// previews are the answers shown while they are written, at most one in a chat or
// topic. Which messages they are is stored, so that the reply takes their place also
// in the next process.
type previews struct {
	channel *Channel

	mu     sync.Mutex
	isOpen bool // Run runs
	places map[address]*preview

	noting sync.Mutex       // held while the note is read or written
	shown  map[string]int64 // messages that show an answer, by place; nil: not read yet
}

// preview is one answer that is being written. Only its goroutine posts and edits the
// message.
type preview struct {
	to    address
	stop  context.CancelFunc
	done  chan struct{} // closed when the goroutine has ended
	id    int64         // of the message, 0 for none
	text  string        // the newest, guarded by previews.mu
	noted chan struct{} // there is a newer text
}

// Preview shows the text so far, at a pace that leaves room for the reply. An answer
// that takes the place of a list with buttons gets no preview.
func (c *Channel) Preview(addr, text string) {
	to, err := parseAddress(addr)
	if err != nil || to.Edit != 0 || c.migrations.currentID(to.Chat) != to.Chat {
		return
	}
	c.previews.note(to, text)
}

func (ps *previews) note(to address, text string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !ps.isOpen {
		return
	}
	p := ps.places[to.place()]
	if p == nil {
		ctx, stop := context.WithCancel(context.Background())
		p = &preview{to: to, stop: stop, done: make(chan struct{}), noted: make(chan struct{}, 1)}
		if ps.places == nil {
			ps.places = map[address]*preview{}
		}
		ps.places[to.place()] = p
		go ps.run(ctx, p)
	}
	p.text = text
	select {
	case p.noted <- struct{}{}:
	default:
	}
}

// run shows the newest text until the preview is stopped.
func (ps *previews) run(ctx context.Context, p *preview) {
	defer close(p.done)
	every := previewEvery
	if isGroup(p.to.Chat) {
		every = previewEveryGroup
	}
	for clock.Sleep(ctx, every) == nil {
		forgotten := time.NewTimer(previewLife)
		select {
		case <-p.noted:
		case <-forgotten.C:
			ps.forget(p)
			return
		case <-ctx.Done():
			return
		}
		forgotten.Stop()
		if err := ps.show(ctx, p); err != nil && ctx.Err() == nil {
			ps.channel.log.Debug("preview not shown", "chat", p.to.Chat, "error", err)
			if refused := refusal(err); refused != nil && refused.Code != http.StatusTooManyRequests {
				<-ctx.Done() // somebody has deleted it, or the bot may not write there: the reply finds out
				return
			}
		}
	}
}

// show posts or edits the message.
func (ps *previews) show(ctx context.Context, p *preview) error {
	c := ps.channel
	if c.pacer.blocked(p.to.Chat) > 0 {
		return nil
	}
	ps.mu.Lock()
	text := p.text
	ps.mu.Unlock()
	part, ok := c.previewOf(text)
	if !ok {
		return nil
	}
	if p.id == 0 { // one may be left of an earlier attempt at the same answer
		left, err := ps.left(ctx, p.to.place())
		if err != nil {
			return err
		}
		p.id = left
	}
	m := outgoing{address: p.to, part: part, markup: part.Text != part.Plain}
	m.Edit = p.id
	if err := c.pacer.wait(ctx, p.to.Chat); err != nil {
		return err
	}
	// A request that is under way is never cut short by stop: Telegram may carry it out
	// all the same, after the reply that take has let pass, and put the beginning of the
	// answer in the reply's place.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), previewTimeout)
	defer cancel()
	id, err := c.sendMessage(ctx, m)
	if refused := refusal(err); refused != nil && refused.Code == http.StatusTooManyRequests {
		c.pacer.block(p.to.Chat, max(minRetryAfter, time.Duration(refused.RetryAfter)*time.Second))
	}
	if err != nil || p.id != 0 {
		return err
	}
	if p.id, err = strconv.ParseInt(id, 10, 64); err != nil {
		return fmt.Errorf("the message has no id: %w", err)
	}
	return ps.keep(ctx, p.to.place(), p.id)
}

// previewOf returns the beginning of a text as one message, with the mark.
func (c *Channel) previewOf(text string) (channels.Part, bool) {
	if len(text) > maxPreview {
		text = text[:maxPreview]
	}
	part := c.renderer.parts(plaintext.Clean(text), 1)[0]
	if !markdown.Visible(part.Plain) || part.Plain == markdown.Nothing {
		return part, false
	}
	if markdown.Units(markdown.UTF16).Count(part.Plain+previewMark) <= maxUnits {
		part.Text += previewMark
		part.Plain += previewMark
	}
	return part, true
}

// take ends the preview of a place, and returns its message, 0 for none. It may be of
// an earlier process.
func (ps *previews) take(ctx context.Context, at address) (int64, error) {
	ps.mu.Lock()
	p := ps.places[at]
	delete(ps.places, at)
	ps.mu.Unlock()
	if p != nil {
		p.stop()
		select {
		case <-p.done:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if p.id != 0 {
			return p.id, nil
		}
	}
	return ps.left(ctx, at)
}

func (ps *previews) forget(p *preview) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.places[p.to.place()] == p {
		delete(ps.places, p.to.place())
	}
}

// open has answers shown from now on; the returned function ends that, and waits for
// what is being shown.
func (ps *previews) open() (end func()) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.isOpen = true
	return func() {
		ps.mu.Lock()
		ps.isOpen = false
		under := slices.Collect(maps.Values(ps.places))
		ps.mu.Unlock()
		for _, p := range under {
			p.stop()
			<-p.done
		}
	}
}

// left returns the message that shows an answer in a place, 0 for none.
func (ps *previews) left(ctx context.Context, at address) (int64, error) {
	ps.noting.Lock()
	defer ps.noting.Unlock()
	err := ps.read(ctx)
	return ps.shown[string(at.key())], err
}

// keep stores which message shows an answer in a place; 0 = none does any more.
func (ps *previews) keep(ctx context.Context, at address, id int64) error {
	ps.noting.Lock()
	defer ps.noting.Unlock()
	if err := ps.read(ctx); err != nil {
		return err
	}
	key := string(at.key())
	if ps.shown[key] == id {
		return nil
	}
	ps.shown[key] = id
	if id == 0 {
		delete(ps.shown, key)
	}
	raw, err := json.Marshal(ps.shown)
	if err != nil {
		panic(err) // texts and numbers always have JSON
	}
	return ps.channel.messages.SetCursor(ctx, conversation.Cursor{Name: ps.name(), Value: string(raw)})
}

// read reads what was stored, once.
func (ps *previews) read(ctx context.Context) error {
	if ps.shown != nil {
		return nil
	}
	value, err := ps.channel.cursor(ctx, ps.name())
	if err != nil && !conversation.IsDamaged(err) {
		return fmt.Errorf("previews: %w", err)
	}
	ps.shown = map[string]int64{}
	if value != "" && json.Unmarshal([]byte(value), &ps.shown) != nil {
		ps.shown = map[string]int64{}
	}
	return nil
}

func (ps *previews) name() string { return ps.channel.cursorName() + ":previews" }
