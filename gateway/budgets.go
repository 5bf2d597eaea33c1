package gateway

import (
	"cmp"
	"context"
	"slices"
	"time"

	"parley/agentloop"
	"parley/config"
	"parley/conversation"
	"parley/conversation/budgets"
)

// openBudgets returns the caps of the configuration for the router.
func (g *Gateway) openBudgets(ctx context.Context) (agentloop.Budgets, error) {
	cfg, prices := g.cfg.Budget, g.cfg.Prices()
	store, err := budgets.Open(ctx, g.store, cfg)
	if err != nil {
		return agentloop.Budgets{}, err
	}
	g.budgets = store
	if p, is := g.cfg.UnpricedModel(g.choice.Model, g.origins); is && g.thinks() { // its name may come from the server
		return agentloop.Budgets{}, config.Problems{p}
	}
	return agentloop.Budgets{
		Store: store, Currency: g.cfg.LLM.Currency, AnswerReserve: cmp.Or(g.cfg.LLM.MaxOutputTokens, outputReserve), Cost: prices.Cost,
		Person: g.budgetOwner, Zone: g.zoneOf, Refused: g.metrics.CallRefused, Paces: budgets.OpenPaces(g.store, cfg),
	}, nil
}

// zoneOf returns the time zone of a person of a channel, nil where it is not known.
func (g *Gateway) zoneOf(ctx context.Context, channel, id string) *time.Location {
	zone, err := g.reminders.Zone(ctx, channel, id)
	if err != nil {
		g.log.Warn("time zone of a person not read", "channel", channel, "error", err)
	}
	return cmp.Or(zone, g.cfg.Reminders.Zone())
}

// budgetOwner returns whose budget the calls for an account use, and whether these are never
// refused. The linked accounts of a person have one budget.
func (g *Gateway) budgetOwner(channel, id string) (name string, unlimited bool) {
	account := channel + ":" + id
	all := []string{account}
	for person, accounts := range g.cfg.Identity {
		if slices.Contains(accounts, account) {
			account, all = string(conversation.Key("user:"+person)), accounts
		}
	}
	return account, slices.ContainsFunc(all, func(a string) bool { return slices.Contains(g.cfg.Budget.Unlimited, a) })
}
