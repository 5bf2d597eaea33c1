package console

import (
	"net/http"
	"net/url"

	"parley/conversation"
	"parley/conversation/catalog"
)

// confirmPage asks for confirmation of what can't be undone, or what people in
// the chat will notice.
type confirmPage struct {
	Question, Detail string
	Action, Button   string
	Danger           bool
	Fields           map[string]string // hidden fields of the form
	Back             string
}

// askToConfirm asks for confirmation. It works without scripts.
func (c *Console) askToConfirm(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	what := q.Get("do")
	p, err := c.aboutSession(r, what, conversation.Key(q.Get("key")))
	switch what {
	case "delete-conversation":
		p, err = c.aboutConversation(r, q.Get("id"))
	case "revoke":
		p, err = confirmPage{
			Question: "Revoke the access of " + q.Get("user") + " on " + q.Get("channel") + "?",
			Detail:   "From the next message on they are treated as a stranger, unless the configuration gives them access.",
			Action:   "/console/pairing/revoke", Button: "Revoke access", Danger: true, Back: "/console/pairing",
			Fields: map[string]string{"channel": q.Get("channel"), "user": q.Get("user"), "bot": q.Get("bot")},
		}, nil
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.show(w, r, "confirm.html", section(what), p.Question, p)
}

func section(what string) string {
	if what == "revoke" {
		return "pairing"
	}
	return "sessions"
}

func (c *Console) aboutSession(r *http.Request, what string, key conversation.Key) (confirmPage, error) {
	p := confirmPage{Fields: map[string]string{"key": string(key)}, Back: sessionURL(key), Action: "/console/session/" + url.PathEscape(what)}
	switch what {
	case "archive":
		p.Question, p.Button = "Archive the active conversation of "+string(key)+"?", "Archive"
		p.Detail = "It is kept. The next message there begins a new one."
	case "reset":
		p.Question, p.Button = "Begin a new conversation in "+string(key)+"?", "Reset"
		p.Detail = "The active one is archived. The session keeps its metadata and the instructions of programs."
	case "delete":
		p.Question, p.Button, p.Danger = "Delete all conversations of "+string(key)+"?", "Delete all", true
		p.Detail = "They are deleted for good, with all messages and pictures. A message that waits for an answer is still answered."
	default:
		return p, conversation.ErrNotFound
	}
	_, err := catalog.New(c.Store).Session(r.Context(), key)
	return p, err
}

func (c *Console) aboutConversation(r *http.Request, id string) (confirmPage, error) {
	of, err := c.Store.Conversation(r.Context(), id)
	return confirmPage{
		Question: "Delete “" + titleOf(of) + "”?", Detail: "It is deleted for good, with all its messages and pictures.",
		Action: "/console/conversation/" + url.PathEscape(of.ID) + "/delete", Button: "Delete", Danger: true,
		Back: "/console/conversation/" + url.PathEscape(of.ID),
	}, err
}
