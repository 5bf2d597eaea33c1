package tools

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation/approvals"
)

// Which calls of a tool a person must allow before they are made.
const (
	ApproveNever       = "never"
	ApproveDestructive = "destructive" // calls of tools that may delete or overwrite something
	ApproveChanges     = "changes"     // calls of tools that may change anything
	ApproveAsk         = "ask"         // every call
)

// Who may answer a question, beside accounts such as "telegram:42".
const (
	ApproverAsker    = "asker"    // the person who wrote a message that the run answers
	ApproverOperator = "operator" // a person who uses the terminal of the gateway or has its token
	ApproverAnyone   = "anyone"   // everybody who may talk where the question is asked
)

// Config is the [tools] section.
type Config struct {
	// Approve says which calls a person must allow before they are made. The sections of servers
	// and tools override it. Default "never".
	Approve string `toml:"approve" oneof:"never destructive changes ask"`
	// Ask are patterns of the names of tools whose calls a person must allow, whatever else
	// is said of them, with * for any characters. Default none.
	Ask []string `toml:"ask"`
	// ApproveTimeout is how long a call waits for an answer. Default 10m.
	ApproveTimeout time.Duration `toml:"approve_timeout" min:"1s" max:"168h"`
	// Approvers say who may answer: "asker", "operator", "anyone", or accounts such as
	// "telegram:42". Default "asker" and "operator".
	Approvers []string `toml:"approvers"`
	// ApproveRemember lets an answer hold for all later calls of the tool in the session.
	// Default false.
	ApproveRemember bool `toml:"approve_remember"`
}

// DefaultConfig returns what holds when the section says nothing.
func DefaultConfig() Config {
	return Config{Approve: ApproveNever, ApproveTimeout: 10 * time.Minute, Approvers: []string{ApproverAsker, ApproverOperator}}
}

// CheckKeys reports approvers that name nobody.
func (c Config) CheckKeys(report func(key, found, allowed string)) {
	const allowed = `"asker", "operator", "anyone", and accounts as "telegram:USER" or "discord:USER", with the person's id there, which is a number`
	if len(c.Approvers) == 0 {
		report("approvers", "an empty list, so that nobody may answer", allowed)
	}
	for _, a := range c.Approvers {
		if !slices.Contains([]string{ApproverAsker, ApproverOperator, ApproverAnyone}, a) && !isAccount(a) {
			report("approvers", fmt.Sprintf("%q", a), allowed)
		}
	}
}

// isAccount reports whether s is a person's account on a platform.
func isAccount(s string) bool {
	channel, user, _ := strings.Cut(s, ":")
	id, err := strconv.ParseUint(user, 10, 64)
	return (channel == "telegram" || channel == "discord") && err == nil && id > 0
}

// MustAsk reports whether a person must allow the calls of a tool.
func (c Config) MustAsk(t Tool) bool {
	if slices.ContainsFunc(c.Ask, func(pattern string) bool { return matches(pattern, t.Name) }) {
		return true
	}
	approve := t.Approve
	if approve == "" {
		approve = c.Approve
	}
	switch approve {
	case ApproveAsk:
		return true
	case ApproveChanges:
		return !t.ReadOnly
	case ApproveDestructive:
		return !t.ReadOnly && !t.Additive
	}
	return false
}

// matches reports whether a name matches a pattern, in which * stands for any characters.
func matches(pattern, name string) bool {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(name)
}

// MayAnswer reports whether a person may answer a question with these askers. An operator
// uses the terminal of the gateway or has its token.
func (c Config) MayAnswer(who approvals.Person, isOperator bool, askers []approvals.Person) bool {
	for _, a := range c.Approvers {
		switch {
		case a == ApproverAnyone,
			a == ApproverOperator && isOperator,
			a == ApproverAsker && slices.Contains(askers, who),
			a == who.Channel+":"+who.ID:
			return true
		}
	}
	return false
}

// ChangedError is the error of a call that was not made, since the server of the tool describes it in another way than when
// people allowed it.
type ChangedError struct {
	Definition string // see Tool.Definition
	Changes    string // for people
}

func (e *ChangedError) Error() string {
	return "not run: its server has changed this tool since it was allowed: " + e.Changes
}

type allowedKey struct{}

// WithAllowed returns a context for a call that people have allowed while the tool had one of these definitions. The call
// is made only if it has one of them still.
func WithAllowed(ctx context.Context, definitions []string) context.Context {
	return context.WithValue(ctx, allowedKey{}, definitions)
}

// AllowedOf returns the definitions that WithAllowed has put into the context, nil for none.
func AllowedOf(ctx context.Context) []string {
	definitions, _ := ctx.Value(allowedKey{}).([]string)
	return definitions
}
