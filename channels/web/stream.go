package web

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"time"

	"parley/activity"
	"parley/channels/hosted"
	"parley/httpserver"
	"parley/internal/clock"
)

const (
	pace      = 100 * time.Millisecond // shortest time between two updates of an answer
	byteCost  = 2 * time.Microsecond   // pause for each byte that was sent: half a megabyte a second at most
	workShare = 10                     // the pause is at least this many times as long as the update took to make
)

// beatEvent is a sign of life. It is an event, and not a comment as the standard
// suggests, because scripts do not see comments and a page must notice that its
// connection is dead.
var beatEvent = httpserver.Event{Name: "beat", Data: "{}"}

// update is what has changed in a page. A nil field has not changed.
type update struct {
	Reload  bool           `json:"reload,omitempty"`  // the page shows another conversation: load it again
	Entries *[]change      `json:"entries,omitempty"` // all that the end of the transcript consists of
	Waiting *template.HTML `json:"waiting,omitempty"`
	Working *bool          `json:"working,omitempty"`
	Calls   *template.HTML `json:"calls,omitempty"`
	Keep    int            `json:"keep,omitempty"`   // blocks of the answer that stay
	Blocks  *template.HTML `json:"blocks,omitempty"` // HTML of the blocks that follow them
	Title   *string        `json:"title,omitempty"`
	Chats   *template.HTML `json:"chats,omitempty"`
}

// change names an item of the transcript, with its HTML where the page does not
// have it.
type change struct {
	ID   string        `json:"id"`
	HTML template.HTML `json:"html,omitempty"`
}

// stream keeps one page of a chat up to date.
type stream struct {
	channel *Channel
	name    string
	events  *httpserver.Events
	watch   *activity.Watch // watches this chat, with the progress of its runs
	all     *activity.Watch // watches all chats for what is stored

	at      hosted.Position // how much of the chat the page has
	shown   shown
	started bool
}

// shown is what the page shows. It holds only hashes of the HTML, since there may
// be a thousand pages.
type shown struct {
	ids                   []string // IDs of the entries
	working               bool
	run                   int64
	title                 string
	waiting, calls, chats hash
	blocks                []hash
}

type hash = [sha256.Size]byte

func hashOf(html string) hash { return sha256.Sum256([]byte(html)) }

// follow streams the changes of a chat to a page, from the position that the page
// gives in Last-Event-ID when it connects again, else in its address.
func (c *Channel) follow(w http.ResponseWriter, r *http.Request) {
	name, ok := chatName(w, r)
	if !ok {
		return
	}
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = r.URL.Query().Get("at")
	}
	at, ok := hosted.ParsePosition(from)
	if !ok {
		httpserver.Problem(w, r, http.StatusBadRequest, "The position "+quoted(from)+" in the stream is not one that this server gave.")
		return
	}
	s := &stream{channel: c, name: name, at: at, watch: c.Feed.Watch(keyOf(name)), all: c.Feed.WatchChannel(channelName)}
	defer s.watch.Close()
	defer s.all.Close()
	s.events = httpserver.OpenEvents(w)
	s.run(r.Context())
}

// run sends updates until the page is gone, the server ends, or the page has to
// connect again after an error.
func (s *stream) run(ctx context.Context) {
	beat := func() error { return s.events.Send(beatEvent) }
	_ = httpserver.Follow(ctx, s.watch.C(), s.all.C(), beat, func(bool) (bool, error) { // what went wrong is logged
		began := time.Now()
		u, err := s.look(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.channel.Log.Error("web chat stream failed", "session", keyOf(s.name), "error", err)
			}
			return false, err
		}
		sent, err := s.send(u)
		if err != nil {
			return false, err
		}
		return false, clock.Sleep(ctx, max(pace, workShare*time.Since(began), time.Duration(sent)*byteCost))
	})
}

// look returns what has changed. It reads the store when that may hold something
// new of this chat, and when another run is under way than before.
func (s *stream) look(ctx context.Context) (u update, err error) {
	stored := s.watch.Stored()
	progress, working := s.watch.Now()
	switch {
	case stored || working != s.shown.working || working && progress.Run != s.shown.run:
		err = s.readAll(ctx, &u)
	case working:
		err = s.answer(&u, progress)
	}
	if err != nil || u.Reload {
		return u, err
	}
	_, html, of, err := s.channel.list.read(ctx, s.channel)
	if err == nil && of != s.shown.chats {
		u.Chats, s.shown.chats = &html, of
	}
	return u, err
}

// send sends an update and returns its size in bytes. The first update holds
// everything but the items that the page has: what else it shows is not known
// after its connection broke.
func (s *stream) send(u update) (bytes int, err error) {
	if u.isEmpty() {
		return 0, nil
	}
	data, err := json.Marshal(u)
	if err != nil {
		return 0, err
	}
	s.started = true
	return len(data), s.events.Send(httpserver.Event{ID: s.at.String(), Data: string(data)})
}

// readAll compares all of the chat with what the page has.
func (s *stream) readAll(ctx context.Context, u *update) error {
	t, err := s.channel.read(ctx, s.name, s.watch)
	if err != nil {
		return err
	}
	if s.misses(t) {
		u.Reload = true
		return nil
	}
	if err := s.entries(u, t); err != nil {
		return err
	}
	s.at = t.at
	if u.Waiting, err = s.fragment(&s.shown.waiting, "waiting", t.waiting); err != nil {
		return err
	}
	if t.working != s.shown.working || !s.started {
		u.Working, s.shown.working = &t.working, t.working
	}
	if !t.working {
		t.progress = activity.Progress{}
	}
	if title := titleOf(t.Conversation); title != s.shown.title {
		u.Title, s.shown.title = &title, title
	}
	return s.answer(u, t.progress)
}

// misses reports whether the page shows another conversation than the chat's
// active one, or is so far behind that it has to be loaded again.
func (s *stream) misses(t view) bool {
	other := s.at.Conversation != "" && s.at.Conversation != t.at.Conversation
	return other || t.earlier > s.at.Seq+1
}

// entries adds the end of the transcript to an update, where the page has another
// one.
func (s *stream) entries(u *update, t view) error {
	ids := make([]string, len(t.entries))
	for i, e := range t.entries {
		ids[i] = e.ID
	}
	if slices.Equal(ids, s.shown.ids) {
		return nil
	}
	before := s.shown.ids
	s.shown.ids = ids
	list := []change{}
	for _, e := range t.entries {
		c := change{ID: e.ID}
		isThere := slices.Contains(before, e.ID)
		if before == nil { // the page has what its position says
			isThere = has(s.at, e)
		}
		if !isThere {
			e.Action = "/chat/" + s.name + "/messages"
			html, err := templates.Fragment("entry", e)
			if err != nil {
				return err
			}
			c.HTML = html
		}
		list = append(list, c)
	}
	u.Entries = &list
	return nil
}

// answer adds the run under way to an update, where the page shows it otherwise.
func (s *stream) answer(u *update, p activity.Progress) (err error) {
	s.shown.run = p.Run
	if u.Calls, err = s.fragment(&s.shown.calls, "calls", usesOf(p)); err != nil {
		return err
	}
	blocks := blocksOf(p)
	same := 0
	for same < len(blocks) && same < len(s.shown.blocks) && hashOf(blocks[same]) == s.shown.blocks[same] {
		same++
	}
	if same < len(blocks) || same < len(s.shown.blocks) || !s.started {
		rest := answerHTML(blocks[same:])
		u.Keep, u.Blocks, s.shown.blocks = same, &rest, s.shown.blocks[:same]
		for _, block := range blocks[same:] {
			s.shown.blocks = append(s.shown.blocks, hashOf(block))
		}
	}
	return nil
}

// fragment returns the HTML of a template, and nil where the page has it already.
func (s *stream) fragment(shown *hash, name string, data any) (*template.HTML, error) {
	html, err := templates.Fragment(name, data)
	if err != nil || hashOf(string(html)) == *shown {
		return nil, err
	}
	*shown = hashOf(string(html))
	return &html, nil
}

func (u update) isEmpty() bool {
	return !u.Reload && u.Entries == nil && u.Waiting == nil && u.Working == nil && u.Calls == nil && u.Blocks == nil && u.Title == nil && u.Chats == nil
}
