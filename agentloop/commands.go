package agentloop

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
)

// Command is one of the words that act on a session instead of going to the
// model. They are the same in every channel: /help, the menus of the platforms,
// slash commands and tab completion are made of this description alone.
type Command struct {
	Name        string // without the slash
	Arguments   string // as /help shows them
	Description string
	Options     []Option // what may stand behind the name, for platforms that ask for it word by word
	Private     bool     // the answer is of interest to who asks alone

	run func(l *loop, ctx context.Context, turn conversation.Turn, arguments string) (result, error)
}

// Option is a word, or a number of words, behind a command's name.
type Option struct {
	Name        string // lower case, without spaces
	Description string
	Number      bool   // a whole number from 0 on; else a text
	Default     string // stands for the option where a later one is given without it
}

// result is what a command says and does.
type result struct {
	text    string
	actions []conversation.Action // what may be asked next
	file    *conversation.Transcript
	effect  conversation.Effect
}

// Commands lists every command, in the order of /help.
func Commands() []Command {
	return []Command{
		{
			Name: "new", Arguments: "[title]", Description: "Begin a new conversation; the present one is kept",
			Options: []Option{{Name: "title", Description: "What the new conversation is called"}},
			run:     newConversation,
		},
		{
			Name: "history", Arguments: "[n] [skip]", Description: "Show the last exchanges, older ones, earlier conversations",
			Options: []Option{
				{Name: "which", Description: "\"list\" for the conversations of this place, \"#2\" for one of them"},
				{Name: "count", Description: "How many exchanges; of the list: which page", Number: true, Default: "5"},
				{Name: "skip", Description: "How many of the newest exchanges to leave out", Number: true},
			},
			Private: true, run: showHistory,
		},
		{
			Name: "search", Arguments: "WORDS", Description: "Find what was said in this place, also in earlier conversations",
			Options: []Option{{Name: "words", Description: "What to look for; words in quotes stand together"}},
			Private: true, run: searchMessages,
		},
		{
			Name: "resume", Arguments: "[n|title|id]", Description: "List the conversations of this place, or go on with one of them",
			Options: []Option{{Name: "which", Description: "Its number in the list, a part of its title, or its id; without it, the list"}},
			run:     resumeConversation,
		},
		{
			Name: "title", Arguments: "[text]", Description: "Show what this conversation is called, or name it",
			Options: []Option{{Name: "text", Description: "What this conversation is called from now on"}},
			run:     titleConversation,
		},
		{
			Name: "export", Arguments: "[md|json|jsonl]", Description: "Send this conversation as a file",
			Options: []Option{{Name: "format", Description: "\"md\" to be read, \"json\" or \"jsonl\" for programs", Default: "md"}},
			Private: true, run: exportConversation,
		},
		{Name: "status", Description: "Show the model, the conversation and its size", Private: true, run: showStatus},
		{Name: "state", Description: "Show what the assistant is always told of this conversation", Private: true, run: showState},
		{Name: "stop", Description: "End the answer that is being written", run: nothingToStop},
		{Name: "retry", Description: "Answer the last message again, or all that got no answer"}, // a run, see loop.retryLast
		{Name: "undo", Description: "Take back the last exchange; it is kept, out of the talk", run: undoExchange},
		{
			Name: "clear", Description: "Delete this conversation for good",
			Options: []Option{{Name: "confirmation", Description: "What /clear asks for: \"yes\", and in a group a code"}},
			run:     clearConversation,
		},
		{Name: "help", Description: "Show the commands", run: showHelp},
	}
}

// isStop reports whether a message is the command /stop.
func isStop(in conversation.Inbound) bool {
	command, is := in.Command()
	return is && command.Name == "stop"
}

// untilCommand is what one run answers: the messages before the next command.
func untilCommand(waiting []conversation.Inbound) []conversation.Inbound {
	for i, in := range waiting {
		if _, is := in.Command(); is {
			return waiting[:i]
		}
	}
	return waiting
}

// settledByStop is how many waiting messages, from the first on, a /stop
// among them settles: itself and the texts before it. 0 when another command,
// or none, comes after the texts.
func settledByStop(waiting []conversation.Inbound) int {
	n := len(untilCommand(waiting))
	if n < len(waiting) && isStop(waiting[n]) {
		return n + 1
	}
	return 0
}

// command executes the command that waits first and commits what it did.
func (l *loop) command(intake, runs context.Context, turn conversation.Turn, c conversation.Command) bool {
	unread := turn.Damaged && needsPresent(turn, c.Name)
	if c.Name == "retry" && !unread {
		return l.retryLast(intake, runs, turn)
	}
	started := time.Now()
	did := result{text: unreadable}
	err := guard(func() (err error) {
		if !unread {
			did, err = l.execute(runs, turn, c)
		}
		return err
	})
	run := l.newRun(turn, turn.Waiting[:1], started)
	run.Kind, run.Status, run.Effect = conversation.KindCommand, conversation.StatusDone, did.effect
	if err != nil {
		l.Log.Error("command failed", "session", l.key, "command", c.Name, "run", run.ID(), "error", err)
		run.Status, run.Error = conversation.StatusFailed, err.Error()
		did.text = fmt.Sprintf("Something went wrong (run %d).", run.ID())
		if conversation.IsDamaged(err) {
			did.text = damagedWords(c.Name)
		}
	}
	run.Replies = l.reply(turn.Waiting[:1], did.text)
	run.Replies[0].Actions, run.Replies[0].Transcript = did.actions, did.file
	return l.commit(runs, run)
}

func (l *loop) execute(ctx context.Context, turn conversation.Turn, c conversation.Command) (result, error) {
	for _, known := range Commands() {
		if known.Name == c.Name {
			return known.run(l, ctx, turn, c.Arguments)
		}
	}
	return result{text: unknownCommand(c.Name)}, nil
}

func unknownCommand(name string) string {
	hint := "/help lists the commands."
	if near := nearest(name); near != "" {
		hint = fmt.Sprintf("Did you mean /%s? %s", near, hint)
	}
	return fmt.Sprintf("There is no command /%s. %s", name, hint)
}

func newConversation(_ *loop, _ context.Context, turn conversation.Turn, title string) (result, error) {
	c := turn.Conversation
	title = window.OneLine(title, 80)
	if c.Messages == 0 && c.Title == "" && title == "" && !turn.Damaged {
		return result{text: "A new conversation begins."}, nil // the empty one that there is
	}
	text := "A new conversation begins."
	if title != "" {
		text = fmt.Sprintf("A new conversation begins: %s.", quoted(title))
	}
	if c.Messages > 0 {
		text += fmt.Sprintf(" %s, with %s, is kept: /history list.", capital(named(c)), plural(c.Messages, "message"))
	}
	return result{text: text, effect: conversation.Effect{Archive: true, Title: title}}, nil
}

func showStatus(l *loop, _ context.Context, turn conversation.Turn, _ string) (result, error) {
	c := turn.Conversation
	shown := l.windowOf(turn, nil).Counted(l.Budget).Tokens
	var b strings.Builder
	fmt.Fprintf(&b, "- **Model:** %s\n", l.Model.Model())
	switch {
	case turn.Damaged:
		b.WriteString("- **Conversation:** can't be read, since the database is damaged; /new begins a fresh one\n")
	case c.Messages == 0:
		b.WriteString("- **Conversation:** new, no messages yet\n")
	default:
		fmt.Fprintf(&b, "- **Conversation:** %s (%s)\n", orUntitled(c.Title), c.ID)
		fmt.Fprintf(&b, "- **Messages:** %d\n", c.Messages)
		fmt.Fprintf(&b, "- **Age:** begun %s ago, last used %s ago\n", span(time.Since(c.CreatedAt)), span(time.Since(c.UpdatedAt)))
		if l.renewed(turn).Conversation.Rested > 0 {
			b.WriteString("- **Expired:** the next message begins a new conversation; /history list will have this one\n")
		}
	}
	fmt.Fprintf(&b, "- **Tokens:** %d in the window of at most %d, %d in the whole conversation\n", shown, l.Budget, c.Tokens)
	fmt.Fprintf(&b, "- **Session:** %s", l.key)
	return result{text: b.String()}, nil
}

func nothingToStop(*loop, context.Context, conversation.Turn, string) (result, error) {
	return result{text: "Nothing is running."}, nil
}

func showHelp(*loop, context.Context, conversation.Turn, string) (result, error) {
	var b strings.Builder
	for _, c := range Commands() {
		fmt.Fprintf(&b, "- `/%s` — %s\n", strings.TrimSpace(c.Name+" "+c.Arguments), c.Description)
	}
	b.WriteString("\nEverything else is said to the assistant.")
	return result{text: b.String()}, nil
}

// retryLast answers the last message again. An answer that it has is replaced
// in the window and in /history, and stays in the archive. Messages that got
// none, as in an outage of the model, make one exchange with those after them,
// and are answered together: none of them is passed over. What was edited meanwhile
// is told with them.
func (l *loop) retryLast(intake, runs context.Context, turn conversation.Turn) bool {
	last := window.LastExchange(turn.History)
	users := usersOf(last)
	if len(users) == 0 { // nobody has asked yet, though a program may have written
		run := l.newRun(turn, turn.Waiting[:1], time.Now())
		run.Kind, run.Status = conversation.KindCommand, conversation.StatusDone
		run.Replies = l.reply(turn.Waiting[:1], "There is nothing to answer again yet.")
		return l.commit(runs, run)
	}
	q := question{turn: turn, took: turn.Waiting[:1], notes: turn.Notes, stored: len(users), again: users[len(users)-1].Seq}
	q.users = slices.Concat(users, l.noteMessages(turn.Notes))
	q.turn.History = turn.History[:len(turn.History)-len(last)]
	if n := settledByStop(turn.Waiting[1:]); n > 0 {
		return l.commit(runs, l.stoppedRun(q, turn.Waiting[:1+n], answer{}, time.Now()))
	}
	if _, ok := l.takeSlot(intake); !ok {
		return intake.Err() == nil
	}
	defer func() { <-l.slots }()
	return l.answer(runs, q)
}

func usersOf(exchange []conversation.Message) []conversation.Message {
	n := 0
	for n < len(exchange) && exchange[n].Role == conversation.RoleUser {
		n++
	}
	return exchange[:n:n]
}

// nearest is the command that a mistyped name was probably meant to be.
func nearest(name string) string {
	for _, c := range Commands() {
		if strings.HasPrefix(c.Name, name) || strings.HasPrefix(name, c.Name) || oneEditApart(c.Name, name) {
			return c.Name
		}
	}
	return ""
}

// oneEditApart: a letter more, less, other, or two swapped.
func oneEditApart(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 1:
		return a[i:] == b[i+1:]
	case 0:
		swapped := i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		return swapped || i < len(a) && a[i+1:] == b[i+1:]
	}
	return false
}

func named(c conversation.Conversation) string {
	if c.Title == "" {
		return "this conversation"
	}
	return "the conversation " + quoted(c.Title)
}

func orUntitled(title string) string {
	if title == "" {
		return "untitled"
	}
	return title
}

func quoted(text string) string { return "“" + text + "”" }

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

// span is a duration as people say it.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return plural(int64(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return plural(int64(d/time.Hour), "hour")
	}
	return plural(int64(d/(24*time.Hour)), "day")
}
