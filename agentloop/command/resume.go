package command

import (
	"context"
	"fmt"
	"strings"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/plaintext"
)

var resumeCommand = Command{
	Name: "resume", EndsRun: true, Arguments: "[n|title|id]", Description: "List the conversations of this place, or continue one of them",
	Options: []Option{{Name: "which", Description: "Its number in the list, a part of its title, or its id; without it, the list"}},
	Run:     resumeConversation,
}

// resumeConversation goes on with the conversation that the arguments mean. Without
// arguments it lists the conversations.
func resumeConversation(ctx context.Context, env Env, r Request) (Result, error) {
	words := strings.TrimSpace(r.Arguments)
	if words == "" {
		return listConversations(ctx, env, r, 1)
	}
	found, err := findConversations(ctx, env, r.Session, words)
	switch {
	case err != nil:
		return Result{}, err
	case len(found) == 0:
		return Result{Text: fmt.Sprintf("There is no conversation %s here; `/resume` shows them.", quoted(plaintext.ShortLine(words, 60)))}, nil
	case len(found) > 1:
		return Result{Text: ambiguous(words, found), Actions: resumeActions(found)}, nil
	}
	return resumed(ctx, env, r.Snapshot.Conversation, found[0])
}

// resumed goes on with conversation c, and shows its last turn.
func resumed(ctx context.Context, env Env, present, c conversation.Conversation) (Result, error) {
	if c.ID == present.ID {
		return Result{Text: capital(named(c)) + " is the one that goes on here already."}, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s goes on, with %s, last used %s.", capital(named(c)), plural(c.Messages, "message"), when(c.UpdatedAt))
	if present.Messages > 0 {
		fmt.Fprintf(&b, " %s is kept: /history list.", capital(named(present)))
	}
	page, err := env.Store.Messages(ctx, conversation.MessageQuery{Conversation: c.ID, Turns: 1})
	if err != nil {
		return Result{}, err
	}
	writeTurns(&b, fitPage(turnsOf(page.Messages)))
	return Result{Text: b.String(), Effect: conversation.Effect{Resume: c.ID}}, nil
}

// others returns the conversations of a list that have another ID.
func others(list []conversation.Conversation, id string) []conversation.Conversation {
	var left []conversation.Conversation
	for _, c := range list {
		if c.ID != id {
			left = append(left, c)
		}
	}
	return left
}

// maxResumeActions is how many conversations are offered as buttons: one row on
// Discord, see https://discord.com/developers/docs/components/reference#action-row
const maxResumeActions = 5

// resumeActions offers conversations by their ID, which stays the same when the
// order of the list changes.
func resumeActions(list []conversation.Conversation) []conversation.Action {
	var actions []conversation.Action
	for _, c := range list[:min(len(list), maxResumeActions)] {
		actions = append(actions, conversation.Action{Label: plaintext.ShortLine(orUntitled(c.Title), 40), Command: "/resume " + c.ID})
	}
	return actions
}

// ambiguous asks which of several conversations is meant.
func ambiguous(words string, found []conversation.Conversation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s fits %s:\n", quoted(plaintext.ShortLine(words, 60)), plural(int64(len(found)), "conversation"))
	for _, c := range found[:min(len(found), listMost)] {
		fmt.Fprintf(&b, "\n- %s — %s, %s: `/resume %s`", orUntitled(c.Title), plural(c.Messages, "message"), when(c.UpdatedAt), c.ID)
	}
	return b.String()
}

// readAtOnce is how many conversations a search by title reads at once.
const readAtOnce = 500

// findConversations returns the conversations that words may mean: the one with
// that number in the list or that ID, else those with that title, else those whose
// titles contain the words.
func findConversations(ctx context.Context, env Env, key conversation.Key, words string) ([]conversation.Conversation, error) {
	if c, found, err := conversationNumber(ctx, env, key, strings.TrimPrefix(words, "#")); err != nil || found {
		return []conversation.Conversation{c}, err
	}
	words = strings.ToLower(words)
	var same, like []conversation.Conversation
	for skip := 0; ; skip += readAtOnce {
		list, _, err := catalog.New(env.Store).Conversations(ctx, catalog.ConversationQuery{Key: key, Skip: skip, Limit: readAtOnce})
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			switch title := strings.ToLower(c.Title); {
			case c.ID == words:
				return []conversation.Conversation{c}, nil
			case title == words:
				same = append(same, c)
			case strings.Contains(title, words):
				like = append(like, c)
			}
		}
		if len(list) < readAtOnce {
			break
		}
	}
	if len(same) > 0 {
		return same, nil
	}
	return like, nil
}
