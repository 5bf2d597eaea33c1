package console

import (
	"errors"
	"net/http"
	"strconv"

	"parley/conversation"
	"parley/conversation/approvals"
)

// askedCall is a tool call that waits for an answer.
type askedCall struct {
	approvals.Question
	May bool // the operator may answer
}

// Call returns the arguments as people read them.
func (a askedCall) Call() string { return approvals.ShowArguments(a.Arguments) }

// askedCalls returns the tool calls that wait for an answer, of all sessions.
func (c *Console) askedCalls(r *http.Request) ([]askedCall, error) {
	open, err := approvals.New(c.Store).Open(r.Context(), "")
	var list []askedCall
	for _, q := range open {
		list = append(list, askedCall{q, c.MayAnswer == nil || c.MayAnswer(q)})
	}
	return list, err
}

// answerCall allows or refuses a tool call on behalf of the operator.
func (c *Console) answerCall(w http.ResponseWriter, r *http.Request) {
	store := approvals.New(c.Store)
	key := conversation.Key(r.PostFormValue("session"))
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		c.fail(w, r, conversation.ErrNotFound)
		return
	}
	q, err := store.Get(r.Context(), key, id)
	given := false
	if err == nil && (c.MayAnswer == nil || c.MayAnswer(q)) {
		_, given, err = store.Give(r.Context(), approvals.Answer{ID: id, Session: key, Allow: r.PostFormValue("answer") == "allow", By: "the operator"})
	}
	switch {
	case errors.Is(err, approvals.ErrNone), err == nil && !given:
		c.fail(w, r, conversation.ErrNotFailed)
		return
	case err != nil:
		c.fail(w, r, err)
		return
	}
	c.Answered(key)
	http.Redirect(w, r, "/console/tools?done=answered", http.StatusSeeOther)
}
