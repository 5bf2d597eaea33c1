package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/search"
)

// perPage is how many rows a page of a list has.
const perPage = 50

type sessionsPage struct {
	Filter   sessionFilter
	Channels []string // channels that the list can be limited to
	Sessions []sessionLine
	First    string // address of the first page, "" while it is shown
	Next     string // address of the page that follows, "" for none
}

// sessionFilter is the form above the list.
type sessionFilter struct{ Channel, State, Text, User, Sort string }

// sessionLine is a session with whether it is being answered.
type sessionLine struct {
	catalog.Session
	AtWork bool
}

func (f sessionFilter) query() catalog.SessionQuery {
	q := catalog.SessionQuery{
		Channel: f.Channel, Text: f.Text, User: f.User, Limit: perPage,
		Active: f.State == "active", Archived: f.State == "archived",
	}
	if f.Sort == "age" {
		q.ByAge = true
	}
	return q
}

// address returns the address of the list's page that begins at from.
func (f sessionFilter) address(from string) string {
	values := url.Values{}
	for name, value := range map[string]string{"channel": f.Channel, "state": f.State, "text": f.Text, "user": f.User, "sort": f.Sort, "from": from} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return "/console/sessions?" + values.Encode()
}

func (c *Console) showSessions(w http.ResponseWriter, r *http.Request) {
	asked := func(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }
	p := sessionsPage{Filter: sessionFilter{asked("channel"), asked("state"), asked("text"), asked("user"), asked("sort")}}
	q := p.Filter.query()
	q.From = asked("from")
	list, next, err := catalog.New(c.Store).Sessions(r.Context(), q)
	if err == nil {
		p.Channels, err = c.knownChannels(r)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	working := map[conversation.Key]bool{}
	for _, key := range c.Feed.UnderWay("") {
		working[key] = true
	}
	for _, s := range list {
		p.Sessions = append(p.Sessions, sessionLine{s, working[s.Key]})
	}
	if next != "" {
		p.Next = p.Filter.address(next)
	}
	if q.From != "" {
		p.First = p.Filter.address("")
	}
	c.show(w, r, "sessions.html", "sessions", "Sessions", p)
}

// knownChannels returns the channels that are served or ever were.
func (c *Console) knownChannels(r *http.Request) ([]string, error) {
	p := overviewPage{}
	err := c.readHealth(r.Context(), &p)
	var names []string
	for _, line := range p.Channels {
		if !slices.Contains(names, line.Channel) { // one line for each bot
			names = append(names, line.Channel)
		}
	}
	return names, err
}

type sessionPage struct {
	catalog.Session
	AtWork        bool
	Conversations []conversation.Conversation
	Next          string
}

// showSession shows the conversations of one session.
func (c *Console) showSession(w http.ResponseWriter, r *http.Request) {
	session, err := catalog.New(c.Store).SessionOf(r.Context(), conversation.Key(r.URL.Query().Get("key")))
	if err != nil {
		c.fail(w, r, err)
		return
	}
	key := session.Key
	list, next, err := catalog.New(c.Store).Conversations(r.Context(), catalog.ConversationQuery{Key: key, From: r.URL.Query().Get("from"), Limit: perPage})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	p := sessionPage{Session: session, Conversations: list, AtWork: c.atWork(key)}
	if next != "" {
		p.Next = sessionURL(key) + "&from=" + url.QueryEscape(next)
	}
	c.show(w, r, "session.html", "sessions", string(key), p)
}

func (c *Console) atWork(key conversation.Key) bool {
	watch := c.Feed.Watch(key)
	defer watch.Close()
	_, working := watch.Now()
	return working
}

// foundPage is the page of search results.
type foundPage struct {
	Words string
	Hits  []search.Hit
	Next  string
}

const (
	hitsPerPage = 30
	mostSkipped = 3000 // hits that may be skipped; the cost of a search grows with them
)

// showFound searches the words of all messages, also of internal ones.
func (c *Console) showFound(w http.ResponseWriter, r *http.Request) {
	p := foundPage{Words: strings.TrimSpace(r.URL.Query().Get("q"))}
	skip := number(r, "skip", 0, mostSkipped)
	var err error
	p.Hits, err = search.New(c.Store).Find(r.Context(), search.Query{Words: p.Words, Limit: hitsPerPage, Skip: int(skip)})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	if len(p.Hits) == hitsPerPage && skip < mostSkipped {
		p.Next = fmt.Sprintf("/console/search?q=%s&skip=%d", url.QueryEscape(p.Words), skip+hitsPerPage)
	}
	c.show(w, r, "search.html", "sessions", "Search", p)
}
