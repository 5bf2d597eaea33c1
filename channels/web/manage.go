package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"parley/conversation"
	"parley/httpserver"
	"parley/sessions"
)

// undo says how a script takes a change back: by a form with the fields, sent to the address.
type undo struct {
	URL    string            `json:"url"`
	Fields map[string]string `json:"fields,omitempty"`
}

// rename changes the title of a chat's active conversation.
func (c *Channel) rename(w http.ResponseWriter, r *http.Request) {
	title, ok := sessions.ParseTitle(r.PostFormValue("title"))
	if !ok {
		httpserver.Problem(w, r, http.StatusUnprocessableEntity, sessions.TitleRule)
		return
	}
	if name, of, ok := c.conversationOf(w, r); ok {
		_, err := c.Sessions.Rename(r.Context(), of.Key, of.ID, title)
		var back *undo
		if before, ok := sessions.ParseTitle(of.Title); ok {
			back = &undo{URL: "/chat/" + name + "/rename", Fields: map[string]string{"title": before}}
		}
		c.answerChange(w, r, "/chat/"+name, back, err)
	}
}

// pin puts a chat at the top of the list, or takes it from there.
func (c *Channel) pin(w http.ResponseWriter, r *http.Request) {
	if name, ok := chatName(w, r); ok {
		pinned := r.PostFormValue("pinned") == "true"
		err := c.Sessions.Pin(r.Context(), keyOf(name), pinned)
		back := &undo{URL: "/chat/" + name + "/pin", Fields: map[string]string{"pinned": strconv.FormatBool(!pinned)}}
		c.answerChange(w, r, "/chat/"+name, back, err)
	}
}

// chooseVersion shows another version of a message, with what followed it.
func (c *Channel) chooseVersion(w http.ResponseWriter, r *http.Request) {
	if name, of, ok := c.conversationOf(w, r); ok {
		version, err := strconv.ParseInt(r.PostFormValue("seq"), 10, 64)
		if err == nil {
			err = c.Sessions.Choose(r.Context(), of, version)
		} else {
			err = conversation.ErrNotFound
		}
		c.answerChange(w, r, fmt.Sprintf("/chat/%s#m%d", name, version), nil, err) // where its reader has been
	}
}

// archive ends a chat's active conversation, and leads to its page in the archive.
func (c *Channel) archive(w http.ResponseWriter, r *http.Request) {
	if name, of, ok := c.conversationOf(w, r); ok {
		_, err := c.Sessions.Archive(r.Context(), of.Key, of.ID)
		c.answerChange(w, r, addressOf(name, of), &undo{URL: addressOf(name, of) + "/reopen"}, err)
	}
}

// reopen makes an archived conversation its chat's active one.
func (c *Channel) reopen(w http.ResponseWriter, r *http.Request) {
	if name, of, ok := c.conversationOf(w, r); ok {
		c.answerChange(w, r, "/chat/"+name, nil, c.Sessions.Resume(r.Context(), of.Key, of.ID))
	}
}

// delete deletes a conversation for good.
func (c *Channel) delete(w http.ResponseWriter, r *http.Request) {
	if _, of, ok := c.conversationOf(w, r); ok {
		_, err := c.Sessions.Delete(r.Context(), of.Key, of.ID)
		c.answerChange(w, r, "/", nil, err)
	}
}

// answerChange leads to the next page after a change, or says why it failed. A script is
// told how the change is undone, if it can be.
func (c *Channel) answerChange(w http.ResponseWriter, r *http.Request, next string, back *undo, err error) {
	switch {
	case errors.Is(err, sessions.ErrBusy):
		httpserver.Problem(w, r, http.StatusConflict, "The assistant is working in this chat. Wait for its answer or stop it, then try again.")
	case err != nil:
		c.fail(w, r, err)
	case httpserver.WantsPage(r):
		http.Redirect(w, r, next, http.StatusSeeOther)
	case back == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		httpserver.SendJSON(w, http.StatusOK, map[string]*undo{"undo": back})
	}
}
