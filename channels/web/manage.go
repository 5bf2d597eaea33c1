package web

import (
	"errors"
	"net/http"

	"parley/httpserver"
	"parley/sessions"
)

// rename changes the title of a chat's active conversation.
func (c *Channel) rename(w http.ResponseWriter, r *http.Request) {
	title, ok := sessions.ParseTitle(r.PostFormValue("title"))
	if !ok {
		httpserver.Problem(w, r, http.StatusUnprocessableEntity, sessions.TitleRule)
		return
	}
	if name, of, ok := c.conversationOf(w, r); ok {
		_, err := c.Sessions.Rename(r.Context(), of.Key, of.ID, title)
		c.answerChange(w, r, "/chat/"+name, err)
	}
}

// archive ends a chat's active conversation, and leads to its page in the archive.
func (c *Channel) archive(w http.ResponseWriter, r *http.Request) {
	if name, of, ok := c.conversationOf(w, r); ok {
		_, err := c.Sessions.Archive(r.Context(), of.Key, of.ID)
		c.answerChange(w, r, addressOf(name, of), err)
	}
}

// reopen makes an archived conversation its chat's active one.
func (c *Channel) reopen(w http.ResponseWriter, r *http.Request) {
	if name, of, ok := c.conversationOf(w, r); ok {
		c.answerChange(w, r, "/chat/"+name, c.Sessions.Resume(r.Context(), of.Key, of.ID))
	}
}

// delete deletes a conversation for good.
func (c *Channel) delete(w http.ResponseWriter, r *http.Request) {
	if _, of, ok := c.conversationOf(w, r); ok {
		_, err := c.Sessions.Delete(r.Context(), of.Key, of.ID)
		c.answerChange(w, r, "/", err)
	}
}

// answerChange leads to the next page after a change, or says why it failed.
func (c *Channel) answerChange(w http.ResponseWriter, r *http.Request, next string, err error) {
	switch {
	case errors.Is(err, sessions.ErrBusy):
		httpserver.Problem(w, r, http.StatusConflict, "The assistant is working in this chat. Wait for its answer or stop it, then try again.")
	case err != nil:
		c.fail(w, r, err)
	default:
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}
