package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/conversation/catalog"
)

const listMost = 10 // conversations on a page of the list

// listConversations returns a page, from 1, of the conversations of a session, each of
// which but the present one can be continued.
func listConversations(ctx context.Context, env Env, r Request, page int) (Result, error) {
	before := (page - 1) * listMost
	list, _, err := catalog.New(env.Store).Conversations(ctx, catalog.ConversationQuery{Key: r.Session, Skip: before, Limit: listMost + 1})
	if err != nil {
		return Result{}, err
	}
	more := len(list) > listMost
	if list = list[:min(len(list), listMost)]; len(list) == 0 {
		return Result{Text: "There are no conversations to list here."}, nil
	}
	var b strings.Builder
	b.WriteString("**Conversations of this place**, the one used last first\n")
	for i, c := range list {
		fmt.Fprintf(&b, "\n- #%d %s — %s, %s", before+i+1, orUntitled(c.Title), plural(c.Messages, "message"), when(c.UpdatedAt))
		if c.Active {
			b.WriteString(" (this one)")
		}
	}
	resumable := others(list, r.Snapshot.Conversation.ID)
	if len(resumable) == 0 {
		b.WriteString("\n\nRead it: `/history`")
	} else {
		example := before + min(2, len(list))
		fmt.Fprintf(&b, "\n\nRead one: `/history #%d`", example)
		fmt.Fprintf(&b, "\nGo on with one: `/resume %d`, or a part of its title", example)
	}
	actions := resumeActions(resumable)
	if more {
		older := fmt.Sprintf("/history list %d", page+1)
		fmt.Fprintf(&b, "\nOlder: `%s`", older)
		actions = append(actions, conversation.Action{Label: "Older", Command: older})
	}
	if page > 1 {
		actions = append(actions, conversation.Action{Label: "Newer", Command: fmt.Sprintf("/history list %d", page-1)})
	}
	return Result{Text: b.String(), Actions: actions}, nil
}

// conversationNumber returns the conversation that has a number in the list.
func conversationNumber(ctx context.Context, env Env, key conversation.Key, number string) (conversation.Conversation, bool, error) {
	k, err := strconv.Atoi(number)
	if err != nil || k < 1 || k > 1_000_000 {
		return conversation.Conversation{}, false, nil
	}
	list, _, err := catalog.New(env.Store).Conversations(ctx, catalog.ConversationQuery{Key: key, Skip: k - 1, Limit: 1})
	if err != nil || len(list) == 0 {
		return conversation.Conversation{}, false, err
	}
	return list[0], true, nil
}
