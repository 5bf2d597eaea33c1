package command

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"parley/agentloop/window"
	"parley/conversation"
)

const (
	historyMessage = 700  // runes of a message that are shown
	historyPage    = 1700 // runes of a page: one message of Discord has 2,000 (discord.com/developers/docs/resources/message#create-message)
)

// shownMessage is a message as a page shows it.
type shownMessage struct {
	at   time.Time
	text string
}

// turnsOf groups messages by turn, oldest first.
func turnsOf(messages []conversation.Message) [][]shownMessage {
	var list [][]shownMessage
	for i, m := range messages {
		if i == 0 || messages[i].StartsTurn(&messages[i-1]) {
			list = append(list, nil)
		}
		last := len(list) - 1
		list[last] = append(list[last], shownMessage{at: m.At, text: showMessage(m)})
	}
	return list
}

// fitPage returns the newest turns that a page holds. One that is longer than a
// page is cut to it.
func fitPage(turns [][]shownMessage) [][]shownMessage {
	newest, room := len(turns)-1, historyPage
	for i := newest; i >= 0; i-- {
		for _, m := range turns[i] {
			room -= utf8.RuneCountInString(m.text)
		}
		if room < 0 && i == newest {
			return [][]shownMessage{fitTurn(turns[i])}
		}
		if room < 0 {
			return turns[i+1:]
		}
	}
	return turns
}

// fitTurn returns the newest messages of a turn that a page holds, after a
// line that says how many were left out.
func fitTurn(turn []shownMessage) []shownMessage {
	first, room := len(turn), historyPage
	for first > 0 {
		if room -= utf8.RuneCountInString(turn[first-1].text); room < 0 {
			break
		}
		first--
	}
	left := shownMessage{
		at:   turn[first].at,
		text: fmt.Sprintf("*[%s of this turn not shown]*", plural(int64(first), "earlier message")),
	}
	return append([]shownMessage{left}, turn[first:]...)
}

func writeTurns(b *strings.Builder, turns [][]shownMessage) {
	day := ""
	for _, turn := range turns {
		for _, m := range turn {
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
	text := window.Excerpt(m.Content, historyMessage)
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

// marked adds a mark to the end of a text. Where the last line closes a code block, the mark
// goes below it, since that line may hold nothing else.
func marked(text, words string) string {
	gap := " "
	if last := text[strings.LastIndexByte(text, '\n')+1:]; strings.HasPrefix(last, "```") || strings.HasPrefix(last, "~~~") {
		gap = "\n\n"
	}
	return text + gap + "*(" + words + ")*"
}
