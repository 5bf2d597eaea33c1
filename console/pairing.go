package console

import (
	"net/http"

	"parley/conversation"
)

type pairingPage struct{ Asking, LetIn []conversation.Pairing }

// showPairing shows who asks to be let in, and who was.
func (c *Console) showPairing(w http.ResponseWriter, r *http.Request) {
	list, err := c.Store.Pairings(r.Context())
	if err != nil {
		c.fail(w, r, err)
		return
	}
	var p pairingPage
	for _, one := range list {
		if one.ApprovedAt.IsZero() {
			p.Asking = append(p.Asking, one)
		} else {
			p.LetIn = append(p.LetIn, one)
		}
	}
	c.show(w, r, "pairing.html", "pairing", "Pairing", p)
}

func (c *Console) approve(w http.ResponseWriter, r *http.Request) {
	if _, err := c.Store.ApprovePairing(r.Context(), r.PostFormValue("code")); err != nil {
		c.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/console/pairing?done=approved", http.StatusSeeOther)
}

func (c *Console) revoke(w http.ResponseWriter, r *http.Request) {
	if _, err := c.Store.RevokePairing(r.Context(), r.PostFormValue("channel"), r.PostFormValue("user")); err != nil {
		c.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/console/pairing?done=revoked", http.StatusSeeOther)
}
