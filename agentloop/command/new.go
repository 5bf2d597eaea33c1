package command

import (
	"context"
	"fmt"
	"strings"

	"parley/conversation"
	"parley/conversation/state"
	"parley/plaintext"
)

var newCommand = Command{
	Name: "new", EndsRun: true, Arguments: "[keep decisions|keep nothing] [title]",
	Description: "Begin a new conversation; the old one is archived, and its rules carry over",
	Options: []Option{
		{Name: "keep", Description: "What carries over: the rules (default), the decisions as well, or nothing", Choices: []string{keepRules, keepDecisions, keepNothing}},
		{Name: "title", Description: "The title of the new conversation"},
	},
	Run: beginConversation,
}

// What /new may take along, as it is written.
const (
	keepRules     = "keep rules"
	keepDecisions = "keep decisions"
	keepNothing   = "keep nothing"
)

func beginConversation(_ context.Context, env Env, r Request) (Result, error) {
	c := r.Snapshot.Conversation
	carry, rest := carriedBy(r.Arguments, env.Limits.Carry)
	title := plaintext.ShortLine(rest, maxTitle)
	if c.Messages == 0 && c.Title == "" && r.Arguments == "" && !r.Snapshot.Damaged {
		return Result{Text: "A new conversation begins." + carriedOver(c.State)}, nil // the active one is still empty, and goes on
	}
	text := "A new conversation begins."
	if title != "" {
		text = fmt.Sprintf("A new conversation begins: %s.", quoted(title))
	}
	if c.Messages > 0 {
		text += fmt.Sprintf(" %s, with %s, is kept: /history list.", capital(named(c)), plural(c.Messages, "message"))
	}
	text += carriedOver(c.State.Carried(carry))
	return Result{Text: text, Effect: conversation.Effect{Archive: true, Carry: carry, Title: title}}, nil
}

// carriedBy returns what the arguments of /new take along, and what follows on that.
func carriedBy(arguments string, usual state.Carry) (carry state.Carry, rest string) {
	for words, carry := range map[string]state.Carry{
		keepRules:     {Rules: true},
		keepDecisions: {Rules: usual.Rules, Decisions: true},
		keepNothing:   {},
	} {
		if rest, found := cutWords(arguments, words); found {
			return carry, rest
		}
	}
	return usual, arguments
}

// cutWords returns what follows on some words, which are compared without regard to
// case. A colon after them is left out.
func cutWords(text, words string) (rest string, found bool) {
	text = strings.TrimSpace(text)
	if len(text) < len(words) || !strings.EqualFold(text[:len(words)], words) {
		return text, false
	}
	rest = text[len(words):]
	if rest != "" && !strings.ContainsAny(rest[:1], ": \t\n") {
		return text, false
	}
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), ":")), true
}

// maxCarried is how many rules and decisions the answer of /new names.
const maxCarried = 10

// carriedOver returns which rules and decisions a new conversation begins with, and
// how to remove them; "" for none.
func carriedOver(s state.State) string {
	notes := notesOf(s)
	if len(notes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\nThese carry over:\n")
	for _, n := range notes[:min(len(notes), maxCarried)] {
		fmt.Fprintf(&b, "\n- %d. %s: %s", n.Number, n.kind, n.Text)
	}
	if more := len(notes) - maxCarried; more > 0 {
		fmt.Fprintf(&b, "\n- and %d more: `/state`", more)
	}
	fmt.Fprintf(&b, "\n\n`/state strike %d` removes one; `/new %s` begins without any.", notes[0].Number, keepNothing)
	return b.String()
}

// ExpiryNotice returns the text before the first reply of a conversation that follows an
// expired one.
func ExpiryNotice(c conversation.Conversation) string {
	why := fmt.Sprintf("the last one was not used for %s", span(c.Idle))
	if c.Filled > 0 {
		why = "the last one has reached " + plural(c.Filled, "message")
	}
	rules := ""
	if len(c.State.Constraints) > 0 {
		rules = " Its rules carry over: /state."
	}
	return fmt.Sprintf("A new conversation begins: %s. /history list has it.%s\n\n", why, rules)
}
