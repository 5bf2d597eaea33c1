package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"parley/agentloop/command"
	"parley/channels/cli"
	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/dbhealth"
	"parley/internal/clock"
	"parley/plaintext"
	"parley/sessions"
)

// Terminal is a chat on standard input and output.
type Terminal struct {
	In, Out *os.File  // nil: standard input and output
	Err     io.Writer // nil: standard error

	Session string // name of the session; "" = as configured
	Folder  string // where files that come with replies are put; "" = the working folder
	Pick    bool   // ask which earlier conversation to go on with

	// Without a terminal on standard input and output:
	Message string // the only message; "" = standard input is read
	Lines   bool   // every line of the input is a message; else all of it is one
}

// recapTurns is the number of turns that are shown of a conversation that continues.
const recapTurns = 3

func (g *Gateway) addTerminal(ctx context.Context, t Terminal, getenv func(string) string) error {
	t.Session, t.In, t.Out = cmp.Or(t.Session, g.cfg.CLI.Session), cmp.Or(t.In, os.Stdin), cmp.Or(t.Out, os.Stdout)
	if t.Err == nil {
		t.Err = os.Stderr
	}
	if err := cli.ValidateSession(t.Session); err != nil {
		return err
	}
	key := cli.Key(t.Session)
	if err := g.lockSession(ctx, key, t); err != nil {
		return err
	}
	interactive := t.Message == "" && cli.IsInteractive(t.In, t.Out)
	if t.Pick {
		if err := g.pick(ctx, key, cli.Picker{In: t.In, Out: t.Out, Interactive: interactive}); err != nil {
			return err
		}
	}
	intro, err := g.intro(ctx, t, interactive)
	if err != nil {
		return err
	}
	var recap []conversation.Message
	if interactive {
		recap, err = g.recap(ctx, key)
		if conversation.IsDamaged(err) {
			intro, err = append(intro, "What was said here can't be read, since the database is damaged: "+dbhealth.Advice+"."), nil
		}
		if err != nil {
			return err
		}
	}
	channel, err := cli.New(g.terminalOptions(t, interactive, intro, recap, statePath(getenv, "history")))
	if err != nil {
		return err
	}
	g.add(channel, conversation.Scope{Channel: channel.Name(), Key: key})
	g.terminal = channel
	return nil
}

func (g *Gateway) terminalOptions(t Terminal, interactive bool, intro []string, recap []conversation.Message, historyPath string) cli.Options {
	options := cli.Options{
		Session:     t.Session,
		In:          t.In,
		Out:         t.Out,
		Err:         t.Err,
		Interactive: interactive,
		Message:     t.Message,
		Drain:       g.cfg.Agent.DrainTimeout,
		Lines:       t.Lines || term.IsTerminal(int(t.In.Fd())),
		Folder:      t.Folder,
		HistoryPath: historyPath,
		Intro:       intro,
		Recap:       recap,
		Vision:      g.sees(),
		Files:       hosted.Uploads{Store: g.store, Log: g.log, Most: g.cfg.Files.Limits().MaxFile},
		Logger:      g.log,
		Thought:     func(ctx context.Context) (string, error) { return g.lastThought(ctx, cli.Key(t.Session)) },
		Abandoned:   exitBrokenPipe,
	}
	for _, c := range command.All() {
		options.Commands = append(options.Commands, cli.Command{Name: "/" + c.Name, Description: c.Description})
	}
	options.Commands = append(options.Commands, cli.Command{Name: cli.AttachCommand, Description: "Send a file: /attach FILE what it is"})
	options.Commands = append(options.Commands, cli.Command{Name: cli.ThoughtCommand, Description: "Show what the model thought before its last answer"})
	return options
}

// intro returns the lines that a chat begins with: the model and its problem, and links.
// Without a terminal it prints what there is of them to t.Err, and returns none.
func (g *Gateway) intro(ctx context.Context, t Terminal, interactive bool) ([]string, error) {
	if t.Message != "" { // a problem of the model is told with the answer that fails
		return nil, nil
	}
	lines := []string{g.choice.Line()}
	if problem := g.modelProblem(ctx, quickCheck); problem != nil {
		lines = append(lines, "⚠ "+plaintext.ForTerminal(problem.Error()))
	}
	if interactive && g.logFile != "" {
		lines = append(lines, "Log: "+g.logFile)
	}
	if g.http != nil {
		links, err := g.signInLines(ctx)
		if err != nil {
			return nil, err
		}
		lines = append(lines, links...)
	}
	if !interactive {
		fmt.Fprintln(t.Err, strings.Join(lines, "\n"))
		return nil, nil
	}
	return lines, nil
}

// exitBrokenPipe ends the process with SIGPIPE, like a filter whose output nobody
// reads. It needs no preparation: it leaves no more than a crash would, and the next
// chat answers that.
func exitBrokenPipe() {
	// Go's runtime ends the process with SIGPIPE when a write to standard
	// output finds the pipe broken (os/signal, "SIGPIPE").
	_, _ = os.Stdout.WriteString("\n")
}

// lockSession locks the session for the life of this process. If another has it, a
// question waits for that one, and a chat ends with words that say how to chat beside it.
func (g *Gateway) lockSession(ctx context.Context, key conversation.Key, t Terminal) error {
	for told := false; ; {
		_, err := g.store.Lock(key)
		var locked *conversation.LockedError
		if !errors.As(err, &locked) {
			return err
		}
		if t.Message == "" {
			return fmt.Errorf("%w; leave that one, or open a chat beside it: %s", locked, g.command("chat --session second"))
		}
		if !told {
			fmt.Fprintf(t.Err, "gateway: %s; waiting until it is free\n", plaintext.ForTerminal(locked.Error()))
			told = true
		}
		if err := clock.Sleep(ctx, lockRetry); err != nil {
			return err
		}
	}
}

// lockRetry is the wait between two attempts to lock a session that another process has.
const lockRetry = 200 * time.Millisecond

// command returns a command for this gateway's database, as it can be typed in the folder where the
// gateway was started.
func (g *Gateway) command(words string) string {
	command := os.Args[0]
	if g.configPath != "" {
		command += " -c " + g.configPath
	}
	return command + " " + words
}

// pick lets the user choose the conversation to go on with.
func (g *Gateway) pick(ctx context.Context, key conversation.Key, picker cli.Picker) error {
	list, _, err := catalog.New(g.store).Conversations(ctx, catalog.ConversationQuery{Key: key, Limit: 20})
	if err != nil {
		return err
	}
	picked, err := picker.Pick(ctx, list, time.Now())
	if err != nil {
		return err
	}
	locked := func(ctx context.Context, _ conversation.Key, do func(context.Context) error) error { return do(ctx) } // by lockSession
	ending := endingQuestions(g.store, g.cfg.Agent, g.log, locked)
	return sessions.New(g.store, locked, ending, nil).Resume(ctx, key, picked.ID) // the active one too, so that it does not expire now
}

// recap returns the messages of the last turns of the active conversation.
func (g *Gateway) recap(ctx context.Context, key conversation.Key) ([]conversation.Message, error) {
	active, err := g.store.Active(ctx, key)
	if err != nil {
		return nil, err
	}
	page, err := g.store.Messages(ctx, conversation.MessageQuery{Conversation: active.ID, Turns: recapTurns})
	return page.Messages, err
}

// lastThought returns what the model thought in the last turn of the active conversation, also
// before it called tools; "" for nothing.
func (g *Gateway) lastThought(ctx context.Context, key conversation.Key) (string, error) {
	active, err := g.store.Active(ctx, key)
	if errors.Is(err, conversation.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	page, err := g.store.Messages(ctx, conversation.MessageQuery{Conversation: active.ID, View: conversation.ViewTalk, Turns: 1})
	var thoughts []string
	for _, m := range page.Messages {
		if m.Reasoning != "" {
			thoughts = append(thoughts, strings.TrimSpace(m.Reasoning))
		}
	}
	return strings.Join(thoughts, "\n\n"), err
}

// statePath returns a file in the state folder of the XDG Base Directory Specification,
// or "" where there can be none.
func statePath(getenv func(string) string, name string) string {
	dir := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "parley")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	return filepath.Join(dir, name)
}
