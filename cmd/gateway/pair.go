package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"parley/conversation"
	"parley/conversation/pairing"
	"parley/plaintext"
)

func pairCommand(configPath *string) *cobra.Command {
	command := &cobra.Command{
		Use:   "pair",
		Short: "Manage who may talk to the bots by pairing code",
		Long: "With access = \"pairing\", the bot sends a stranger who writes to it in private a code.\n" +
			"These commands approve a code and revoke access. They work while the gateway runs, and\n" +
			"take effect with the next message. A code is valid for one bot; another bot, with its\n" +
			"own token, sends its own code.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(pairListCommand(configPath), pairApproveCommand(configPath), pairRevokeCommand(configPath))
	return command
}

func pairListCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List open codes, people with access, and the owners of usernames in allow",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := openStore(cmd.Context(), *configPath)
			if err != nil {
				return err
			}
			defer store.Close()
			list, err := pairing.New(store).List(cmd.Context())
			if err != nil {
				return err
			}
			if err := printPairings(cmd.OutOrStdout(), list, store.Now()); err != nil {
				return err
			}
			names, err := pairing.New(store).BoundNames(cmd.Context())
			if err != nil {
				return err
			}
			return printNames(cmd.OutOrStdout(), names, store.Now())
		},
	}
}

func pairApproveCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:     "approve CODE",
		Short:   "Give access to the person with the code",
		Example: "  gateway pair approve K7QM-2XWD",
		Args:    cobra.MinimumNArgs(1), // a code may be typed with a space in it
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := openStore(cmd.Context(), *configPath)
			if err != nil {
				return err
			}
			defer store.Close()
			p, err := pairing.New(store).Approve(cmd.Context(), strings.Join(args, " "))
			if errors.Is(err, pairing.ErrNotFound) {
				return fmt.Errorf("%w; `gateway pair list` shows the valid codes", err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s (%s) has access now: the next message is answered\n", printable(p.Name), handle(p))
			return err
		},
		ValidArgsFunction: completePairings(configPath, func(p pairing.Pairing) string { return p.Code }),
	}
}

func pairRevokeCommand(configPath *string) *cobra.Command {
	var bot string
	command := &cobra.Command{
		Use:   "revoke CHANNEL:USER",
		Short: "Revoke a person's access or code, or release a username in allow",
		Long: "Revokes access that was given by a code, or a code that was not used yet, with every bot of\n" +
			"the channel unless --bot names one.\n" +
			"A username in allow gives access only to the account that used it first. CHANNEL:@NAME\n" +
			"releases the name: the next account that uses it gets access.",
		Example: "  gateway pair revoke telegram:123456789\n  gateway pair revoke telegram:@ada",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			channel, user, ok := strings.Cut(args[0], ":")
			if !ok || channel == "" || user == "" {
				return fmt.Errorf("pair revoke: found %q, allowed: CHANNEL:USER, such as telegram:123456789 or telegram:@ada, as `gateway pair list` shows them", args[0])
			}
			store, err := openStore(cmd.Context(), *configPath)
			if err != nil {
				return err
			}
			defer store.Close()
			if strings.HasPrefix(user, "@") {
				return releaseName(cmd, store, channel, user)
			}
			revoked, err := pairing.New(store).Revoke(cmd.Context(), conversation.Account{Channel: channel, ID: bot}, user)
			if errors.Is(err, pairing.ErrNotFound) {
				return fmt.Errorf("%w; `gateway pair list` shows who has access by a code; the configuration gives access to everybody in allow", err)
			}
			if err != nil {
				return err
			}
			return printRevoked(cmd.OutOrStdout(), revoked)
		},
		ValidArgsFunction: completePairings(configPath, handle),
	}
	command.Flags().StringVar(&bot, "bot", "", "revoke access only with the bot that has this `ID`")
	return command
}

// printRevoked prints whose access was revoked, and at which bot if there are several.
func printRevoked(out io.Writer, revoked []pairing.Pairing) error {
	for _, p := range revoked {
		said := "no longer has access"
		if p.ApprovedAt.IsZero() {
			said = "had no access yet, and the code is void"
		}
		if len(revoked) > 1 {
			said += " (bot " + botOf(p) + ")"
		}
		if _, err := fmt.Fprintf(out, "%s (%s) %s\n", printable(p.Name), handle(p), said); err != nil {
			return err
		}
	}
	return nil
}

// releaseName removes the binding of a name in allow to an account.
func releaseName(cmd *cobra.Command, store *conversation.Store, channel, name string) error {
	b, err := pairing.New(store).ReleaseName(cmd.Context(), channel, name)
	if errors.Is(err, pairing.ErrNotBound) {
		return fmt.Errorf("%w; `gateway pair list` shows the names that are bound", err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s:%s was bound to the id %s and is released: while allow contains it, the next account that uses it gets access\n",
		b.Channel, printable(b.Name), printable(b.Holder))
	return err
}

func pairings(ctx context.Context, configPath string) ([]pairing.Pairing, error) {
	store, err := openStore(ctx, configPath)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return pairing.New(store).List(ctx)
}

// completePairings returns completions of the first argument for the shell.
func completePairings(configPath *string, argument func(pairing.Pairing) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var offered []cobra.Completion
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, err := pairings(cmd.Context(), *configPath)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, p := range list {
			if word := argument(p); word != "" {
				offered = append(offered, cobra.CompletionWithDesc(word, printable(p.Name)))
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// maxAsking is how many of the newest requests are listed, so that a flood of
// strangers does not push those with access out of sight.
const maxAsking = 100

func printPairings(out io.Writer, list []pairing.Pairing, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "There are no open codes, and nobody has access by a code.")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CHANNEL\tBOT\tID\tNAME\tCODE\tAGE\tSTATE")
	waiting := 0
	for _, p := range list {
		if p.ApprovedAt.IsZero() {
			if waiting++; waiting > maxAsking {
				continue
			}
		}
		code, since, state := p.Code, p.AskedAt, "waits, code expires in "+age(p.ExpiresAt.Sub(now))
		if !p.ApprovedAt.IsZero() {
			code, since, state = "-", p.ApprovedAt, "has access"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Channel, plaintext.OneLine(botOf(p)), plaintext.OneLine(p.UserID), printable(p.Name), code, age(now.Sub(since)), state)
	}
	if err := table.Flush(); err != nil || waiting <= maxAsking {
		return err
	}
	_, err := fmt.Fprintf(out, "%d more people wait with older codes, which you can approve as well.\n", waiting-maxAsking)
	return err
}

// printNames prints the names in allow that are bound to accounts, if there are any.
func printNames(out io.Writer, names []pairing.BoundName, now time.Time) error {
	if len(names) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nA username in allow gives access only to the account that used it first:")
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CHANNEL\tNAME\tID\tAGE")
	for _, b := range names {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", b.Channel, printable(b.Name), printable(b.Holder), age(now.Sub(b.BoundAt)))
	}
	return table.Flush()
}

// botOf returns the bot of a pairing, or "any" for one from before bots were told
// apart, which holds for every bot.
func botOf(p pairing.Pairing) string { return cmp.Or(p.Account, "any") }

// handle returns a person in the form that `gateway pair revoke` takes.
func handle(p pairing.Pairing) string { return p.Channel + ":" + plaintext.OneLine(p.UserID) }

// maxName limits how much of a name is shown, in characters.
const maxName = 40

// printable returns a stranger's text shortened, and without characters that control
// a terminal or reverse its line.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxName {
		return string(runes[:maxName-1]) + "…"
	}
	return text
}

// age formats a duration in its largest unit, rounded down.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "<1m"
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
