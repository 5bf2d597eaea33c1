// Package command holds the commands of the chat, such as /new and /history: one
// file for each, with its description and what it does. All is the only list of
// them. /help, the menus of the platforms, slash commands and tab completion are
// made of it.
//
// A command reads the store and answers in words. It returns its changes as an effect, which
// the caller commits together with the answer.
package command

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/state"
	"parley/tools"
)

// Command is a word that acts on a session instead of going to the model. It is
// the same in every channel.
type Command struct {
	Name        string // without the slash
	Arguments   string // as /help shows them
	Description string
	Options     []Option // the arguments, for platforms that ask for them one by one
	Private     bool     // the answer concerns only the sender
	EndsRun     bool     // it ends a run that waits for an approval; the others are carried out beside it
	ReadsTalk   bool     // it needs the messages of the active conversation, and is refused where these are damaged

	// Run carries the command out. A result that comes with an error may have a
	// text, which the user is shown when the error is damage of the database.
	Run func(ctx context.Context, env Env, r Request) (Result, error)
}

// Option is one argument of a command: a word, a number or the rest of the line.
type Option struct {
	Name        string // lower case, without spaces
	Description string
	Number      bool     // a whole number from 0 on; else a text
	Default     string   // stands for the option where a later one is given without it
	Choices     []string // the only values that it may have; none = any
}

// Env is what the commands of a gateway work with.
type Env struct {
	Store       *conversation.Store
	Reminders   *reminders.Reminders
	Admins      Admins        // nil: no group has admins
	Frame       *window.Frame // the frame of the session's agent: its system prompt and tools
	Counter     window.Counter
	Model       string       // the model that answers in the session
	UsualModel  string       // the model that answers in the session if none is chosen
	Models      []Choice     // that the sender may choose, without the default one
	Agent       string       // the agent that answers in the session; "" = the default one
	Agents      []Choice     // that the sender may choose, without the default one
	Budget      int          // tokens of a window
	StateBudget int          // tokens of the session state in it
	Limits      state.Limits // when a conversation is over, and what goes over to the next one
	Log         *slog.Logger
	Budgets     Budgets // what /usage shows

	Approvals    tools.Config                       // who may answer, and whether answers may hold for a session
	FromOperator func(in conversation.Inbound) bool // reports whether the operator has sent a message
}

// Choice is a model or an agent that people can choose for a session.
type Choice struct {
	Name    string
	Words   string // what else is said of it; may be ""
	Current bool   // the session has it
}

// Admins knows who administers the groups that people talk in.
type Admins interface {
	// IsAdmin reports whether the sender of a message administers the group that it
	// was written in. It asks the platform where it must; an error says that the
	// platform gives no answer now.
	IsAdmin(ctx context.Context, in conversation.Inbound) (bool, error)
}

// Request is one command that somebody has sent.
type Request struct {
	Session   conversation.Key
	Snapshot  conversation.Snapshot // the session as it is when the command is run
	Message   conversation.Inbound  // the message with the command
	Arguments string                // what follows the name
}

// Result is the answer of a command and what it changes.
type Result struct {
	Text    string
	Actions []conversation.Action    // offered below the text, mostly as buttons
	File    *conversation.Transcript // sent with the text, nil for none
	Effect  conversation.Effect      // on the conversation
	Record  string                   // what the archive keeps of the command, as an internal message; "" = nothing
	Events  []state.Event            // what Record changes in the state of the conversation
	Retry   bool                     // the model answers the last turn again, instead of all the above

	Continue bool // the model is asked to go on with its last answer, instead of all the above
}

// All returns every command but /start, in the order of /help.
func All() []Command {
	return []Command{
		newCommand, historyCommand, searchCommand, resumeCommand, titleCommand, exportCommand, statusCommand, usageCommand,
		modelCommand, agentCommand, instructionsCommand, stateCommand, remindersCommand, stopCommand, continueCommand, retryCommand,
		undoCommand, clearCommand,
		approveCommand, denyCommand, answerCommand, approvalsCommand, helpCommand(),
	}
}

// Find returns the command of a name.
func Find(name string) (c Command, found bool) {
	for _, c := range append(All(), startCommand) {
		if c.Name == name {
			return c, true
		}
	}
	return Command{}, false
}

// Unknown returns the answer to an unknown command.
func Unknown(name string) string {
	hint := "/help lists the commands."
	if near := nearest(name); near != "" {
		hint = fmt.Sprintf("Did you mean /%s? %s", near, hint)
	}
	return fmt.Sprintf("There is no command /%s. %s", name, hint)
}

// nearest returns the command that a mistyped name probably means, "" for none.
func nearest(name string) string {
	for _, c := range All() {
		if strings.HasPrefix(c.Name, name) || strings.HasPrefix(name, c.Name) || oneEditApart(c.Name, name) {
			return c.Name
		}
	}
	return ""
}

// oneEditApart reports whether two words differ by one letter that is added, left
// out or replaced, or by two neighbours that are swapped.
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

// Unreadable answers in a conversation whose messages can't be read, since the
// database is damaged there.
const Unreadable = "⚠️ What is stored of this conversation can't be read: the database of this gateway is damaged. " +
	"Its operator has been told. `/new` begins a fresh conversation."
