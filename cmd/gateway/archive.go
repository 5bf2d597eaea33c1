package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"parley/conversation"
	"parley/sessions"
)

func archiveCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "archive KEY|ID",
		Short: "Archive the active conversation of a session; the next message begins a new one",
		Args:  cobra.ExactArgs(1),
		RunE: withChanges(configPath, func(cmd *cobra.Command, args []string, store *conversation.Store, changes *sessions.Service) error {
			t, err := findTarget(cmd, store, args[0])
			if err != nil {
				return err
			}
			if t.one != nil && !t.one.Active {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is already archived\n", named(*t.one))
				return err
			}
			c, err := changes.Archive(cmd.Context(), t.session.Key, "")
			if errors.Is(err, conversation.ErrNotFound) {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s has no active conversation\n", printableKey(t.session.Key))
				return err
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is archived: the next message in %s begins a new conversation\n", named(c), printableKey(c.Key))
			return err
		}),
		ValidArgsFunction: completeSessions(configPath),
	}
}

// named returns how a sentence names a conversation at its beginning.
func named(c conversation.Conversation) string {
	if title := printable(c.Title); title != "" {
		return fmt.Sprintf("%q (%s)", title, c.ID)
	}
	return "The conversation " + c.ID
}

func deleteCommand(configPath *string) *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use:   "delete KEY|ID",
		Short: "Delete a session's conversations, or one of them, for good",
		Long: "Deletes the conversations and every copy of their text. A message that waits for an answer is not\n" +
			"deleted: it is answered in a new conversation. An answer that waits until a person allows a tool call ends.",
		Args: cobra.ExactArgs(1),
		RunE: withChanges(configPath, func(cmd *cobra.Command, args []string, store *conversation.Store, changes *sessions.Service) error {
			t, err := findTarget(cmd, store, args[0])
			if err != nil {
				return err
			}
			what := deletion(t)
			if t.one == nil && t.session.Conversations == 0 {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s holds no conversations\n", printableKey(t.session.Key))
				return err
			}
			if !yes {
				if err := confirm(cmd, "Delete "+what+" for good?"); err != nil {
					return err
				}
			}
			return deleteTarget(cmd, store, changes, t, what)
		}),
		ValidArgsFunction: completeSessions(configPath),
	}
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return command
}

// deletion describes what will be deleted.
func deletion(t target) string {
	if t.one != nil {
		return fmt.Sprintf("%s of %s with %s", named(*t.one), printableKey(t.session.Key), counted(t.one.Messages, "message", "messages"))
	}
	where := printableKey(t.session.Key)
	if t.session.Place != "" {
		where += " (" + printable(t.session.Place) + ")"
	}
	return fmt.Sprintf("%s of %s with %s", counted(t.session.Conversations, "conversation", "conversations"), where,
		counted(t.session.Messages, "message", "messages"))
}

// confirm asks the user and returns an error unless the answer is yes.
func confirm(cmd *cobra.Command, question string) error {
	fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] ")
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // what can't be read is no yes
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was deleted; answer y, or use --yes to skip the question")
}

func deleteTarget(cmd *cobra.Command, store *conversation.Store, changes *sessions.Service, t target, what string) error {
	id := ""
	if t.one != nil {
		id = t.one.ID
	}
	if _, err := changes.Delete(cmd.Context(), t.session.Key, id); err != nil {
		return err
	}
	if err := store.Sweep(cmd.Context()); err != nil {
		return fmt.Errorf("deleted, but the text is still on the disk; a gateway or the next command removes it: %w", err)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Deleted: %s\n", what)
	return err
}
