package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parley/agentloop/window"
	"parley/conversation/state"
	"parley/plaintext"
)

var stateCommand = Command{
	Name: "state", Arguments: "[add rule: TEXT|add decision: TEXT|strike NUMBER]",
	Description: "Show or correct the rules, decisions, files and errors that the assistant is given",
	Options: []Option{
		{Name: "change", Description: "What to do; without it, the state is shown", Choices: []string{addRule, addDecision, strike}},
		{Name: "what", Description: "The rule or the decision in words; to strike one, its number"},
	},
	Private: true, ReadsTalk: true, Run: runState,
}

// What /state can change, as it is written.
const (
	addRule     = "add rule"
	addDecision = "add decision"
	strike      = "strike"
)

func runState(_ context.Context, env Env, r Request) (Result, error) {
	now := r.Snapshot.Conversation.State.WithNumbers()
	if r.Arguments == "" {
		return showState(env, r, now), nil
	}
	if text, found := cutWords(r.Arguments, addRule); found {
		return addNote(now, note{kind: "Rule", Note: state.Note{Text: text}}), nil
	}
	if text, found := cutWords(r.Arguments, addDecision); found {
		return addNote(now, note{kind: "Decision", Note: state.Note{Text: text}}), nil
	}
	if words, found := cutWords(r.Arguments, strike); found {
		return strikeNotes(now, words), nil
	}
	return Result{Text: "`/state` can't do that. `/state` alone shows the rules and decisions, each with a number; " +
		"`/state add rule: TEXT` and `/state add decision: TEXT` add one, `/state strike NUMBER` removes one."}, nil
}

// note is a rule or a decision.
type note struct {
	state.Note
	kind string // Rule or Decision
}

// notesOf returns the rules and the decisions of a state.
func notesOf(s state.State) (notes []note) {
	for _, n := range s.Constraints {
		notes = append(notes, note{n, "Rule"})
	}
	for _, n := range s.Decisions {
		notes = append(notes, note{n, "Decision"})
	}
	return notes
}

func showState(env Env, r Request, now state.State) Result {
	var b strings.Builder
	notes := notesOf(now)
	for _, n := range notes {
		fmt.Fprintf(&b, "- %d. %s: %s\n", n.Number, n.kind, n.Text)
	}
	if len(notes) == 0 {
		b.WriteString("No rule and no decision is noted here. `/state add rule: TEXT` adds one.\n")
	} else {
		fmt.Fprintf(&b, "\n`/state strike %d` removes one, `/state add rule: TEXT` adds one.\n", notes[0].Number)
	}
	if now.Forgotten > 0 {
		fmt.Fprintf(&b, "There was no room here for %s. /search finds them in the conversation.\n", plural(now.Forgotten, "older note"))
	}
	text := window.StateText(r.Snapshot.Conversation, window.FocusOf(r.Snapshot.History, nil), env.Counter, env.StateBudget)
	if text == "" {
		b.WriteString("\nThe assistant is not given this state, because `state_budget` leaves no room for it.")
	} else {
		b.WriteString("\nThe state of this conversation. Once something is noted in it, the assistant is told of it in every turn:\n\n```yaml\n" + text + "```")
	}
	return Result{Text: b.String()}
}

// addNote adds a rule or a decision.
func addNote(now state.State, n note) Result {
	n.Text = strings.Join(strings.Fields(n.Text), " ")
	kind, limit, have := state.Constrained, state.MaxConstraints, len(now.Constraints)
	if n.kind == "Decision" {
		kind, limit, have = state.Decided, state.MaxDecisions, len(now.Decisions)
	}
	word := strings.ToLower(n.kind)
	switch length := len([]rune(n.Text)); {
	case n.Text == "":
		return Result{Text: fmt.Sprintf("Say what it is: `/state add %s: TEXT`.", word)}
	case length > state.MaxNote:
		return Result{Text: fmt.Sprintf("A %s has at most %d letters, and this has %d.", word, state.MaxNote, length)}
	case have >= limit && !slices.ContainsFunc(notesOf(now), func(old note) bool { return old.kind == n.kind && strings.EqualFold(old.Text, n.Text) }):
		return Result{Text: fmt.Sprintf("There are %d %ss already. `/state strike NUMBER` makes room for another.", have, word)}
	}
	event := state.Event{Kind: kind, Text: n.Text, Set: true}
	for _, kept := range notesOf(now.With(event)) {
		if kept.kind == n.kind && strings.EqualFold(kept.Text, n.Text) {
			n.Number = kept.Number
		}
	}
	return Result{
		Text: fmt.Sprintf("%s %d is kept: %s. The assistant is told of it in every turn; `/state strike %d` removes it.",
			n.kind, n.Number, quoted(n.Text), n.Number),
		Record: fmt.Sprintf("[/state: %s %d was added: %s]", word, n.Number, n.Text),
		Events: []state.Event{event},
	}
}

// strikeNotes removes the rules and decisions that words name by their numbers, or one
// by its text.
func strikeNotes(now state.State, words string) Result {
	notes := notesOf(now)
	named, unknown := namedNotes(notes, words)
	switch {
	case words == "":
		return Result{Text: "Say which: `/state strike NUMBER`. `/state` shows the numbers."}
	case unknown != "":
		return Result{Text: fmt.Sprintf("There is no rule or decision %s here; `/state` shows them with their numbers.", quoted(plaintext.ShortLine(unknown, 60)))}
	}
	var said, record []string
	var events []state.Event
	for _, n := range named {
		said = append(said, fmt.Sprintf("%s %d, %s", strings.ToLower(n.kind), n.Number, quoted(n.Text)))
		record = append(record, fmt.Sprintf("%s %d: %s", strings.ToLower(n.kind), n.Number, n.Text))
		events = append(events, state.Event{Kind: state.Withdrawn, Text: n.Text})
	}
	return Result{
		Text:   "Struck: " + strings.Join(said, "; ") + ".",
		Record: "[/state: struck " + strings.Join(record, "; ") + "]",
		Events: events,
	}
}

// namedNotes returns the notes that words name by number, or one by its text. unknown holds
// the words that name no note.
func namedNotes(notes []note, words string) (named []note, unknown string) {
	for _, n := range notes {
		if strings.EqualFold(n.Text, words) {
			return []note{n}, ""
		}
	}
	for word := range strings.FieldsFuncSeq(words, func(r rune) bool { return strings.ContainsRune(" ,\t\n", r) }) {
		number, err := strconv.ParseInt(strings.Trim(word, "#."), 10, 64)
		i := slices.IndexFunc(notes, func(n note) bool { return n.Number == number })
		if err != nil || i < 0 {
			return nil, word
		}
		if !slices.Contains(named, notes[i]) {
			named = append(named, notes[i])
		}
	}
	return named, ""
}
