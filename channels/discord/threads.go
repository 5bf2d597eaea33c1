package discord

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"parley/plaintext"

	"github.com/bwmarrin/discordgo"
)

const (
	maxThreadName = 100  // https://discord.com/developers/docs/resources/channel#start-thread-from-message
	archiveAfter  = 1440 // minutes of silence until Discord hides a thread: a day

	maxThreads = 10_000 // threads that are remembered; beyond that, Discord is asked for them again
)

// threads opens the threads that mentions ask for. A thread on a message has the
// message's id, so its session is known before the thread exists.
type threads struct {
	mu     sync.Mutex
	known  map[string]*thread
	closed map[string]time.Time // channels in which the bot may open no threads, and when that is tried again
}

// thread is a thread that has to be opened.
type thread struct {
	mu      sync.Mutex // held while Discord is asked
	open    bool
	found   bool   // the thread was there already, opened by an earlier process or by a person
	refused bool   // Discord does not let the bot open it
	title   string // name that the thread gets once it is open; "" = the name in the address
}

// isSettled reports whether Discord has answered the request for the thread.
func (t *thread) isSettled() bool {
	if !t.mu.TryLock() {
		return false
	}
	defer t.mu.Unlock()
	return t.open || t.refused
}

func newThreads() *threads {
	return &threads{known: map[string]*thread{}, closed: map[string]time.Time{}}
}

// closedFor is how long the bot opens no threads in a channel that has refused one. Meanwhile the
// conversation continues in the channel's session, instead of a new session for every mention.
const closedFor = 10 * time.Minute

func (ts *threads) close(channel string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	maps.DeleteFunc(ts.closed, func(_ string, until time.Time) bool { return time.Now().After(until) })
	ts.closed[channel] = time.Now().Add(closedFor)
}

func (ts *threads) isClosed(channel string) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return time.Now().Before(ts.closed[channel])
}

// open opens the thread of an address unless it is open. Where the bot may not,
// it returns the address of a reply in the channel instead.
func (ts *threads) open(ctx context.Context, c *Channel, to address) (address, error) {
	if to.Parent == "" {
		return to, nil
	}
	t := ts.get(to.Channel)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open && !t.refused {
		if err := ts.ask(ctx, c, t, to); err != nil {
			return to, err
		}
	}
	if t.refused {
		to.Channel, to.ReplyTo, to.Parent = to.Parent, to.Channel, ""
	}
	return to, nil
}

// ask makes Discord open a thread, under its title if it has one already. The caller holds
// the thread's lock. Only errors that may pass are returned.
func (ts *threads) ask(ctx context.Context, c *Channel, t *thread, to address) error {
	to.Name = cmp.Or(t.title, to.Name)
	err := c.startThread(ctx, to)
	switch r := refused(err); {
	case err == nil:
		t.open = true
	case r.code == threadExists:
		t.open, t.found = true, true
		if t.title != "" {
			c.rename(to, t.title, t.found)
		}
	case r.status == 0 || r.status == http.StatusTooManyRequests || r.status == http.StatusUnauthorized:
		return err
	default:
		c.Log.Warn("thread not opened, answering in the channel", "channel_id", to.Parent, "error", err)
		t.refused = true
		if r.status == http.StatusForbidden || r.code == missingPermissions {
			ts.close(to.Parent)
		}
	}
	return nil
}

func (ts *threads) get(id string) *thread {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(ts.known) >= maxThreads {
		maps.DeleteFunc(ts.known, func(_ string, t *thread) bool { return t.isSettled() })
	}
	t := ts.known[id]
	if t == nil {
		t = &thread{}
		ts.known[id] = t
	}
	return t
}

func (c *Channel) startThread(ctx context.Context, on address) error {
	body := struct {
		Name     string `json:"name"`
		Duration int    `json:"auto_archive_duration"`
	}{on.Name, archiveAfter}
	limit := discordgo.EndpointChannelThreads(on.Parent)
	return c.api.call(ctx, request{
		method: http.MethodPost, url: discordgo.EndpointChannelMessageThread(on.Parent, on.Channel), limit: limit, body: body,
	}, nil)
}

// SetTitle names a thread of the bot after its conversation: by renaming it, or
// by opening it under this name where it is not open yet. A thread that Discord
// does not let the bot open gets no name.
func (c *Channel) SetTitle(addr, title string) {
	to, err := parseAddress(addr)
	title = threadName(title)
	if err != nil || !to.Own || title == "" {
		return
	}
	if to.Parent == "" { // it was open before the message came
		c.rename(to, title, false)
		return
	}
	t := c.threads.get(to.Channel)
	c.renames.Go(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case t.refused:
		case !t.open:
			t.title = title
		case title != t.title:
			t.title = title
			c.rename(to, title, t.found)
		}
	})
}

// rename renames a thread in the background: Discord takes few renames of a
// thread, and nothing waits for one. A thread that was found, and not opened by
// this process, is renamed only if the bot has opened it.
func (c *Channel) rename(to address, title string, found bool) {
	c.renames.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		if found && !c.ownsThread(ctx, to.Channel) {
			return
		}
		body := struct {
			Name string `json:"name"`
		}{title}
		endpoint := discordgo.EndpointChannel(to.Channel)
		if err := c.api.call(ctx, request{method: http.MethodPatch, url: endpoint, limit: endpoint, body: body}, nil); err != nil {
			c.Log.Warn("thread not renamed", "thread", to.Channel, "error", err)
		}
	})
}

// ownsThread reports whether the bot has opened a thread, as Discord says.
func (c *Channel) ownsThread(ctx context.Context, id string) bool {
	var told channel
	endpoint := discordgo.EndpointChannel(id)
	if err := c.api.call(ctx, request{method: http.MethodGet, url: endpoint, limit: endpoint}, &told); err != nil {
		c.Log.Warn("thread not renamed", "thread", id, "error", err)
		return false
	}
	return told.OwnerID == c.self()
}

// threadName returns a text as the name of a thread, and "" when it shows
// nothing.
func threadName(text string) string {
	text = plaintext.OneLine(text)
	if runes := []rune(text); len(runes) > maxThreadName {
		text = strings.TrimSpace(string(runes[:maxThreadName-1])) + "…"
	}
	return text
}
