package tools

import (
	"context"
	"fmt"
	"strings"

	"parley/conversation/catalog"
	"parley/conversation/state"
)

// recallOthers is how many other conversations of the session a summary names.
const recallOthers = 5

// summary returns a conversation at a glance: its size and dates, its state, its summary
// if there is one, and how some of its turns begin.
func (r *recall) summary(ctx context.Context, a recallArguments) (string, error) {
	o, err := r.archive.Overview(ctx, r.session.Key, r.session.Conversation, a.limit(recallOpenings))
	if err != nil {
		return "", err
	}
	others, err := r.others(ctx)
	if err != nil {
		return "", err
	}
	c := o.Conversation
	head := fmt.Sprintf("%s: %s, %s, about %s, from %s to %s.", titleOf(c.Title), plural(o.Turns, "turn"),
		plural(c.Messages, "message"), plural(c.Tokens, "token"), when(c.CreatedAt), when(c.UpdatedAt))
	head += stateLines(c.State)
	if o.Summary.Content != "" {
		head += fmt.Sprintf("\n\nSummary made at %s, of messages 1 to %d:\n%s", when(o.Summary.At), o.Summary.Through, o.Summary.Content)
	}
	if len(o.Openings) > 0 {
		head += "\n\nHow some turns begin:"
	}
	var p page
	for _, turn := range o.Openings {
		m := turn.Messages[0]
		p.blocks = append(p.blocks, block{head: fmt.Sprintf("Turn %d, %s: %s", turn.Number, when(m.At), firstLine(m.Content))})
	}
	foot := others + footOf("whole turns: action range with start_turn"+r.ofConversation())
	p.frame = func(int) (string, string) { return head, foot }
	return p.fit(r.counter, r.tokens), nil
}

// ofConversation returns what a call needs to ask about the same conversation again.
func (r *recall) ofConversation() string {
	if r.session.Conversation == r.active {
		return ""
	}
	return " and conversation " + r.session.Conversation
}

// stateLines returns the state of a conversation: rules, decisions, files and errors, the
// newest last.
func stateLines(s state.State) string {
	var b strings.Builder
	section := func(name string, notes []state.Note) {
		if len(notes) == 0 {
			return
		}
		b.WriteString("\n\n" + name + ":")
		for _, n := range notes {
			fmt.Fprintf(&b, "\n- %s (%s)", n.Text, turnOf(n)) // a note is one short line
		}
	}
	section("Rules", s.Constraints)
	section("Decisions", s.Decisions)
	section("Files", s.Files)
	var failures []state.Note
	for _, f := range s.Failures {
		text := f.Text + ": " + f.Error
		if f.Resolved {
			text += " [resolved]"
		}
		failures = append(failures, state.Note{Text: text, Turn: f.Turn})
	}
	section("Errors", failures)
	return b.String()
}

// turnOf returns when something was noted.
func turnOf(n state.Note) string {
	if n.Turn == 0 {
		return "from an earlier conversation"
	}
	return fmt.Sprintf("turn %d", n.Turn)
}

// others returns a line for each of the session's other conversations that were used last.
func (r *recall) others(ctx context.Context) (string, error) {
	list, next, err := catalog.New(r.store).Conversations(ctx, catalog.ConversationQuery{Key: r.session.Key, Limit: recallOthers + 1})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	shown := 0
	for _, c := range list {
		if c.ID == r.session.Conversation || shown == recallOthers {
			continue
		}
		fmt.Fprintf(&b, "\n- %s, %s to %s, %s, id %s", titleOf(c.Title), when(c.CreatedAt), when(c.UpdatedAt), plural(c.Messages, "message"), c.ID)
		shown++
	}
	if shown == 0 {
		return "", nil
	}
	more := ""
	if next != "" {
		more = ", those used last"
	}
	return "Other conversations of this chat" + more + ":" + b.String() + "\n\n", nil
}
