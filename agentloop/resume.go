package agentloop

import (
	"context"
	"fmt"
	"strings"

	"parley/agentloop/window"
	"parley/conversation"
)

// resumeConversation reads "/resume [n|title|id]": without words it lists what
// may be resumed.
func resumeConversation(l *loop, ctx context.Context, turn conversation.Turn, arguments string) (result, error) {
	words := strings.TrimSpace(arguments)
	if words == "" {
		return listToResume(ctx, l, turn)
	}
	found, err := findConversations(ctx, l, words)
	switch {
	case err != nil:
		return result{}, err
	case len(found) == 0:
		return result{text: fmt.Sprintf("There is no conversation %s here; `/resume` shows them.", quoted(window.OneLine(words, 60)))}, nil
	case len(found) > 1:
		return result{text: ambiguous(words, found), actions: resumeActions(found)}, nil
	}
	return resumed(ctx, l, turn.Conversation, found[0])
}

// resumed goes on with a conversation, and shows where it stopped.
func resumed(ctx context.Context, l *loop, present, c conversation.Conversation) (result, error) {
	if c.ID == present.ID {
		return result{text: capital(named(c)) + " is the one that goes on here already."}, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s goes on, with %s, last used %s.", capital(named(c)), plural(c.Messages, "message"), when(c.UpdatedAt))
	if present.Messages > 0 {
		fmt.Fprintf(&b, " %s is kept: /history list.", capital(named(present)))
	}
	page, err := l.Store.History(ctx, c.ID, 0, 1)
	if err != nil {
		return result{}, err
	}
	writeExchanges(&b, fitPage(exchangesOf(page.Messages)))
	return result{text: b.String(), effect: conversation.Effect{Resume: c.ID}}, nil
}

func listToResume(ctx context.Context, l *loop, turn conversation.Turn) (result, error) {
	listed, err := listConversations(ctx, l, 1)
	if err != nil {
		return result{}, err
	}
	list, err := l.Store.Conversations(ctx, l.key, 0, listMost)
	if err != nil || len(list) == 0 {
		return listed, err
	}
	listed.text += "\nGo on with one: `/resume 2`, or a part of its title"
	listed.actions = append(resumeActions(others(list, turn.Conversation.ID)), listed.actions...)
	return listed, nil
}

func others(list []conversation.Conversation, id string) []conversation.Conversation {
	var left []conversation.Conversation
	for _, c := range list {
		if c.ID != id {
			left = append(left, c)
		}
	}
	return left
}

// maxResumeActions is how many conversations are offered as buttons, which make
// one row on Discord: https://discord.com/developers/docs/components/reference#action-row
const maxResumeActions = 5

// resumeActions name conversations by their ID, which stays when the order of
// the list changes.
func resumeActions(list []conversation.Conversation) []conversation.Action {
	var actions []conversation.Action
	for _, c := range list[:min(len(list), maxResumeActions)] {
		actions = append(actions, conversation.Action{Label: window.OneLine(orUntitled(c.Title), 40), Command: "/resume " + c.ID})
	}
	return actions
}

func ambiguous(words string, found []conversation.Conversation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s fits %s:\n", quoted(window.OneLine(words, 60)), plural(int64(len(found)), "conversation"))
	for _, c := range found[:min(len(found), listMost)] {
		fmt.Fprintf(&b, "\n- %s — %s, %s: `/resume %s`", orUntitled(c.Title), plural(c.Messages, "message"), when(c.UpdatedAt), c.ID)
	}
	return b.String()
}

// listed is how many conversations are read at once to find some of them.
const listed = 500

// findConversations gives the conversations of the session that words may mean:
// the one with that number in the list, or with that ID; else those of that
// title; else those whose titles hold the words.
func findConversations(ctx context.Context, l *loop, words string) ([]conversation.Conversation, error) {
	if c, found, err := conversationNumber(ctx, l, strings.TrimPrefix(words, "#")); err != nil || found {
		return []conversation.Conversation{c}, err
	}
	words = strings.ToLower(words)
	var same, like []conversation.Conversation
	for skip := 0; ; skip += listed {
		list, err := l.Store.Conversations(ctx, l.key, skip, listed)
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
		if len(list) < listed {
			break
		}
	}
	if len(same) > 0 {
		return same, nil
	}
	return like, nil
}
