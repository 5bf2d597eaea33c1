package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/channels/cli"
	"parley/config"
	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/files"
	"parley/gateway"
	"parley/importer"
	"parley/llm"
	"parley/plaintext"
)

func importCommand(configPath *string) *cobra.Command {
	var format, session string
	var dry, same bool
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Import conversations from ChatGPT's data export, JSON lines or an export",
		Long: "FILE is conversations.json of ChatGPT's data export, the .zip with it, a file of JSON lines, or an export; - is\n" +
			"standard input. Each line is a conversation ({\"messages\": [...]}) or a message ({\"role\": ..., \"content\": ...}).\n" +
			"Of what `gateway sessions export` has written as json or jsonl, everything is kept. They become archived\n" +
			"conversations of one session, where /history list shows them; with --same-session, those of an export go\n" +
			"into the session it came from. Importing a file again adds nothing. It works while a gateway runs.",
		Example: "  gateway import conversations.json --dry-run",
		Args:    cobra.ExactArgs(1),
		PreRunE: func(*cobra.Command, []string) error {
			if session != "" && same {
				return errors.New("found --session and --same-session, allowed: one of them")
			}
			return nil
		},
		RunE: withStore(configPath, func(cmd *cobra.Command, args []string, store *conversation.Store) error {
			cfg, err := config.Load(*configPath, os.Getenv)
			if err != nil {
				return err
			}
			key := cli.Key(cfg.CLI.Session)
			if session != "" {
				if key, err = importTarget(cmd, store, session); err != nil {
					return err
				}
			}
			file, err := importer.Open(args[0], importer.Format(format))
			if err != nil {
				return err
			}
			defer file.Close()
			in := &importing{store: store, counter: llm.NewCounter(cfg.LLM.Model), limits: cfg.Files.Limits(), key: key, dry: dry, same: same}
			if keep := cfg.Conversation.Retention; keep > 0 {
				in.keptFrom = time.Now().Add(-keep)
			}
			return in.run(cmd, file)
		}),
	}
	command.Flags().StringVar(&format, "format", "", "`FORMAT` of the file: chatgpt, jsonl or json (default by how it begins)")
	command.Flags().StringVar(&session, "session", "", "session `KEY` to import into (default the terminal's, cli:default)")
	command.Flags().BoolVar(&same, "same-session", false, "import exports into the sessions that they are of, which are made as they were")
	command.Flags().BoolVar(&dry, "dry-run", false, "show what would be imported, and import nothing")
	return command
}

// importTarget returns the session with a key: an existing one, or any session of a
// terminal.
func importTarget(cmd *cobra.Command, store *conversation.Store, name string) (conversation.Key, error) {
	if terminal, is := strings.CutPrefix(name, string(cli.Key(""))); is {
		return cli.Key(terminal), cli.ValidateSession(terminal)
	}
	session, err := findSession(cmd, store, conversation.Key(name))
	return session.Key, err
}

// importing is an import under way.
type importing struct {
	store   *conversation.Store
	counter *llm.Counter
	limits  files.Limits
	key     conversation.Key
	dry     bool
	same    bool            // exported sessions are imported under their own keys
	into    *archive.Import // nil for a dry run

	keptFrom time.Time // the next cleanup deletes conversations that were last used before this; zero: it deletes none

	seen     map[string]bool // IDs of conversations that a dry run has read
	added    int64           // conversations that were added
	messages int64
	tokens   int64
	known    int64
	broken   []string // why conversations were left out: the first maxBroken of them
	left     int64    // number of conversations that were left out
	doomed   int64    // added conversations that the next cleanup deletes
}

// maxBroken is how many broken entries are listed one by one.
const maxBroken = 20

func (in *importing) run(cmd *cobra.Command, file *importer.File) (err error) {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	if !in.dry {
		if in.into, err = archive.New(in.store).Import(ctx, in.key); err != nil {
			return err
		}
		in.into.Files = importer.Keeping(in.store, in.limits)
	}
	bar := newProgress(cmd.ErrOrStderr(), file.Size(), "Importing")
	err = file.Read(in.key, time.Now(), func(n int) { _ = bar.Add(n) }, func(e importer.Entry) error { return in.add(ctx, e) })
	_ = bar.Finish() // a picture of the work, not the work
	if in.into != nil {
		err = cmp.Or(err, in.into.Close(context.WithoutCancel(ctx))) // which fails for the same reason
	}
	if said := in.report(cmd.OutOrStdout(), cmd.ErrOrStderr()); err == nil {
		return said
	}
	if ctx.Err() != nil {
		return errors.New("interrupted; import the file again, and it goes on where it was")
	}
	return err
}

// add imports one conversation.
func (in *importing) add(ctx context.Context, e importer.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.Err != nil {
		in.leaveOut(e.Place, e.Err)
		return nil
	}
	if e.Archived != nil {
		return in.addArchived(ctx, e.Place, e.Archived)
	}
	known, err := in.isKnown(ctx, e.Conversation.ID)
	if err != nil {
		return err
	}
	if known {
		in.known++
		return nil
	}
	e.Conversation.Tokens = importer.Tokens(in.counter)
	if in.into != nil {
		if _, err := in.into.Add(ctx, e.Conversation); err != nil {
			return fmt.Errorf("%s: %w", e.Place, err)
		}
	}
	tokens := int64(0)
	for _, m := range e.Conversation.Messages {
		if in.into == nil {
			m.Tokens = e.Conversation.Tokens(m)
		}
		tokens += int64(m.Tokens)
	}
	in.count(e.Conversation.UpdatedAt, int64(len(e.Conversation.Messages)), tokens)
	return nil
}

// addArchived imports one conversation of an archive.
func (in *importing) addArchived(ctx context.Context, place string, a *importer.Archived) error {
	known, err := in.isKnown(ctx, a.Head.ID)
	if err != nil {
		return err
	}
	if in.into != nil && in.same {
		err = in.into.Into(ctx, a.Session)
	}
	switch {
	case err == nil && known:
		in.known++
		return nil
	case err == nil && in.into != nil:
		_, err = in.into.Restore(ctx, a.Head, a.Records)
	case err == nil:
		for _, broken := range a.Records {
			err = errors.Join(err, broken)
		}
	}
	if errors.Is(err, conversation.ErrInvalid) {
		in.leaveOut(place, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	in.count(a.Head.UpdatedAt, a.Head.Messages, a.Head.Tokens)
	return nil
}

func (in *importing) leaveOut(place string, reason error) {
	if in.left++; len(in.broken) < maxBroken {
		in.broken = append(in.broken, place+": "+reason.Error())
	}
}

// count counts a conversation that was added.
func (in *importing) count(used time.Time, messages, tokens int64) {
	in.added++
	if !in.keptFrom.IsZero() && used.Before(in.keptFrom) {
		in.doomed++
	}
	in.messages += messages
	in.tokens += tokens
}

func (in *importing) isKnown(ctx context.Context, id string) (bool, error) {
	if in.seen[id] {
		return true, nil
	}
	if in.dry {
		if in.seen == nil {
			in.seen = map[string]bool{}
		}
		in.seen[id] = true
	}
	return archive.New(in.store).Known(ctx, id)
}

// report prints what was imported and what was left out. The error is gateway.ErrReported if anything was.
func (in *importing) report(out, problems io.Writer) error {
	for _, problem := range in.broken {
		fmt.Fprintf(problems, "left out: %s\n", plaintext.OneLine(problem))
	}
	if more := in.left - int64(len(in.broken)); more > 0 {
		fmt.Fprintf(problems, "left out: %d more\n", more)
	}
	if in.doomed > 0 {
		fmt.Fprintf(problems, "the next cleanup deletes %s of these: last used longer ago than conversation.retention allows\n",
			counted(in.doomed, "conversation", "conversations"))
	}
	verb := "Imported"
	if in.dry {
		verb = "To be imported:"
	}
	into := printableKey(in.key)
	if in.same {
		into = "the sessions they are of"
	}
	_, err := fmt.Fprintf(out, "%s %s into %s, with %s and %s; %d there already, %d left out.\n", verb,
		counted(in.added, "conversation", "conversations"), into, counted(in.messages, "message", "messages"),
		counted(in.tokens, "token", "tokens"), in.known, in.left)
	if err == nil && in.left > 0 {
		err = gateway.ErrReported
	}
	return err
}
