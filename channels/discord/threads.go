package discord

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
)

const (
	maxThreadName = 100  // https://discord.com/developers/docs/resources/channel#start-thread-from-message
	archiveAfter  = 1440 // minutes of silence until Discord hides a thread: a day

	maxThreads = 10_000 // remembered; then they are asked for again
)

// threads opens the threads that mentions ask for. A thread on a message has
// the message's id, so that its session is known before there is a thread.
type threads struct {
	mu     sync.Mutex
	known  map[string]*thread
	closed map[string]time.Time // channels where the bot may open none, until when that is believed
}

// thread is one that was asked for.
type thread struct {
	mu      sync.Mutex // held while Discord is asked
	open    bool
	refused bool // Discord does not let the bot open it
}

func newThreads() *threads {
	return &threads{known: map[string]*thread{}, closed: map[string]time.Time{}}
}

// closedFor is how long a channel that took no thread is one without threads: the
// talk goes on in the channel's session, and not in a new one with every mention.
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

// open makes sure that the thread of an address is there. Where the bot may
// not open one, the address of a reply in the channel is given instead.
func (ts *threads) open(ctx context.Context, c *Channel, to address) (address, error) {
	if to.Parent == "" {
		return to, nil
	}
	t := ts.get(to.Channel)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open && !t.refused {
		err := c.startThread(ctx, to)
		switch status := refused(err).status; {
		case err == nil || refused(err).code == threadExists:
			t.open = true
		case status == 0 || status == http.StatusTooManyRequests || status == http.StatusUnauthorized:
			return to, err
		default:
			c.Log.Warn("can't open a thread, answering in the channel", "channel_id", to.Parent, "error", err)
			t.refused = true
			if status == http.StatusForbidden {
				ts.close(to.Parent)
			}
		}
	}
	if t.refused {
		to.Channel, to.ReplyTo, to.Parent = to.Parent, to.Source, ""
	}
	return to, nil
}

func (ts *threads) get(id string) *thread {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(ts.known) >= maxThreads {
		clear(ts.known)
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
		method: http.MethodPost, url: discordgo.EndpointChannelMessageThread(on.Parent, on.Source), limit: limit, body: body,
	}, nil)
}

// Titled renames a thread that the bot has opened. Discord takes few renames
// of one thread, and a name is not worth waiting for.
func (c *Channel) Titled(addr, title string) {
	to, err := parseAddress(addr)
	title = threadName(title)
	if err != nil || !to.Own || title == "" {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		body := struct {
			Name string `json:"name"`
		}{title}
		endpoint := discordgo.EndpointChannel(to.Channel)
		if err := c.api.call(ctx, request{method: http.MethodPatch, url: endpoint, limit: endpoint, body: body}, nil); err != nil {
			c.Log.Warn("a thread keeps its name", "thread", to.Channel, "error", err)
		}
	}()
}

// threadName is a text as the name of a thread, "" when it shows nothing.
func threadName(text string) string {
	text = oneLine(text)
	if runes := []rune(text); len(runes) > maxThreadName {
		text = strings.TrimSpace(string(runes[:maxThreadName-1])) + "…"
	}
	return text
}
