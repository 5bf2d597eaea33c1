package telegram

import (
	"context"
	"strconv"
	"sync"
	"time"

	"parley/channels/markdown"
	"parley/conversation"
	"parley/conversation/retry"
)

// longText is how long a text is, in UTF-16 code units, that may be the beginning of a longer
// one: apps split a text that does not fit into one message.
const longText = maxUnits - 200

// together sets Quiet and Joins of a message, the times within which further messages belong to it.
// A message in a private chat counts as complete unless it is forwarded, part of an album, or so long
// that the app has probably cut it. In a group the next line often follows at once.
func (c *Channel) together(m *message, in conversation.Inbound) conversation.Inbound {
	if _, command := in.Command(); command {
		return in
	}
	in.Album, in.Joins = m.album(), c.quiet
	if m.isGroup() || m.isForwarded() || in.Album != "" || markdown.Units(markdown.UTF16).Count(m.Text) >= longText {
		in.Quiet = c.quiet
	}
	return in
}

// album returns the id of the album that a message belongs to, "" for none.
func (m *message) album() string {
	if m.Album == "" || len(m.Album) > maxAlbumID {
		return ""
	}
	return strconv.FormatInt(m.Chat.ID, 10) + ":" + m.Album
}

const (
	maxAlbumID = 64  // bytes of an id
	albumSize  = 10  // messages of an album: https://core.telegram.org/bots/api#sendmediagroup
	maxAlbums  = 500 // albums that are remembered at once
	albumWait  = time.Minute
)

// albums tracks the albums in groups. A whole album is for the bot if one of its messages addresses the
// bot, usually the one with the caption; the others address nobody.
type albums struct {
	mu   sync.Mutex
	seen map[string]*album
}

// album is an album whose newest message is less than a minute old.
type album struct {
	at   time.Time
	ours bool     // a message of the album is for the bot
	held []update // messages of the album that came before ours was set
}

// hold keeps an update of an album until one of its messages turns out to be for the
// bot. It returns false when one was, so that this one is as well.
func (as *albums) hold(id string, u update, now time.Time) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.enter(id, now)
	if !a.ours && len(a.held) < albumSize {
		a.held = append(a.held, u)
	}
	return !a.ours
}

// claim notes that an album is for the bot, and returns what was held of it.
func (as *albums) claim(id string, now time.Time) []update {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.enter(id, now)
	held := a.held
	a.ours, a.held = true, nil
	return held
}

// enter returns an album, and forgets those that are over.
func (as *albums) enter(id string, now time.Time) *album {
	if a := as.seen[id]; a != nil {
		a.at = now
		return a
	}
	for id, a := range as.seen {
		if now.Sub(a.at) > albumWait {
			delete(as.seen, id)
		}
	}
	if as.seen == nil || len(as.seen) >= maxAlbums {
		as.seen = map[string]*album{}
	}
	a := &album{at: now}
	as.seen[id] = a
	return a
}

// comments holds the time at which each person last wrote to the bot in a group. Messages
// that are forwarded with a comment arrive right after the comment, and address nobody.
type comments struct {
	mu   sync.Mutex
	last map[commenter]int64 // Unix time of each commenter's last message
}

type commenter struct {
	at address // the chat and topic, without what the message replies to
	id int64
}

func (m *message) commenter() commenter { return commenter{m.address().place(), m.sender().ID} }

// forwardWait is how much later than its comment a forwarded message may be, in seconds:
// the apps send both at once.
const forwardWait = 1

// note remembers a message of a group that is for the bot.
func (cs *comments) note(m *message) {
	if _, _, _, command := m.command(); !m.isGroup() || command {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.last == nil || len(cs.last) >= maxComments {
		cs.last = map[commenter]int64{}
	}
	cs.last[m.commenter()] = m.Date
}

// maxComments is how many people are remembered; beyond that all are forgotten.
const maxComments = 1000

// precede reports whether a message was forwarded with a comment that is for the bot.
func (cs *comments) precede(m *message) bool {
	if !m.isForwarded() || isSet(m.Automatic) {
		return false
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	date, ok := cs.last[m.commenter()]
	return ok && m.Date >= date && m.Date-date <= forwardWait
}

// isOurs reports whether a message that is not addressed to the bot belongs to an
// album of which one was accepted, in this process or an earlier one. The error is
// the end of ctx.
func (c *Channel) isOurs(ctx context.Context, u update) (ours bool, err error) {
	id := u.Message.album()
	if id == "" || !u.Message.isGroup() {
		return false, nil
	}
	ours, err = c.hasAlbum(ctx, id)
	return err == nil && (ours || !c.albums.hold(id, u, time.Now())), err
}

// isTalk reports whether a message that is not addressed to the bot is group talk, and not of an album of
// which one message was accepted. The error is the end of ctx.
func (c *Channel) isTalk(ctx context.Context, m *message) (bool, error) {
	if !m.isGroup() || m.album() == "" {
		return m.isGroup(), nil
	}
	ours, err := c.hasAlbum(ctx, m.album())
	return !ours, err
}

// hasAlbum reports whether a message of an album was accepted. The error is the end of ctx.
func (c *Channel) hasAlbum(ctx context.Context, id string) (has bool, err error) {
	err = retry.Persist(ctx, c.log, "read what was accepted of an album", func() error {
		has, err = c.messages.HasAlbum(ctx, c.account, id)
		return err
	})
	if conversation.IsDamaged(err) {
		return false, nil
	}
	return has, err
}

// noMessages is the store of a channel that has none.
type noMessages struct{}

func (noMessages) HasAlbum(context.Context, conversation.Account, string) (bool, error) {
	return false, nil
}

func (noMessages) Edit(context.Context, conversation.Account, string, string, time.Time) error {
	return nil
}

func (noMessages) IsUnderWay(context.Context, conversation.Key, int64) (bool, error) {
	return false, nil
}
