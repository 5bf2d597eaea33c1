package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/plaintext"
)

const (
	historyDefault  = 5      // turns on a page
	historyMost     = 50     // turns that may be asked for on one page
	historyFurthest = 10_000 // turns that may be skipped; each page reads past them again
)

var historyCommand = Command{
	Name: "history", Arguments: "[n] [skip]", Description: "Show the last turns, older ones, earlier conversations",
	Options: []Option{
		{Name: "which", Description: "\"list\" for the conversations of this place, \"#2\" for one of them"},
		{Name: "count", Description: "How many turns; with list: which page", Number: true, Default: "5"},
		{Name: "skip", Description: "How many of the newest turns to leave out", Number: true},
	},
	Private: true, Run: showHistory,
}

const historyUsage = "`/history [n] [skip]` shows n turns of this conversation, leaving out the newest `skip`; " +
	"`/history list [page]` shows the conversations of this place, `/history #2 [n] [skip]` one of them."

// showHistory takes "[n] [skip]", "list [page]" or "#k [n] [skip]".
func showHistory(ctx context.Context, env Env, r Request) (Result, error) {
	words := strings.Fields(r.Arguments)
	if len(words) > 0 && strings.EqualFold(words[0], "list") {
		page, ok := numbers(words[1:], 1)
		if !ok || page[0] < 1 {
			return Result{Text: historyUsage}, nil
		}
		return listConversations(ctx, env, r, page[0])
	}
	shown, command := r.Snapshot.Conversation, "/history"
	if len(words) > 0 && strings.HasPrefix(words[0], "#") {
		c, found, err := conversationNumber(ctx, env, r.Session, words[0][1:])
		if err != nil || !found {
			return Result{Text: fmt.Sprintf("There is no conversation %s here; `/history list` shows them.", plaintext.ShortLine(words[0], 20))}, err
		}
		shown, command, words = c, "/history "+words[0], words[1:]
	}
	args, ok := numbers(words, historyDefault, 0)
	switch {
	case !ok || args[0] < 1:
		return Result{Text: historyUsage}, nil
	case args[0] > historyMost:
		return Result{Text: fmt.Sprintf("/history shows at most %d turns at once.", historyMost)}, nil
	case args[1] > historyFurthest:
		return Result{Text: fmt.Sprintf("/history goes back %d turns and no further; older turns are kept all the same.", historyFurthest)}, nil
	}
	return showPage(ctx, env, r.Session, shown, command, args[0], args[1])
}

// numbers parses optional numbers from 0 on. Those left out have their defaults.
func numbers(words []string, defaults ...int) ([]int, bool) {
	if len(words) > len(defaults) {
		return nil, false
	}
	for i, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n > 1_000_000 {
			return nil, false
		}
		defaults[i] = n
	}
	return defaults, true
}

// showPage shows as many of n turns as a page holds, without the newest skip,
// and names the command for the page of older ones.
func showPage(ctx context.Context, env Env, key conversation.Key, c conversation.Conversation, command string, n, skip int) (Result, error) {
	history, err := env.Store.Messages(ctx, conversation.MessageQuery{Conversation: c.ID, Turns: n, SkipTurns: skip})
	if err != nil {
		return Result{}, err
	}
	turns := turnsOf(history.Messages)
	shown := fitPage(turns)
	var b strings.Builder
	switch {
	case len(shown) > 0:
		fmt.Fprintf(&b, "**%s**, %s", orUntitled(c.Title), plural(c.Messages, "message"))
		if skip > 0 {
			fmt.Fprintf(&b, ", without the newest %s", plural(int64(skip), "turn"))
		}
		writeTurns(&b, shown)
	case skip > 0:
		b.WriteString("There is nothing older than that.")
	default:
		b.WriteString("Nothing has been said in this conversation yet.")
	}
	var actions []conversation.Action
	if history.More || len(shown) < len(turns) {
		older := fmt.Sprintf("%s %d %d", command, n, skip+len(shown))
		fmt.Fprintf(&b, "\n\nOlder: `%s`", older)
		actions = append(actions, conversation.Action{Label: "Older", Command: older})
	}
	if skip > 0 {
		actions = append(actions, conversation.Action{Label: "Newer", Command: fmt.Sprintf("%s %d %d", command, n, max(0, skip-n))})
	}
	if others, _, err := catalog.New(env.Store).Conversations(ctx, catalog.ConversationQuery{Key: key, Limit: 2}); err != nil {
		return Result{}, err
	} else if len(others) > 1 || len(others) == 1 && others[0].ID != c.ID {
		b.WriteString("\n\nEarlier conversations: `/history list`")
		actions = append(actions, conversation.Action{Label: "Conversations", Command: "/history list"})
	}
	return Result{Text: b.String(), Actions: actions}, nil
}
