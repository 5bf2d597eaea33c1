package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/fulltext"
	"parley/conversation/search"
)

const (
	mostFound    = 40  // hits that are shown
	foundInOne   = 5   // of them at most in one chat
	searchedMost = 300 // chats: those that were used last
	aroundHit    = 20  // messages behind a hit, on the page that it leads to
)

// foundPage is the page of search results.
type foundPage struct {
	Side  side
	Words string
	Found []found
}

// found is a message that a search has found.
type found struct {
	URL, Title, Who string
	At              time.Time
	Snippet         fulltext.Snippet
}

// showFound searches all chats, those used last first.
func (c *Channel) showFound(w http.ResponseWriter, r *http.Request) {
	words := strings.TrimSpace(r.URL.Query().Get("q"))
	p := foundPage{Words: words}
	var err error
	if p.Found, err = c.find(r.Context(), words); err == nil {
		p.Side, err = c.side(r, "")
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	p.Side.Words = words
	c.render(w, r, "search.html", "Search", p)
}

func (c *Channel) find(ctx context.Context, words string) ([]found, error) {
	if words == "" {
		return nil, nil
	}
	sessions, _, err := c.Store.Sessions(ctx, conversation.SessionQuery{Channel: channelName, Limit: searchedMost})
	if err != nil {
		return nil, err
	}
	var list []found
	for _, session := range sessions {
		hits, err := search.New(c.Store).Find(ctx, search.Query{Key: session.Key, Words: words, TalkOnly: true, Limit: foundInOne})
		if err != nil {
			return nil, err
		}
		for _, hit := range hits {
			list = append(list, foundHit(hit))
		}
		if len(list) >= mostFound {
			break
		}
	}
	return slices.Clip(list[:min(len(list), mostFound)]), nil
}

func foundHit(hit search.Hit) found {
	who := "Assistant"
	if hit.Role == conversation.RoleUser {
		who = "You"
	}
	title := hit.Title
	if title == "" {
		title = "Untitled"
	}
	address := fmt.Sprintf("/chat/%s/conversation/%s?before=%d#m%d", nameOf(hit.Key), hit.Conversation, hit.Seq+aroundHit, hit.Seq)
	return found{URL: address, Title: title, Who: who, At: hit.At, Snippet: hit.Snippet}
}
