package discord

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/channels/markdown"
	"parley/internal/clock"
	"parley/plaintext"
)

// previewEvery is the pace of edits. A channel takes 5 in 5 s, as bots find in
// the headers of https://discord.com/developers/docs/topics/rate-limits, and
// the reply itself needs one of them.
const previewEvery = 1500 * time.Millisecond

// previewLife is how long a preview waits for more text; after that its run is
// taken for dead.
const previewLife = 15 * time.Minute

// previews are the answers shown while they are written, at most one in a
// channel.
type previews struct {
	channel *Channel
	every   time.Duration

	mu     sync.Mutex
	ended  bool
	places map[string]*preview // by channel or thread
}

func newPreviews(c *Channel) *previews {
	return &previews{channel: c, every: previewEvery, places: map[string]*preview{}}
}

// preview is one answer that is being written. Only its goroutine posts and edits
// the message.
type preview struct {
	to    address
	stop  context.CancelFunc
	done  chan struct{} // closed when the goroutine has ended
	id    string        // of the message, "" when none was posted; read it after done
	text  string        // the newest, guarded by previews.mu
	noted chan struct{} // there is a newer text
}

// Preview shows the text so far, at a pace that leaves room for the reply.
// Answers to interactions show that the bot is thinking, and get no preview.
func (c *Channel) Preview(addr, text string) {
	to, err := parseAddress(addr)
	if err != nil || to.Answer != nil {
		return
	}
	c.previews.note(to, text)
}

func (ps *previews) note(to address, text string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.places[to.Channel]
	switch {
	case ps.ended:
		return
	case p == nil:
		ctx, stop := context.WithCancel(context.Background())
		p = &preview{to: to, stop: stop, done: make(chan struct{}), noted: make(chan struct{}, 1)}
		ps.places[to.Channel] = p
		go ps.run(ctx, p)
	case p.to.Source != to.Source:
		return // one at a time
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
	for clock.Sleep(ctx, ps.every) == nil {
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
		err := ps.show(ctx, p)
		if p.id != "" && isGone(err) { // somebody has deleted it: the reply is posted anew
			ps.channel.Log.Debug("preview gone, posting the reply anew", "channel_id", p.to.Channel, "error", err)
			time.AfterFunc(previewLife, func() { ps.forget(p) })
			return
		}
		if err != nil && ctx.Err() == nil {
			ps.channel.Log.Debug("preview not shown", "channel_id", p.to.Channel, "error", err)
			if err := clock.Sleep(ctx, refused(err).retryAfter); err != nil {
				return
			}
		}
	}
}

func (ps *previews) show(ctx context.Context, p *preview) error {
	ps.mu.Lock()
	text := p.text
	ps.mu.Unlock()
	shown, ok := previewOf(text)
	if !ok {
		return nil
	}
	m := newOutgoing(shown)
	if p.id != "" {
		return ps.channel.edit(ctx, p.to.Channel, p.id, m)
	}
	to, err := ps.channel.threads.open(ctx, ps.channel, p.to)
	if err != nil || to.Channel != p.to.Channel {
		return err
	}
	m.Nonce, m.Enforce = to.nonce(0), true
	if to.ReplyTo != "" {
		m.Reference = &replyTo{MessageID: to.ReplyTo}
	}
	posted, err := ps.channel.create(ctx, to.Channel, m)
	p.id = posted.ID
	return err
}

// maxPreview is how many bytes of an answer are rendered for its preview: more
// than a message holds.
const maxPreview = 16 << 10

// previewOf returns the beginning of a text as one message, with the mark.
func previewOf(text string) (string, bool) {
	if len(text) > maxPreview {
		text = text[:maxPreview]
	}
	texts := split(render(plaintext.Clean(text)), maxUnits-markdown.Units(markdown.UTF16).Count(previewMark))
	if len(texts) == 0 {
		return "", false
	}
	return texts[0] + previewMark, true
}

// take ends the preview that a reply replaces, and returns its message: the
// preview for the same source, or for an earlier one whose run was stopped.
func (ps *previews) take(ctx context.Context, to address) string {
	ps.mu.Lock()
	p := ps.places[to.Channel]
	if p == nil || number(p.to.Source) > number(to.Source) {
		ps.mu.Unlock()
		return ""
	}
	delete(ps.places, to.Channel)
	ps.mu.Unlock()
	p.stop()
	select {
	case <-p.done:
		return p.id
	case <-ctx.Done():
		return ""
	}
}

// putBack keeps the message of a preview for the next attempt, when the answer
// was not sent.
func (ps *previews) putBack(to address, id string) {
	p := &preview{to: to, stop: func() {}, done: make(chan struct{}), noted: make(chan struct{}, 1), id: id}
	close(p.done)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.places[to.Channel] == nil {
		ps.places[to.Channel] = p
	}
}

// isUnderWay reports whether a message may be the preview that is under way in a
// channel.
func (ps *previews) isUnderWay(m message, channel string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.places[channel]
	return p != nil && (m.Reference == nil || m.Reference.MessageID == p.to.ReplyTo)
}

func (ps *previews) forget(p *preview) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.places[p.to.Channel] == p {
		delete(ps.places, p.to.Channel)
	}
}

// end stops all previews and waits for them. Their messages can still be taken.
func (ps *previews) end() {
	ps.mu.Lock()
	ps.ended = true
	left := slices.Collect(maps.Values(ps.places))
	ps.mu.Unlock()
	for _, p := range left {
		p.stop()
	}
	for _, p := range left {
		<-p.done
	}
}
