package console

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/httpserver"
)

const (
	maxTitle   = 80              // characters of a title
	changeWait = 5 * time.Second // for a run of the session that is under way
)

// What the operator does to sessions and conversations.

func (c *Console) archive(w http.ResponseWriter, r *http.Request) {
	key := conversation.Key(r.PostFormValue("key"))
	c.change(w, r, key, sessionURL(key)+"&done=archived", func(ctx context.Context) error {
		_, err := c.Store.Archive(ctx, key)
		return err
	})
}

func (c *Console) reset(w http.ResponseWriter, r *http.Request) {
	key := conversation.Key(r.PostFormValue("key"))
	c.change(w, r, key, sessionURL(key)+"&done=reset", func(ctx context.Context) error {
		_, err := c.Store.Reset(ctx, key, true)
		return err
	})
}

func (c *Console) deleteSession(w http.ResponseWriter, r *http.Request) {
	key := conversation.Key(r.PostFormValue("key"))
	if _, err := c.Store.Session(r.Context(), key); err != nil {
		c.fail(w, r, err)
		return
	}
	c.change(w, r, key, "/console/sessions?done=deleted", func(ctx context.Context) error {
		_, err := c.Store.Delete(ctx, key, "")
		return err
	})
}

func (c *Console) rename(w http.ResponseWriter, r *http.Request) {
	title := strings.Join(strings.Fields(r.PostFormValue("title")), " ")
	if title == "" || utf8.RuneCountInString(title) > maxTitle {
		httpserver.Problem(w, r, http.StatusUnprocessableEntity, fmt.Sprintf("A title has from 1 to %d letters.", maxTitle))
		return
	}
	of, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	c.change(w, r, of.Key, "/console/conversation/"+of.ID+"?done=renamed", func(ctx context.Context) error {
		_, err := c.Store.Rename(ctx, of.Key, of.ID, title)
		return err
	})
}

func (c *Console) deleteConversation(w http.ResponseWriter, r *http.Request) {
	of, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	c.change(w, r, of.Key, "/console/sessions?done=deleted", func(ctx context.Context) error {
		_, err := c.Store.Delete(ctx, of.Key, of.ID)
		return err
	})
}

// change does something to a session between two of its runs, and leads to the
// page that shows it done.
func (c *Console) change(w http.ResponseWriter, r *http.Request, key conversation.Key, next string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(r.Context(), changeWait)
	defer cancel()
	if err := c.Do(ctx, key, do); err != nil {
		c.fail(w, r, err)
		return
	}
	c.Feed.Changed(key)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// conversationOf is the conversation that a request names; of one that there is
// not, the request is answered.
func (c *Console) conversationOf(w http.ResponseWriter, r *http.Request) (conversation.Conversation, bool) {
	of, err := c.Store.Conversation(r.Context(), r.PathValue("id"))
	if err != nil {
		c.fail(w, r, err)
	}
	return of, err == nil
}

// number is a whole number of a request's query: low where it has none, and at
// most high.
func number(r *http.Request, name string, low, high int64) int64 {
	n, err := strconv.ParseInt(r.URL.Query().Get(name), 10, 64)
	if err != nil {
		return low
	}
	return min(max(n, low), high)
}

// doneText says what was just done, for the word that the address of a page has.
func doneText(word string) string {
	return map[string]string{
		"archived": "The conversation is archived. The next message begins a new one.",
		"reset":    "A new conversation has begun; the one before it is archived.",
		"deleted":  "It is deleted.",
		"renamed":  "It has its new title.",
		"retried":  "The reply is on its way again.",
		"approved": "That person is let in: the next message is answered.",
		"revoked":  "That person is put out.",
	}[word]
}
