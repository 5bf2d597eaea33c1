package console

import (
	"net/http"

	"parley/conversation"
	"parley/conversation/pairing"
)

type pairingPage struct {
	Asking, LetIn []pairing.Pairing
	More          int // number of open requests that are not shown
}

// maxAsking is how many open requests are shown, the newest: a flood of strangers
// must not hide who was let in.
const maxAsking = 100

// showPairing shows who asks to be let in, and who was let in.
func (c *Console) showPairing(w http.ResponseWriter, r *http.Request) {
	list, err := pairing.New(c.Store).List(r.Context())
	if err != nil {
		c.fail(w, r, err)
		return
	}
	var p pairingPage
	for _, one := range list {
		switch {
		case !one.ApprovedAt.IsZero():
			p.LetIn = append(p.LetIn, one)
		case len(p.Asking) < maxAsking:
			p.Asking = append(p.Asking, one)
		default:
			p.More++
		}
	}
	c.show(w, r, "pairing.html", "pairing", "Pairing", p)
}

func (c *Console) approve(w http.ResponseWriter, r *http.Request) {
	if _, err := pairing.New(c.Store).Approve(r.Context(), r.PostFormValue("code")); err != nil {
		c.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/console/pairing?done=approved", http.StatusSeeOther)
}

func (c *Console) revoke(w http.ResponseWriter, r *http.Request) {
	of := conversation.Account{Channel: r.PostFormValue("channel"), ID: r.PostFormValue("bot")}
	if _, err := pairing.New(c.Store).Revoke(r.Context(), of, r.PostFormValue("user")); err != nil {
		c.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/console/pairing?done=revoked", http.StatusSeeOther)
}
