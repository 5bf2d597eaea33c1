package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"parley/conversation"
)

const listMost = 10 // conversations on a page of the list

// listConversations returns a page, from 1, of the conversations of a session.
func listConversations(ctx context.Context, env Env, key conversation.Key, page int) (Result, error) {
	list, _, err := env.Store.Conversations(ctx, conversation.ConversationQuery{Key: key, Skip: (page - 1) * listMost, Limit: listMost + 1})
	if err != nil {
		return Result{}, err
	}
	if len(list) == 0 {
		return Result{Text: "There are no conversations to list here."}, nil
	}
	var b strings.Builder
	b.WriteString("**Conversations of this place**, the one used last first\n")
	for i, c := range list[:min(len(list), listMost)] {
		fmt.Fprintf(&b, "\n- #%d %s — %s, %s", (page-1)*listMost+i+1, orUntitled(c.Title), plural(c.Messages, "message"), when(c.UpdatedAt))
		if c.Active {
			b.WriteString(" (this one)")
		}
	}
	b.WriteString("\n\nRead one: `/history #2`")
	var actions []conversation.Action
	if len(list) > listMost {
		older := fmt.Sprintf("/history list %d", page+1)
		fmt.Fprintf(&b, "\n\nOlder: `%s`", older)
		actions = append(actions, conversation.Action{Label: "Older", Command: older})
	}
	return Result{Text: b.String(), Actions: actions}, nil
}

// conversationNumber returns the conversation that has a number in the list.
func conversationNumber(ctx context.Context, env Env, key conversation.Key, number string) (conversation.Conversation, bool, error) {
	k, err := strconv.Atoi(number)
	if err != nil || k < 1 || k > 1_000_000 {
		return conversation.Conversation{}, false, nil
	}
	list, _, err := env.Store.Conversations(ctx, conversation.ConversationQuery{Key: key, Skip: k - 1, Limit: 1})
	if err != nil || len(list) == 0 {
		return conversation.Conversation{}, false, err
	}
	return list[0], true, nil
}
