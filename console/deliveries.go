package console

import (
	"net/http"
	"slices"
	"strconv"

	"parley/conversation"
)

// mostPending is how many due deliveries and waiting messages are listed, the
// oldest first.
const mostPending = 100

type deliveriesPage struct {
	Failed       []conversation.Delivery
	Next         string // address of the page with older failed deliveries; "" for none
	Due          []conversation.Delivery
	Waiting      []conversation.Inbound
	Many, AtMost int // Many is how many failed deliveries the earlier pages list; of Due and of Waiting at most AtMost are listed

	served []conversation.Account
}

// Elsewhere reports whether what belongs to a bot of a channel waits for another
// gateway, since this one does not serve it.
func (p deliveriesPage) Elsewhere(channel, account string) bool {
	return !slices.ContainsFunc(p.served, func(by conversation.Account) bool {
		return by.Serves(conversation.Account{Channel: channel, ID: account})
	})
}

func (c *Console) showDeliveries(w http.ResponseWriter, r *http.Request) {
	skip := int(number(r, "skip", 0, 1_000_000))
	p := deliveriesPage{Many: skip, AtMost: mostPending, served: c.Channels}
	var err error
	if p.Failed, err = c.Store.Deliveries(r.Context(), conversation.DeliveryQuery{Failed: true, Skip: skip, Limit: perPage + 1}); err == nil {
		p.Due, err = c.Store.Deliveries(r.Context(), conversation.DeliveryQuery{Limit: mostPending})
	}
	if err == nil {
		p.Waiting, err = c.Store.Inbox(r.Context(), "", mostPending)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	if len(p.Failed) > perPage {
		p.Failed, p.Next = p.Failed[:perPage], "/console/deliveries?skip="+strconv.Itoa(skip+perPage)
	}
	c.show(w, r, "deliveries.html", "deliveries", "Deliveries", p)
}

// retryMessages has what waits for a model, or has failed because of it, answered now.
func (c *Console) retryMessages(w http.ResponseWriter, r *http.Request) {
	if _, err := c.Retry(r.Context()); err != nil {
		c.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/console/deliveries?done=asked", http.StatusSeeOther)
}

// retryDelivery sends a failed reply again.
func (c *Console) retryDelivery(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		c.fail(w, r, conversation.ErrNotFailed)
		return
	}
	d, err := c.Store.Redeliver(r.Context(), id)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.Look(d.Channel, d.Key)
	http.Redirect(w, r, "/console/deliveries?done=retried", http.StatusSeeOther)
}
