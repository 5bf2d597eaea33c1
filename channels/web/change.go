package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/httpserver"
)

// maxTitle is how long a title may be, in characters.
const maxTitle = 80

// What a person does to a conversation beside talking in it.

// rename gives a chat's active conversation another title.
func (c *Channel) rename(w http.ResponseWriter, r *http.Request) {
	title := strings.Join(strings.Fields(r.PostFormValue("title")), " ")
	if title == "" || utf8.RuneCountInString(title) > maxTitle {
		httpserver.Problem(w, r, http.StatusUnprocessableEntity, fmt.Sprintf("A title has from 1 to %d letters.", maxTitle))
		return
	}
	c.change(w, r, func(ctx context.Context, name string, of conversation.Conversation) (string, error) {
		_, err := c.Store.Rename(ctx, of.Key, of.ID, title)
		return "/chat/" + name, err
	})
}

// archive ends a chat's active conversation, and leads to where it is then.
func (c *Channel) archive(w http.ResponseWriter, r *http.Request) {
	c.change(w, r, func(ctx context.Context, name string, of conversation.Conversation) (string, error) {
		_, err := c.Store.ArchiveConversation(ctx, of.Key, of.ID)
		return addressOf(name, of), err
	})
}

// reopen makes an archived conversation its chat's active one.
func (c *Channel) reopen(w http.ResponseWriter, r *http.Request) {
	c.change(w, r, func(ctx context.Context, name string, of conversation.Conversation) (string, error) {
		return "/chat/" + name, c.Store.Resume(ctx, of.Key, of.ID)
	})
}

// delete deletes a conversation for good.
func (c *Channel) delete(w http.ResponseWriter, r *http.Request) {
	c.change(w, r, func(ctx context.Context, _ string, of conversation.Conversation) (string, error) {
		_, err := c.Store.Delete(ctx, of.Key, of.ID)
		return "/", err
	})
}

// atWorkFor is how long a change waits for the run under way.
const atWorkFor = 3 * time.Second

// change does something to the conversation that a request is about, between
// two runs of its chat, and leads to the page that do names. Nobody is left
// waiting for the end of a long run.
func (c *Channel) change(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, name string, of conversation.Conversation) (string, error)) {
	name, of, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	var next string
	ctx, cancel := context.WithTimeout(r.Context(), atWorkFor)
	defer cancel()
	err := c.Do(ctx, of.Key, func(ctx context.Context) (err error) {
		next, err = do(ctx, name, of)
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		httpserver.Problem(w, r, http.StatusConflict, "The assistant is at work in this chat. Wait for its answer or stop it, then try again.")
		return
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.Feed.Changed(of.Key)
	http.Redirect(w, r, next, http.StatusSeeOther)
}
