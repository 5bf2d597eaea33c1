package console

import (
	"net/http"
	"strconv"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/httpserver"
	"parley/sessions"
)

// archive ends the active conversation of a session.
func (c *Console) archive(w http.ResponseWriter, r *http.Request) {
	key := conversation.Key(r.PostFormValue("key"))
	_, err := c.Sessions.Archive(r.Context(), key, "")
	c.answerChange(w, r, sessionURL(key)+"&done=archived", err)
}

// reset begins a new conversation in a session.
func (c *Console) reset(w http.ResponseWriter, r *http.Request) {
	key := conversation.Key(r.PostFormValue("key"))
	_, err := c.Sessions.Reset(r.Context(), key, true)
	c.answerChange(w, r, sessionURL(key)+"&done=reset", err)
}

// deleteSession deletes all conversations of a session.
func (c *Console) deleteSession(w http.ResponseWriter, r *http.Request) {
	key := conversation.Key(r.PostFormValue("key"))
	_, err := catalog.New(c.Store).Session(r.Context(), key)
	if err == nil {
		_, err = c.Sessions.Delete(r.Context(), key, "")
	}
	c.answerChange(w, r, "/console/sessions?done=deleted", err)
}

// rename changes the title of a conversation.
func (c *Console) rename(w http.ResponseWriter, r *http.Request) {
	title, ok := sessions.ParseTitle(r.PostFormValue("title"))
	if !ok {
		httpserver.Problem(w, r, http.StatusUnprocessableEntity, sessions.TitleRule)
		return
	}
	if of, ok := c.conversationOf(w, r); ok {
		_, err := c.Sessions.Rename(r.Context(), of.Key, of.ID, title)
		c.answerChange(w, r, "/console/conversation/"+of.ID+"?done=renamed", err)
	}
}

// deleteConversation deletes one conversation.
func (c *Console) deleteConversation(w http.ResponseWriter, r *http.Request) {
	if of, ok := c.conversationOf(w, r); ok {
		_, err := c.Sessions.Delete(r.Context(), of.Key, of.ID)
		c.answerChange(w, r, "/console/sessions?done=deleted", err)
	}
}

// answerChange leads to the page that shows a change, or says why it failed.
func (c *Console) answerChange(w http.ResponseWriter, r *http.Request, next string, err error) {
	if err != nil {
		c.fail(w, r, err)
		return
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// conversationOf returns the conversation that a request names. Where there is
// none it answers the request, and ok is false.
func (c *Console) conversationOf(w http.ResponseWriter, r *http.Request) (of conversation.Conversation, ok bool) {
	of, err := c.Store.Conversation(r.Context(), r.PathValue("id"))
	if err != nil {
		c.fail(w, r, err)
	}
	return of, err == nil
}

// number returns a whole number of a request's query, low where there is none,
// and at most high.
func number(r *http.Request, name string, low, high int64) int64 {
	n, err := strconv.ParseInt(r.URL.Query().Get(name), 10, 64)
	if err != nil {
		return low
	}
	return min(max(n, low), high)
}

// doneText returns the sentence for what was just done, by the word in the
// address of a page.
func doneText(word string) string {
	return map[string]string{
		"archived": "The conversation is archived. The next message begins a new one.",
		"reset":    "A new conversation has begun; the one before it is archived.",
		"deleted":  "Deleted.",
		"renamed":  "The conversation is renamed.",
		"retried":  "The reply is on its way again.",
		"asked":    "The model is asked again for everything that has no answer because of it.",
		"answered": "Answered. The run goes on when none of its calls waits any more.",
		"approved": "That person has access now: the next message is answered.",
		"revoked":  "That person no longer has access.",
	}[word]
}
