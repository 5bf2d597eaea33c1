package agentloop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/conversation"
)

var moreLine = regexp.MustCompile("More: `([^`]+)`")

// found searches until the index, which is updated after the commit, has the words.
func (h *harness) found(key conversation.Key, words string) (reply string) {
	h.t.Helper()
	until(h.t, "the index has "+words, func() bool {
		reply = h.ask(key, "/search "+words)
		return strings.HasPrefix(reply, "**Found")
	})
	return reply
}

// /search finds what was said weeks ago, also in an earlier conversation, and shows the
// time.
func TestSearchFindsWhatWasSaidHere(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "the boiler has the number 8812")
	h.ask(room, "/new Another talk")
	h.ask(room, "how is the weather")
	h.ask("cli:neighbour", "my boiler is a secret")
	h.found(room, "weather")
	got := h.ask(room, "/search BOILER number")
	if !regexp.MustCompile(`(?s)^\*\*Found for “BOILER number”\*\*.*\d{4}-\d\d-\d\d \d\d:\d\d in \*the boiler has the number 8812\*, You: the \*\*boiler\*\* has the \*\*number\*\* 8812`).MatchString(got) {
		t.Errorf("found: %s", got)
	}
	if strings.Contains(got, "secret") {
		t.Errorf("another session's words: %s", got)
	}
	if got := h.ask(room, "/search secret"); !strings.HasPrefix(got, "Nothing was found for “secret”") {
		t.Errorf("another session's words: %s", got)
	}
	if got := h.ask(room, "/search"); !strings.Contains(got, "/search WORDS") {
		t.Errorf("without words: %s", got)
	}
}

// A page of hits fits into one message of any platform. All pages together show every
// hit once.
func TestSearchPagesAreShortAndMissNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	var lines []string
	for i := range 30 {
		lines = append(lines, fmt.Sprintf("walrus-%02d `*%s", i, strings.Repeat(" walrus", 60)))
	}
	h.say(room, lines...)
	h.reply(room)
	page := h.found(room, "walrus")
	seen := map[string]int{}
	for command := ""; ; page = h.ask(room, command) {
		if n := utf8.RuneCountInString(page); n > 4096 {
			t.Errorf("a page of %d runes", n)
		}
		for _, name := range regexp.MustCompile(`You: (walrus-\d\d)`).FindAllStringSubmatch(strings.ReplaceAll(page, "**", ""), -1) {
			seen[name[1]]++
		}
		next := moreLine.FindStringSubmatch(page)
		if next == nil {
			break
		}
		command = next[1]
	}
	for _, line := range lines {
		if name := line[:9]; seen[name] != 1 {
			t.Errorf("%s was shown %d times", name, seen[name])
		}
	}
}

func TestHostileSearchIsOnlyText(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "hello there")
	for _, words := range []string{`"`, "AND", "*", "NEAR(a b)", "#0 hello", "#99999 hello", "👍", strings.Repeat("x ", 5000), "-hello*"} {
		if got := h.ask(room, "/search "+words); strings.Contains(got, "Something went wrong") {
			t.Errorf("/search %.40s: %s", words, got)
		}
	}
}
