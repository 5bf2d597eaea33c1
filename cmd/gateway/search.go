package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/conversation"
	"parley/conversation/search"
	"parley/plaintext"
)

func searchCommand(configPath *string) *cobra.Command {
	var query search.Query
	var session string
	var asJSON bool
	command := &cobra.Command{
		Use:     "search WORDS",
		Short:   "Find messages in all sessions, best matches first",
		Example: "  gateway sessions search feta oven\n  gateway sessions search '\"adapter is not needed\"' --session telegram:chat:42",
		Args:    cobra.MinimumNArgs(1),
		RunE: withStore(configPath, func(cmd *cobra.Command, args []string, store *conversation.Store) error {
			if query.Limit < 1 || query.Skip < 0 {
				return fmt.Errorf("found --limit %d --skip %d, allowed: a limit of 1 or more, a skip of 0 or more", query.Limit, query.Skip)
			}
			if session != "" {
				found, err := findSession(cmd, store, conversation.Key(session))
				if err != nil {
					return err
				}
				query.Key = found.Key
			}
			query.Words = strings.Join(args, " ")
			hits, err := search.New(store).Find(cmd.Context(), query)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), hitsJSON(hits))
			}
			return printHits(cmd.OutOrStdout(), hits, query)
		}),
	}
	command.Flags().StringVar(&session, "session", "", "search only the session `KEY`")
	command.Flags().IntVarP(&query.Limit, "limit", "n", 20, "show at most `N` messages")
	command.Flags().IntVar(&query.Skip, "skip", 0, "skip the `N` best matches")
	jsonFlag(command, &asJSON)
	return command
}

func printHits(out io.Writer, hits []search.Hit, query search.Query) error {
	if len(hits) == 0 {
		_, err := fmt.Fprintln(out, "Nothing found.")
		return err
	}
	for _, h := range hits {
		who := string(h.Role)
		if h.Sender.Name != "" {
			who = printable(h.Sender.Name)
		}
		if f := h.File; f != nil {
			who += fmt.Sprintf(", in %s, page %d of %d", printable(f.Name), f.Page, f.Pages)
		}
		_, err := fmt.Fprintf(out, "%s · %s · %s · %s\n    %s: %s\n", h.At.Format("2006-01-02 15:04"), printableKey(h.Key), h.Conversation, titled(h.Title),
			who, plaintext.OneLine(h.Snippet.Mark("**", "**")))
		if err != nil {
			return err
		}
	}
	if len(hits) < query.Limit {
		return nil
	}
	_, err := fmt.Fprintf(out, "There may be more: --skip %d shows them.\n", query.Skip+len(hits))
	return err
}

// hitJSON is a hit in JSON.
type hitJSON struct {
	Session      conversation.Key  `json:"session"`
	Conversation string            `json:"conversation"`
	Title        string            `json:"title"`
	Seq          int64             `json:"seq"`
	Turn         int64             `json:"turn"`
	Role         conversation.Role `json:"role"`
	At           time.Time         `json:"at"`
	Snippet      []pieceJSON       `json:"snippet"`
	File         *filePageJSON     `json:"file,omitempty"`
}

// filePageJSON is the page of a file in which the words are.
type filePageJSON struct {
	ID    int64  `json:"id"`
	N     int    `json:"-"`
	Name  string `json:"name"`
	Page  int64  `json:"page"`
	Pages int64  `json:"pages"`
}

type pieceJSON struct {
	Text  string `json:"text"`
	Found bool   `json:"found"`
}

func hitsJSON(hits []search.Hit) []hitJSON {
	list := []hitJSON{} // [] when there are none, not null
	for _, h := range hits {
		snippet := []pieceJSON{}
		for _, piece := range h.Snippet {
			snippet = append(snippet, pieceJSON(piece))
		}
		list = append(list, hitJSON{
			Session: h.Key, Conversation: h.Conversation, Title: h.Title, Seq: h.Seq, Turn: h.Turn,
			Role: h.Role, At: h.At.UTC(), Snippet: snippet, File: (*filePageJSON)(h.File),
		})
	}
	return list
}
