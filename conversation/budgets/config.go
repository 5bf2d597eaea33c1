package budgets

import (
	"fmt"
	"strings"
	"time"

	"parley/conversation/schedule"
)

// Config is the [budget] section. A cap of 0 is none.
type Config struct {
	// PersonTokens and PersonCost are the most that the model calls for one person may use in a
	// day. Costs are in the currency of the prices. Default 0.
	PersonTokens int64   `toml:"person_tokens" min:"0"`
	PersonCost   float64 `toml:"person_cost" min:"0"`
	// SessionTokens and SessionCost are the same for one session. Default 0.
	SessionTokens int64   `toml:"session_tokens" min:"0"`
	SessionCost   float64 `toml:"session_cost" min:"0"`
	// TotalTokens and TotalCost are the same for all calls together. Default 0.
	TotalTokens int64   `toml:"total_tokens" min:"0"`
	TotalCost   float64 `toml:"total_cost" min:"0"`
	// Timezone is the IANA name of the time zone in which a day begins. Empty, the default, is
	// that of the machine.
	Timezone string `toml:"timezone"`
	// Unlimited are accounts, such as "telegram:42", whose calls are never refused. Default
	// none.
	Unlimited []string `toml:"unlimited"`
	// MessagesPerMinute is how many messages of one person are answered in a minute, whether by one
	// answer or by several. Further ones wait for their turn. Default 0: any number.
	MessagesPerMinute int `toml:"messages_per_minute" min:"0" max:"10000"`
}

// CheckKeys reports an unknown time zone, and what is no account.
func (c Config) CheckKeys(report func(key, found, allowed string)) {
	if _, err := c.Zone(); err != nil {
		report("timezone", fmt.Sprintf("%q", c.Timezone), `an IANA time zone such as "Europe/Berlin", or empty`)
	}
	for _, account := range c.Unlimited {
		if channel, id, _ := strings.Cut(account, ":"); channel == "" || strings.TrimSpace(id) == "" || strings.ContainsAny(account, " \t\n") {
			report("unlimited", fmt.Sprintf("%q", account), `accounts such as "telegram:42" or "discord:42"`)
		}
	}
}

// Zone returns the time zone in which a day begins.
func (c Config) Zone() (*time.Location, error) {
	if c.Timezone == "" {
		return time.Local, nil
	}
	return schedule.Zone(c.Timezone)
}

// HasCaps reports whether anything is capped.
func (c Config) HasCaps() bool { return len(c.caps()) > 0 }

// CostCap returns a key that caps a cost, "" if none does.
func (c Config) CostCap() string {
	switch {
	case c.PersonCost > 0:
		return "person_cost"
	case c.SessionCost > 0:
		return "session_cost"
	case c.TotalCost > 0:
		return "total_cost"
	}
	return ""
}

// caps returns the caps that are set.
func (c Config) caps() []Cap {
	var set []Cap
	for _, one := range []Cap{
		{Person, Tokens, c.PersonTokens}, {Person, Cost, Money(c.PersonCost)},
		{Session, Tokens, c.SessionTokens}, {Session, Cost, Money(c.SessionCost)},
		{Total, Tokens, c.TotalTokens}, {Total, Cost, Money(c.TotalCost)},
	} {
		if one.Most > 0 {
			set = append(set, one)
		}
	}
	return set
}
