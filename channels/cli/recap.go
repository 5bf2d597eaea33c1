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
	recapLines = 6
	recapRunes = 600
)

// Recap renders where a conversation was left: its last turns, with who
// wrote and when, as lines for Options.Intro. messages are in order; tool
// calls and their results are left out. It returns nil when nobody has spoken.
func Recap(messages []conversation.Message, now time.Time) []string {
	spoken := lastTurns(messages, recapTurns)
	if len(spoken) == 0 {
		return nil
	}
	p := newPalette()
	last := spoken[len(spoken)-1].At
	lines := []string{p.dim("Where you left off, " + ago(now.Sub(last)) + ":"), ""}
	for _, m := range spoken {
		who := p.accent("you")
		if m.Role == conversation.RoleAssistant {
			who = p.bold("assistant")
		}
		head := who + p.dim(" · "+when(m.At, now))
		if m.Stopped {
			head += p.dim(" · stopped")
		}
		if words := m.FinishReason.Words(); words != "" {
			head += p.dim(" · " + words)
		}
		lines = append(lines, head)
		text := shorten(strings.TrimSpace(plaintext.ForTerminal(m.Content)), recapLines, recapRunes)
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, "  "+line)
		}
		lines = append(lines, "")
	}
	return lines[:len(lines)-1]
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
