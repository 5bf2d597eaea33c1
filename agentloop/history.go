package agentloop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
)

const (
	historyDefault = 5   // exchanges on a page
	historyMost    = 50  // on one page, so that the reply stays readable
	historyText    = 700 // runes of a message that are shown
	listMost       = 10  // conversations on a page of the list
)

const historyUsage = "`/history [n] [page]` shows n exchanges of this conversation, `/history list [page]` the conversations of this place, `/history #2 [n] [page]` one of them."

// showHistory reads "/history [n] [page]", "/history list [page]" and
// "/history #k [n] [page]".
func showHistory(l *loop, ctx context.Context, turn conversation.Turn, arguments string) (result, error) {
	words := strings.Fields(arguments)
	if len(words) > 0 && strings.EqualFold(words[0], "list") {
		page, ok := numbers(words[1:], 1)
		if !ok {
			return result{text: historyUsage}, nil
		}
		return listConversations(ctx, l, page[0])
	}
	shown, command := turn.Conversation, "/history"
	if len(words) > 0 && strings.HasPrefix(words[0], "#") {
		c, found, err := conversationNumber(ctx, l, words[0][1:])
		if err != nil || !found {
			return result{text: fmt.Sprintf("There is no conversation %s here; `/history list` shows them.", oneLine(words[0], 20))}, err
		}
		shown, command, words = c, "/history "+words[0], words[1:]
	}
	args, ok := numbers(words, historyDefault, 1)
	if !ok || args[0] > historyMost {
		return result{text: historyUsage + fmt.Sprintf(" n is at most %d.", historyMost)}, nil
	}
	return showPage(ctx, l, shown, command, args[0], args[1])
}

// numbers reads optional positive numbers, with defaults for those left out.
func numbers(words []string, defaults ...int) ([]int, bool) {
	if len(words) > len(defaults) {
		return nil, false
	}
	for i, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 1_000_000 {
			return nil, false
		}
		defaults[i] = n
	}
	return defaults, true
}

func showPage(ctx context.Context, l *loop, c conversation.Conversation, command string, n, page int) (result, error) {
	history, err := l.Store.History(ctx, c.ID, (page-1)*n, n)
	if err != nil {
		return result{}, err
	}
	var b strings.Builder
	if len(history.Messages) == 0 {
		b.WriteString("Nothing has been said in this conversation yet.")
		if page > 1 {
			b.Reset()
			b.WriteString("There is nothing older than that.")
		}
	} else {
		fmt.Fprintf(&b, "**%s**, %s", orUntitled(c.Title), plural(c.Messages, "message"))
		if page > 1 {
			fmt.Fprintf(&b, ", page %d", page)
		}
		writeMessages(&b, history.Messages)
	}
	if history.Older {
		fmt.Fprintf(&b, "\n\nOlder: `%s %d %d`", command, n, page+1)
	}
	if others, err := l.Store.Conversations(ctx, l.key, 0, 2); err != nil {
		return result{}, err
	} else if len(others) > 1 || len(others) == 1 && others[0].ID != c.ID {
		b.WriteString("\n\nEarlier conversations: `/history list`")
	}
	return result{text: b.String()}, nil
}

func writeMessages(b *strings.Builder, messages []conversation.Message) {
	day := ""
	for _, m := range messages {
		if d := m.At.Format("Monday, 2 January 2006"); d != day {
			day = d
			fmt.Fprintf(b, "\n\n*%s*", day)
		}
		who := "Assistant"
		if m.Role == conversation.RoleUser {
			who = "You"
			if m.Sender != (conversation.Sender{}) {
				who = senderName(m.Sender)
			}
		}
		text := shorten(m.Content, historyText)
		gap := " "
		if strings.Contains(text, "\n") {
			gap = "\n\n" // lists, tables and code begin on a line of their own
		}
		fmt.Fprintf(b, "\n\n%s **%s:**%s%s", m.At.Format("15:04"), who, gap, text)
		if m.Stopped {
			b.WriteString(" *(stopped)*")
		}
	}
}

// shorten keeps the lines of a text but not all of its length.
func shorten(text string, limit int) string {
	text = strings.TrimSpace(text)
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	short := strings.TrimSpace(string(runes[:limit])) + " …"
	if strings.Count(short, "```")%2 == 1 {
		short += "\n```"
	}
	return short
}

func listConversations(ctx context.Context, l *loop, page int) (result, error) {
	list, err := l.Store.Conversations(ctx, l.key, (page-1)*listMost, listMost+1)
	if err != nil {
		return result{}, err
	}
	if len(list) == 0 {
		return result{text: "There are no conversations to list here."}, nil
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
	if len(list) > listMost {
		fmt.Fprintf(&b, "\n\nOlder: `/history list %d`", page+1)
	}
	return result{text: b.String()}, nil
}

func when(t time.Time) string { return t.Format("2006-01-02 15:04") }

// conversationNumber is the conversation that the list shows under a number.
func conversationNumber(ctx context.Context, l *loop, number string) (conversation.Conversation, bool, error) {
	k, err := strconv.Atoi(number)
	if err != nil || k < 1 || k > 1_000_000 {
		return conversation.Conversation{}, false, nil
	}
	list, err := l.Store.Conversations(ctx, l.key, k-1, 1)
	if err != nil || len(list) == 0 {
		return conversation.Conversation{}, false, err
	}
	return list[0], true, nil
}
