package telegram

import (
	"context"
	"sync"
	"time"

	"parley/internal/clock"

	"golang.org/x/time/rate"
)

// In groups Telegram takes 20 messages a minute. A burst of 5 and one more
// every 4 seconds never exceed that in any minute.
const (
	groupBurst = 5
	groupEvery = 4 * time.Second
)

// minSweep is how many chats are remembered before idle ones are dropped.
const minSweep = 256

// pacer delays messages so that Telegram does not have to refuse them.
type pacer struct {
	all            *rate.Limiter // nil: no limit
	sendRate       float64       // messages a second that the bot may send, over all nodes
	private, group func() *rate.Limiter

	mu      sync.Mutex
	chats   map[int64]*pace
	sweepAt int
}

// pace is the rate limit of one chat. pacer.mu guards its fields.
type pace struct {
	limiter *rate.Limiter // nil: no limit
	until   time.Time     // nothing is sent before this time, as Telegram has asked for
	waiting int           // number of senders that wait for this chat
}

func newPacer(sendRate, chatRate float64) *pacer {
	limiter := func(r float64, burst int) *rate.Limiter {
		if r == 0 {
			return nil
		}
		return rate.NewLimiter(rate.Limit(r), burst)
	}
	p := &pacer{
		all:      limiter(sendRate, burstOf(sendRate)),
		sendRate: sendRate,
		private:  func() *rate.Limiter { return limiter(chatRate, 1) },
		chats:    map[int64]*pace{},
		sweepAt:  minSweep,
	}
	p.group = p.private
	if chatRate == defaultChatRate {
		p.group = func() *rate.Limiter { return rate.NewLimiter(rate.Every(groupEvery), groupBurst) }
	}
	return p
}

// burstOf returns how many messages of a rate may be sent at once.
func burstOf(sendRate float64) int { return max(1, int(sendRate/10)) }

// share leaves the other nodes that send for the bot their part of the limit of all chats.
func (p *pacer) share(nodes int) {
	if p.all == nil {
		return
	}
	mine := p.sendRate / float64(max(1, nodes))
	p.all.SetLimit(rate.Limit(mine))
	p.all.SetBurst(burstOf(mine))
}

// wait returns when a message may be sent to the chat. It waits for the limit of the chat
// first and then for that of the bot, so that a waiting chat does not use up the limit of
// the others.
func (p *pacer) wait(ctx context.Context, chat int64) error {
	pace := p.enter(chat)
	defer p.leave(chat, pace)
	for {
		if err := clock.Sleep(ctx, p.blocked(chat)); err != nil {
			return err
		}
		for _, l := range []*rate.Limiter{pace.limiter, p.all} {
			if l == nil {
				continue
			}
			if err := l.Wait(ctx); err != nil {
				return err
			}
		}
		if p.blocked(chat) <= 0 {
			return nil
		}
	}
}

// block stops all messages to the chat for a while.
func (p *pacer) block(chat int64, d time.Duration) {
	pace := p.enter(chat)
	defer p.leave(chat, pace)
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(pace.until) {
		pace.until = until
	}
}

// blocked returns for how long nothing may be sent to the chat; it is not
// positive when messages may be sent.
func (p *pacer) blocked(chat int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	pace := p.chats[chat]
	if pace == nil || pace.until.IsZero() {
		return 0
	}
	return time.Until(pace.until)
}

func (p *pacer) enter(chat int64) *pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.chats[chat]
	if c == nil {
		make := p.private
		if isGroup(chat) {
			make = p.group
		}
		c = &pace{limiter: make()}
		p.chats[chat] = c
	}
	c.waiting++
	return c
}

// leave removes the state of a chat that is no longer needed. Whenever the number of chats has
// doubled, it removes the state of all idle ones.
func (p *pacer) leave(chat int64, c *pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.waiting--
	now := time.Now()
	if c.idle(now) {
		delete(p.chats, chat)
	}
	if len(p.chats) < p.sweepAt {
		return
	}
	for id, c := range p.chats {
		if c.idle(now) {
			delete(p.chats, id)
		}
	}
	p.sweepAt = max(minSweep, 2*len(p.chats))
}

func (c *pace) idle(now time.Time) bool {
	full := c.limiter == nil || c.limiter.TokensAt(now) >= float64(c.limiter.Burst())
	return c.waiting == 0 && full && now.After(c.until)
}

// isGroup reports whether a chat is a group.
// https://core.telegram.org/bots/api#chat does not promise it, but the ids of
// groups have always been negative.
func isGroup(chat int64) bool { return chat < 0 }
