package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"parley/conversation"
	"parley/conversation/catalog"
)

// target is what an argument KEY|ID names: a session, or one of its conversations.
type target struct {
	session catalog.Session
	one     *conversation.Conversation // nil: all conversations of the session
}

// findTarget finds what KEY|ID names. Only keys have a colon.
func findTarget(cmd *cobra.Command, store *conversation.Store, name string) (target, error) {
	if strings.Contains(name, ":") {
		session, err := findSession(cmd, store, conversation.Key(name))
		return target{session: session}, err
	}
	ctx := cmd.Context()
	c, err := catalog.New(store).Find(ctx, name)
	if errors.Is(err, conversation.ErrNotFound) {
		return target{}, fmt.Errorf("no conversation has an id that begins with %q%s", name, suggestion(ctx, store, name))
	}
	if err != nil {
		return target{}, err
	}
	session, err := catalog.New(store).Session(ctx, c.Key)
	return target{session: session, one: &c}, err
}

// findSession returns the session of a place. If the place has moved, it says which session that is.
func findSession(cmd *cobra.Command, store *conversation.Store, place conversation.Key) (catalog.Session, error) {
	session, err := catalog.New(store).SessionOf(cmd.Context(), place)
	switch {
	case errors.Is(err, conversation.ErrNoSession):
		err = fmt.Errorf("%w%s", err, suggestion(cmd.Context(), store, string(place)))
	case err == nil && session.Key != place:
		fmt.Fprintf(cmd.ErrOrStderr(), "%s belongs to the session %s.\n", printableKey(place), printableKey(session.Key))
	}
	return session, err
}

// conversations returns those of the target, the one used last first.
func (t target) conversations(ctx context.Context, store *conversation.Store) ([]conversation.Conversation, error) {
	if t.one != nil {
		return []conversation.Conversation{*t.one}, nil
	}
	list, _, err := catalog.New(store).Conversations(ctx, catalog.ConversationQuery{Key: t.session.Key})
	return list, err
}

// suggestion returns the end of an error about an unknown name: similar names, and
// the command that lists all.
func suggestion(ctx context.Context, store *conversation.Store, name string) string {
	all := "; `gateway sessions list` shows the sessions"
	list, _, err := catalog.New(store).Sessions(ctx, catalog.SessionQuery{})
	if err != nil {
		return all
	}
	if near := nearest(name, list); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?" + all[1:]
	}
	return all
}

const suggested = 3 // most keys that are suggested

// nearest returns the keys that are most similar to a name, the best first.
func nearest(name string, sessions []catalog.Session) []string {
	type candidate struct {
		key   string
		score float64
	}
	var near []candidate
	for _, s := range sessions {
		if score := likeness(strings.ToLower(name), strings.ToLower(string(s.Key))); score >= 0.7 {
			near = append(near, candidate{printable(string(s.Key)), score})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var keys []string
	for _, c := range near[:min(len(near), suggested)] {
		keys = append(keys, c.key)
	}
	return keys
}

// likeness returns how similar a key is to a name: 1 if the key contains the name,
// else the share of the longer one that both have in common at their beginning and
// end. A typing error leaves most of that.
func likeness(name, key string) float64 {
	if name == "" || key == "" {
		return 0
	}
	if len(name) > 1 && strings.Contains(key, name) {
		return 1
	}
	shorter := min(len(name), len(key))
	begin := 0
	for begin < shorter && name[begin] == key[begin] {
		begin++
	}
	end := 0
	for end < shorter-begin && name[len(name)-1-end] == key[len(key)-1-end] {
		end++
	}
	return float64(begin+end) / float64(max(len(name), len(key)))
}

// completeSessions returns the keys of the sessions for the shell.
func completeSessions(configPath *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		store, err := openStore(cmd.Context(), *configPath)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer store.Close()
		list, _, err := catalog.New(store).Sessions(cmd.Context(), catalog.SessionQuery{Limit: 100})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var offered []cobra.Completion
		for _, s := range list {
			offered = append(offered, cobra.CompletionWithDesc(string(s.Key), printable(s.Place)))
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}
