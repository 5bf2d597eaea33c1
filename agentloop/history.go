package agentloop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/transcript"
)

const (
	historyDefault  = 5      // exchanges on a page
	historyMost     = 50     // that may be asked for
	historyFurthest = 10_000 // exchanges back; the way there is read again for every page
	historyMessage  = 700    // runes of a message that are shown
	historyPage     = 1700   // runes of a page: one message of Discord has 2,000 (discord.com/developers/docs/resources/message#create-message)
	listMost        = 10     // conversations on a page of the list
)

const historyUsage = "`/history [n] [skip]` shows n exchanges of this conversation, leaving out the newest ones that you want to skip; " +
	"`/history list [page]` shows the conversations of this place, `/history #2 [n] [skip]` one of them."

// showHistory reads "/history [n] [skip]", "/history list [page]" and
// "/history #k [n] [skip]".
func showHistory(l *loop, ctx context.Context, turn conversation.Turn, arguments string) (result, error) {
	words := strings.Fields(arguments)
	if len(words) > 0 && strings.EqualFold(words[0], "list") {
		page, ok := numbers(words[1:], 1)
		if !ok || page[0] < 1 {
			return result{text: historyUsage}, nil
		}
		return listConversations(ctx, l, page[0])
	}
	shown, command := turn.Conversation, "/history"
	if len(words) > 0 && strings.HasPrefix(words[0], "#") {
		c, found, err := conversationNumber(ctx, l, words[0][1:])
		if err != nil || !found {
			return result{text: fmt.Sprintf("There is no conversation %s here; `/history list` shows them.", window.OneLine(words[0], 20))}, err
		}
		shown, command, words = c, "/history "+words[0], words[1:]
	}
	args, ok := numbers(words, historyDefault, 0)
	switch {
	case !ok || args[0] < 1:
		return result{text: historyUsage}, nil
	case args[0] > historyMost:
		return result{text: fmt.Sprintf("/history shows at most %d exchanges at once.", historyMost)}, nil
	case args[1] > historyFurthest:
		return result{text: fmt.Sprintf("/history goes back %d exchanges and no further; what is older is kept all the same.", historyFurthest)}, nil
	}
	return showPage(ctx, l, shown, command, args[0], args[1])
}

// numbers reads optional numbers from 0 on, with defaults for those left out.
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

// showPage shows up to n exchanges after leaving out the newest ones, as many as
// a page holds. Where it ends is where the next page, which it names, begins.
func showPage(ctx context.Context, l *loop, c conversation.Conversation, command string, n, skip int) (result, error) {
	history, err := l.Store.History(ctx, c.ID, skip, n)
	if err != nil {
		return result{}, err
	}
	exchanges := exchangesOf(history.Messages)
	shown := fitPage(exchanges)
	var b strings.Builder
	switch {
	case len(shown) > 0:
		fmt.Fprintf(&b, "**%s**, %s", orUntitled(c.Title), plural(c.Messages, "message"))
		if skip > 0 {
			fmt.Fprintf(&b, ", without the newest %s", plural(int64(skip), "exchange"))
		}
		writeExchanges(&b, shown)
	case skip > 0:
		b.WriteString("There is nothing older than that.")
	default:
		b.WriteString("Nothing has been said in this conversation yet.")
	}
	var actions []conversation.Action
	if history.Older || len(shown) < len(exchanges) {
		older := fmt.Sprintf("%s %d %d", command, n, skip+len(shown))
		fmt.Fprintf(&b, "\n\nOlder: `%s`", older)
		actions = append(actions, conversation.Action{Label: "Older", Command: older})
	}
	if skip > 0 {
		actions = append(actions, conversation.Action{Label: "Newer", Command: fmt.Sprintf("%s %d %d", command, n, max(0, skip-n))})
	}
	if others, err := l.Store.Conversations(ctx, l.key, 0, 2); err != nil {
		return result{}, err
	} else if len(others) > 1 || len(others) == 1 && others[0].ID != c.ID {
		b.WriteString("\n\nEarlier conversations: `/history list`")
		actions = append(actions, conversation.Action{Label: "Conversations", Command: "/history list"})
	}
	return result{text: b.String(), actions: actions}, nil
}

// shownMessage is a message as /history shows it.
type shownMessage struct {
	at   time.Time
	text string
}

// exchangesOf parts messages into the exchanges that they are, oldest first,
// each message ready to be shown.
func exchangesOf(messages []conversation.Message) [][]shownMessage {
	var list [][]shownMessage
	for i, m := range messages {
		if i == 0 || conversation.StartsExchange(&messages[i-1], &messages[i]) {
			list = append(list, nil)
		}
		last := len(list) - 1
		list[last] = append(list[last], shownMessage{at: m.At, text: showMessage(m)})
	}
	return list
}

// fitPage gives the newest exchanges that a page holds, but always one, cut to a
// page if it is longer.
func fitPage(exchanges [][]shownMessage) [][]shownMessage {
	newest, room := len(exchanges)-1, historyPage
	for i := newest; i >= 0; i-- {
		for _, m := range exchanges[i] {
			room -= utf8.RuneCountInString(m.text)
		}
		if room < 0 && i == newest {
			return [][]shownMessage{fitExchange(exchanges[i])}
		}
		if room < 0 {
			return exchanges[i+1:]
		}
	}
	return exchanges
}

// fitExchange gives the newest messages of an exchange that a page holds, after
// a word on those that it does not.
func fitExchange(exchange []shownMessage) []shownMessage {
	first, room := len(exchange), historyPage
	for first > 0 {
		if room -= utf8.RuneCountInString(exchange[first-1].text); room < 0 {
			break
		}
		first--
	}
	left := shownMessage{
		at:   exchange[first].at,
		text: fmt.Sprintf("*[%s of this exchange not shown]*", plural(int64(first), "earlier message")),
	}
	return append([]shownMessage{left}, exchange[first:]...)
}

func writeExchanges(b *strings.Builder, exchanges [][]shownMessage) {
	day := ""
	for _, exchange := range exchanges {
		for _, m := range exchange {
			if d := m.at.Format("Monday, 2 January 2006"); d != day {
				day = d
				fmt.Fprintf(b, "\n\n*%s*", day)
			}
			b.WriteString("\n\n" + m.text)
		}
	}
}

func showMessage(m conversation.Message) string {
	who := "Assistant"
	if m.Role == conversation.RoleUser {
		who = "You"
		if m.Sender != (conversation.Sender{}) {
			who = window.SenderName(m.Sender)
		}
	}
	text := shorten(m.Content, historyMessage)
	gap := " "
	if strings.Contains(text, "\n") {
		gap = "\n\n" // lists, tables and code begin on a line of their own
	}
	if m.Stopped {
		text = marked(text, "stopped")
	}
	if words := m.FinishReason.Words(); words != "" {
		text = marked(text, words)
	}
	return fmt.Sprintf("%s **%s:**%s%s", m.At.Format("15:04"), who, gap, text)
}

// marked puts words behind a text: below the line that closes a code block, which
// holds nothing else.
func marked(text, words string) string {
	gap := " "
	if last := text[strings.LastIndexByte(text, '\n')+1:]; strings.HasPrefix(last, "```") || strings.HasPrefix(last, "~~~") {
		gap = "\n\n"
	}
	return text + gap + "*(" + words + ")*"
}

// shorten keeps the lines of a text but not all of its length. A code block that
// is open at the end is closed, so that it does not swallow what follows.
func shorten(text string, limit int) string {
	text = strings.TrimSpace(text)
	if len(text) > limit { // else it has no more runes than that
		if runes := []rune(text); len(runes) > limit {
			text = strings.TrimSpace(string(runes[:limit])) + " …"
		}
	}
	if fence := transcript.OpenFence(text); fence != "" {
		text += "\n" + fence
	}
	return text
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
	var actions []conversation.Action
	if len(list) > listMost {
		older := fmt.Sprintf("/history list %d", page+1)
		fmt.Fprintf(&b, "\n\nOlder: `%s`", older)
		actions = append(actions, conversation.Action{Label: "Older", Command: older})
	}
	return result{text: b.String(), actions: actions}, nil
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
