package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/agentloop/command"
	"parley/channels/cli"
	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/dbhealth"
	"parley/sessions"
)

// Terminal is a chat on standard input and output.
type Terminal struct {
	Session string // its name; "" = as configured
	Pick    bool   // ask which earlier conversation to go on with
}

// recapTurns is the number of turns that are shown of a conversation that continues.
const recapTurns = 3

func (g *Gateway) addTerminal(ctx context.Context, t Terminal) error {
	t.Session = cmp.Or(t.Session, g.cfg.CLI.Session)
	if err := cli.ValidateSession(t.Session); err != nil {
		return err
	}
	key := cli.Key(t.Session)
	if err := g.lockSession(key); err != nil {
		return err
	}
	interactive := cli.IsInteractive(os.Stdin, os.Stdout)
	if t.Pick {
		if err := g.pick(ctx, key, interactive); err != nil {
			return err
		}
	}
	intro := []string{g.choice.Line()}
	if g.http != nil {
		lines, err := g.signInLines(ctx)
		if err != nil {
			return err
		}
		intro = append(intro, lines...)
	}
	if !interactive {
		fmt.Fprintln(os.Stderr, g.choice.Line())
	} else if recap, err := g.recap(ctx, key); conversation.IsDamaged(err) {
		intro = append(intro, "What was said here can't be read, since the database is damaged: "+dbhealth.Advice+".")
	} else if err != nil {
		return err
	} else {
		intro = append(intro, recap...)
	}
	options := cli.Options{
		Session:     t.Session,
		Err:         os.Stderr,
		Interactive: interactive,
		HistoryPath: historyPath(),
		Intro:       intro,
		Files:       hosted.Uploads{Store: g.store, Log: g.log},
		Logger:      g.log,
		Abandoned:   exitBrokenPipe,
	}
	for _, c := range command.All() {
		options.Commands = append(options.Commands, cli.Command{Name: "/" + c.Name, Description: c.Description})
	}
	options.Commands = append(options.Commands, cli.Command{Name: cli.AttachCommand, Description: "send a file, as /attach FILE what it is"})
	channel, err := cli.New(options)
	if err != nil {
		return err
	}
	g.logs.writeAboveInput(channel.LogWriter())
	g.add(channel, conversation.Scope{Channel: channel.Name(), Key: key})
	g.terminal = channel
	return nil
}

// exitBrokenPipe ends the process with SIGPIPE, like a filter whose output nobody
// reads. It needs no preparation: it leaves no more than a crash would, and the next
// chat answers that.
func exitBrokenPipe() {
	// Go's runtime ends the process with SIGPIPE when a write to standard
	// output finds the pipe broken (os/signal, "SIGPIPE").
	_, _ = os.Stdout.WriteString("\n")
}

// lockSession locks the session for the life of this process.
func (g *Gateway) lockSession(key conversation.Key) error {
	_, err := g.store.Lock(key)
	var locked *conversation.LockedError
	if errors.As(err, &locked) {
		return errors.New(locked.Error() + "; leave that one, or choose another session with --session NAME")
	}
	return err
}

// pick lets the user choose the conversation to go on with.
func (g *Gateway) pick(ctx context.Context, key conversation.Key, interactive bool) error {
	list, _, err := g.store.Conversations(ctx, conversation.ConversationQuery{Key: key, Limit: 20})
	if err != nil {
		return err
	}
	picker := cli.Picker{In: os.Stdin, Out: os.Stdout, Interactive: interactive}
	picked, err := picker.Pick(ctx, list, time.Now())
	if err != nil {
		return err
	}
	locked := func(ctx context.Context, _ conversation.Key, do func(context.Context) error) error { return do(ctx) } // by lockSession
	return sessions.New(g.store, locked, nil).Resume(ctx, key, picked.ID)                                            // the active one too, so that it does not expire now
}

// recap returns the last turns of the active conversation.
func (g *Gateway) recap(ctx context.Context, key conversation.Key) ([]string, error) {
	active, err := g.store.Active(ctx, key)
	if err != nil {
		return nil, err
	}
	page, err := g.store.Messages(ctx, conversation.MessageQuery{Conversation: active.ID, Turns: recapTurns})
	return cli.Recap(page.Messages, time.Now()), err
}

// historyPath returns the file that keeps the lines typed in terminals, in the state
// folder of the XDG Base Directory Specification, or "" to keep them in memory.
func historyPath() string {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil || strings.TrimSpace(home) == "" {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "parley")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	return filepath.Join(dir, "history")
}
