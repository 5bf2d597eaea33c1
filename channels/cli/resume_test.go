package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/plaintext"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func said(role conversation.Role, text string, before time.Duration) conversation.Message {
	return conversation.Message{Role: role, Content: text, At: noon.Add(-before)}
}

func TestRecapShowsTheLastTurns(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	user, assistant := conversation.RoleUser, conversation.RoleAssistant
	stopped := said(assistant, "fo", 2*time.Hour)
	stopped.Stopped = true
	got := recapOf([]conversation.Message{
		said(user, "zero", 72*time.Hour), said(assistant, "null", 72*time.Hour),
		said(user, "one", 48*time.Hour), said(assistant, "", 48*time.Hour), said(conversation.RoleTool, "{}", 48*time.Hour), said(assistant, "eins", 48*time.Hour),
		said(user, "two", 3*time.Hour), said(user, "three", 3*time.Hour), said(assistant, strings.Repeat("a\n\n", 10), 3*time.Hour),
		said(user, strings.Repeat("long ", 20)+"\x1b[2J\n  # four", 2*time.Hour), stopped,
	})
	want := `Where you left off, 2 hours ago:

you · 2 Mar 12:00
  one

assistant · 2 Mar 12:00
  eins

you · 09:00
  two

you · 09:00
  three

assistant · 09:00
  a

  a

  a

  a …

you · 10:00
  long long long long long long long
  long long long long long long long
  long long long long long long [2J
    # four

assistant · 10:00 · stopped
  fo`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := recapOf(nil); got != "" {
		t.Errorf("a recap of nothing: %q", got)
	}
}

// recapOf returns what a terminal of 40 columns shows at noon.
func recapOf(messages []conversation.Message) string {
	return strings.Join(newTypesetter(newPalette()).recap(messages, noon, 40), "\n")
}

func TestSessionNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"default": true, "a.B-c_9": true, strings.Repeat("x", 64): true,
		strings.Repeat("x", 65): false, "a b": false, "a:b": false, "ü": false, "a\n": false,
	} {
		if err := ValidateSession(name); (err == nil) != ok {
			t.Errorf("session %q: %v", name, err)
		}
	}
}

func TestConversationIsPickedByNumberOrWords(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	from := []conversation.Conversation{
		{ID: "a", Title: "Plans for\x1b the\u202e garden\u2069", Messages: 12, UpdatedAt: noon.Add(-time.Hour), Active: true},
		{ID: "b", Messages: 1, UpdatedAt: noon.AddDate(-1, 0, 0)},
	}
	for name, tc := range map[string]struct {
		answers, id string
		err         error
	}{
		"first":        {"1\n", "a", nil},
		"asked again":  {"0\nnine\n3\n 2 \n", "b", nil},
		"without end":  {"2", "b", nil},
		"empty":        {"\n1\n", "", ErrNothingPicked},
		"end of input": {"", "", ErrNothingPicked},
		"junk at end":  {"junk", "", ErrNothingPicked},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			got, err := Picker{In: strings.NewReader(tc.answers), Out: &out, Interactive: true}.Pick(t.Context(), from, noon)
			if got.ID != tc.id || !errors.Is(err, tc.err) {
				t.Errorf("picked %q, %v", got.ID, err)
			}
			want := "  1  Plans for the garden  11:00 · 12 messages · open\n  2  untitled  4 Mar 2025 12:00 · 1 message\n"
			if !strings.HasPrefix(out.String(), want) {
				t.Errorf("printed\n%s", out.String())
			}
		})
	}
}

func TestPickLeavesTheRestOfTheInput(t *testing.T) {
	in := strings.NewReader("1\nhello\n")
	_, err := Picker{In: in, Out: io.Discard, Interactive: true}.Pick(t.Context(), make([]conversation.Conversation, 1), noon)
	if rest, _ := io.ReadAll(in); err != nil || string(rest) != "hello\n" {
		t.Errorf("left %q, %v", rest, err)
	}
}

func TestPickNeedsATerminalAndAChoice(t *testing.T) {
	if _, err := (Picker{}).Pick(t.Context(), make([]conversation.Conversation, 1), noon); !errors.Is(err, ErrNotInteractive) {
		t.Errorf("without a terminal: %v", err)
	}
	if _, err := (Picker{Interactive: true}).Pick(t.Context(), nil, noon); !errors.Is(err, ErrNoConversations) {
		t.Errorf("without conversations: %v", err)
	}
	in, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := Picker{In: in, Out: io.Discard, Interactive: true}
	if _, err := p.Pick(ctx, make([]conversation.Conversation, 1), noon); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func TestFirstBlock(t *testing.T) {
	for name, tc := range map[string]struct{ first, rest string }{
		"paragraphs":     {"one\ntwo\n\n", "three\n\nfour"},
		"fence":          {"```go\na\n\nb\n```\n\n", "after"},
		"tilde in fence": {"````\n~~~\n\n```\n\nx\n````\n\n", "after"},
		"list":           {"- a\n\n  more\n\n- b\n\n", "after"},
		"numbers":        {"1. a\n\n2. b\n\n", "after"},
		"list after":     {"intro\n\n", "- a\n- b"},
		"inline fence":   {"```not a fence``` x\n\n", "after"},
	} {
		if got := firstBlock(tc.first + tc.rest); got != len(tc.first) {
			t.Errorf("%s: cut at %d, want %d", name, got, len(tc.first))
		}
	}
	for _, whole := range []string{"", "one", "one\n\n", "```\nopen\n\nfence\n\n", "- a\n\n- b"} {
		if got := firstBlock(whole); got != 0 {
			t.Errorf("%q is one block, but cut at %d", whole, got)
		}
	}
}

// steers reports whether a character would control the terminal.
func steers(r rune) bool { return r != '\n' && plaintext.Steers(r) }

func TestRecapHasNoControlCharacters(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	got := recapOf([]conversation.Message{said(conversation.RoleUser, "a\x1b[2J\u202eb"+strings.Repeat("\u200b\n", 20), time.Hour), said(conversation.RoleAssistant, "\u2066c\u009b", time.Hour)})
	if strings.ContainsFunc(got, steers) || !strings.Contains(got, "a[2Jb") {
		t.Errorf("%q", got)
	}
}
