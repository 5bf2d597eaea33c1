package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/fulltext"
	"parley/conversation/search"
	"parley/httpserver"
)

const (
	foundOnPage = 20     // conversations on a page of results
	mostSkipped = 10_000 // results that may be skipped, page by page
	aroundHit   = 20     // messages behind a hit, on the page that it leads to
)

// foundPage is a page of search results.
type foundPage struct {
	Side  side
	Words string
	Found []found
	Next  string // address of the page that follows, "" for none
}

// found is a conversation that a search has found.
type found struct {
	URL   string
	Title fulltext.Snippet
	At    time.Time
	Hits  []foundHit
}

// foundHit is a message of a conversation that was found.
type foundHit struct {
	URL, Who string
	At       time.Time
	Snippet  fulltext.Snippet
	File     *search.FilePage // the page of a file in which the words are; nil if they are in the message
}

// showFound searches the titles and the texts of all chats: for a script it answers with a fragment, for a browser with a
// page. The parameter q has the words, and skip says how many of the best to leave out.
func (c *Channel) showFound(w http.ResponseWriter, r *http.Request) {
	p := foundPage{Words: strings.TrimSpace(r.URL.Query().Get("q"))}
	skip, _ := strconv.Atoi(r.URL.Query().Get("skip")) // what is no number is 0
	skip = min(max(skip, 0), mostSkipped)
	more, err := false, error(nil)
	if p.Found, more, err = c.find(r.Context(), p.Words, skip); err != nil {
		c.fail(w, r, err)
		return
	}
	if more && skip < mostSkipped {
		p.Next = "/search?" + url.Values{"q": {p.Words}, "skip": {strconv.Itoa(skip + foundOnPage)}}.Encode()
	}
	if !httpserver.WantsPage(r) {
		c.sendFragment(w, r, "found", p.Found, p.Next)
		return
	}
	if p.Side, err = c.side(r, ""); err != nil {
		c.fail(w, r, err)
		return
	}
	p.Side.Words = p.Words
	c.render(w, r, "search.html", "Search", p)
}

func (c *Channel) find(ctx context.Context, words string, skip int) (list []found, more bool, err error) {
	page, more, err := search.New(c.Store).Conversations(ctx, search.ConversationQuery{
		Scope: search.Scope{Channel: channelName}, Words: words, Limit: foundOnPage, Skip: skip,
	})
	for _, one := range page {
		list = append(list, foundOf(one))
	}
	return list, more, err
}

func foundOf(one search.Found) found {
	f := found{URL: addressOf(nameOf(one.Conversation.Key), one.Conversation), Title: one.Title, At: one.Conversation.UpdatedAt}
	if one.Conversation.Active {
		f.URL = "/chat/" + nameOf(one.Conversation.Key)
	}
	if len(f.Title) == 0 {
		f.Title = fulltext.Snippet{{Text: "Untitled"}}
	}
	for _, hit := range one.Hits {
		who := "Assistant"
		if hit.Role == conversation.RoleUser {
			who = "You"
		}
		address := fmt.Sprintf("/chat/%s/conversation/%s?before=%d#m%d", nameOf(hit.Key), hit.Conversation, hit.Seq+aroundHit, hit.Seq)
		f.Hits = append(f.Hits, foundHit{URL: address, Who: who, At: hit.At, Snippet: hit.Snippet, File: hit.File})
	}
	return f
}
