package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/transcript"
)

func historyCommand(configPath *string) *cobra.Command {
	var turns int
	var id string
	var asJSON bool
	command := &cobra.Command{
		Use:     "history KEY",
		Short:   "Show the last turns of a session",
		Example: "  gateway history telegram:chat:42 -n 3\n  gateway history cli:default --conversation 019df0a2",
		Args:    cobra.ExactArgs(1),
		RunE: withStore(configPath, func(cmd *cobra.Command, args []string, store *conversation.Store) error {
			if turns < 1 {
				return fmt.Errorf("-n: found %d, allowed: 1 or more; `gateway sessions export` writes all", turns)
			}
			session, err := findSession(cmd, store, conversation.Key(args[0]))
			if err != nil {
				return err
			}
			c, err := chooseConversation(cmd, store, session, id)
			if err != nil {
				return err
			}
			format := transcript.Markdown
			if asJSON {
				format = transcript.JSON
			}
			return printHistory(cmd, store, session, c, turns, format)
		}),
		ValidArgsFunction: completeSessions(configPath),
	}
	command.Flags().IntVarP(&turns, "number", "n", 10, "the last `N` turns")
	command.Flags().StringVar(&id, "conversation", "", "show the conversation `ID` instead of the one used last")
	jsonFlag(command, &asJSON)
	return command
}

// chooseConversation returns the conversation with an id, or without one the
// conversation used last.
func chooseConversation(cmd *cobra.Command, store *conversation.Store, session catalog.Session, id string) (conversation.Conversation, error) {
	if id == "" {
		list, _, err := catalog.New(store).Conversations(cmd.Context(), catalog.ConversationQuery{Key: session.Key, Limit: 1})
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("%s has no messages yet", printableKey(session.Key))
		}
		if err != nil {
			return conversation.Conversation{}, err
		}
		return list[0], nil
	}
	c, err := catalog.New(store).Find(cmd.Context(), id)
	if errors.Is(err, conversation.ErrNotFound) || err == nil && c.Key != session.Key {
		return c, fmt.Errorf("%s has no conversation %q; `gateway sessions show %s` lists them", printableKey(session.Key), id, printableKey(session.Key))
	}
	return c, err
}

func printHistory(cmd *cobra.Command, store *conversation.Store, session catalog.Session, c conversation.Conversation, turns int, format transcript.Format) error {
	page, err := store.Messages(cmd.Context(), conversation.MessageQuery{Conversation: c.ID, Turns: turns})
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	writer := transcript.NewWriter(out, format, session.Key, session.Place)
	if err := writer.Conversation(c); err != nil {
		return err
	}
	if page.More && format == transcript.Markdown {
		fmt.Fprintf(out, "\n*Earlier turns are not shown: -n %d shows more.*\n", 2*turns)
	}
	for _, m := range page.Messages {
		m.ToolCalls = nil // their results are not on the page
		if err := writer.Message(m); err != nil {
			return err
		}
	}
	return writer.Close()
}
