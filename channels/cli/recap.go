package cli

import (
	"fmt"
	"strings"
	"time"

	"parley/conversation"
	"parley/plaintext"
)

const (
	recapTurns = 3
	recapLines = 8 // lines that are shown of each message
)

// recap renders where a conversation was left: its last turns, with who wrote and when, for
// a terminal of the given columns. messages are in order; tool calls and their results are
// left out. It returns nil when nobody has spoken.
func (m *typesetter) recap(messages []conversation.Message, now time.Time, columns int) []string {
	spoken := lastTurns(messages, recapTurns)
	if len(spoken) == 0 {
		return nil
	}
	last := spoken[len(spoken)-1].At
	lines := []string{m.palette.dim("Where you left off, " + ago(now.Sub(last)) + ":"), ""}
	for _, said := range spoken {
		who := m.palette.accent("you")
		if said.Role == conversation.RoleAssistant {
			who = m.palette.bold("assistant")
		}
		head := who + m.palette.dim(" · "+when(said.At, now))
		if said.Stopped {
			head += m.palette.dim(" · stopped")
		}
		if words := said.FinishReason.Words(); words != "" {
			head += m.palette.dim(" · " + words)
		}
		lines = append(lines, head)
		for _, line := range firstLines(m.recapText(said, columns-len(recapIndent)), recapLines) {
			lines = append(lines, strings.TrimRight(recapIndent+line, " "))
		}
		lines = append(lines, "")
	}
	return lines[:len(lines)-1]
}

const recapIndent = "  "

// recapText returns the lines of a message: an answer as it was rendered when it came, and
// what the user wrote as it was typed.
func (m *typesetter) recapText(said conversation.Message, columns int) []string {
	text := strings.TrimSpace(plaintext.ForTerminal(said.Content))
	if said.Role == conversation.RoleAssistant {
		if lines := m.render(text, columns); len(lines) > 0 {
			return lines
		}
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, strings.Split(indented(line, columns-1), "\n")...)
	}
	return lines
}

// firstLines returns the first n lines, the last of which says whether there are more.
func firstLines(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	for n > 1 && textWidth(lines[n-1]) == 0 {
		n--
	}
	return append(lines[:n-1:n-1], lines[n-1]+" …")
}

// lastTurns returns what was said in the last n turns.
// Several messages of the user in a row are one turn.
func lastTurns(messages []conversation.Message, n int) []conversation.Message {
	var spoken []conversation.Message
	for _, m := range messages {
		if m.Role != conversation.RoleTool && strings.TrimSpace(m.Content) != "" {
			spoken = append(spoken, m)
		}
	}
	turns := 0
	for i := len(spoken) - 1; i >= 0; i-- {
		if spoken[i].Role != conversation.RoleUser {
			continue
		}
		if i == 0 || spoken[i-1].Role != conversation.RoleUser {
			if turns++; turns == n {
				return spoken[i:]
			}
		}
	}
	return spoken
}

// when formats a time as briefly as can be understood at now, in now's time zone.
func when(t, now time.Time) string {
	t = t.In(now.Location())
	switch {
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
		return t.Format("15:04")
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006 15:04")
}

func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return count(int(d.Minutes()), "minute") + " ago"
	case d < 24*time.Hour:
		return count(int(d.Hours()), "hour") + " ago"
	}
	return count(int(d.Hours()/24), "day") + " ago"
}

// count formats a number of things: "1 line", "20 lines".
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
