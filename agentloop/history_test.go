package agentloop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var olderLine = regexp.MustCompile("Older: `([^`]+)`")

// readThrough follows the line "Older: ..." from page to page.
func readThrough(h *harness, command string) (pages []string) {
	h.t.Helper()
	for command != "" && len(pages) < 100 {
		page := h.ask(room, command)
		pages = append(pages, page)
		command = ""
		if next := olderLine.FindStringSubmatch(page); next != nil {
			command = next[1]
		}
	}
	return pages
}

// Pages of long messages hold fewer turns than were asked for. All pages together
// show every turn once.
func TestHistoryPagesAreShortAndMissNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	const said = 12
	for i := range said {
		h.ask(room, fmt.Sprintf("question-%d %s", i, strings.Repeat("word ", 100*(i%3))))
	}
	pages := readThrough(h, "/history 50")
	if len(pages) < 2 {
		t.Fatalf("%d pages", len(pages))
	}
	for i, page := range pages {
		if n := utf8.RuneCountInString(page); n > 4096 {
			t.Errorf("page %d has %d runes, more than one message of Telegram", i+1, n)
		}
	}
	for i := range said {
		question := fmt.Sprintf("**You:** question-%d", i)
		if n := len(regexp.MustCompile(regexp.QuoteMeta(question)+`\b`).FindAllString(strings.Join(pages, "\n"), -1)); n != 1 {
			t.Errorf("%s is shown %d times", question, n)
		}
	}
}

func TestHistoryOfOneHugeTurnIsOnePage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Budget = 20_000 })
	h.ask(room, "before")
	var burst []string
	for i := range 40 {
		burst = append(burst, fmt.Sprintf("part-%d %s", i, strings.Repeat("x", 300)))
	}
	h.say(room, burst...)
	h.reply(room)
	page := h.ask(room, "/history")
	if n := utf8.RuneCountInString(page); n > 4096 {
		t.Errorf("the page has %d runes", n)
	}
	for _, part := range []string{"**Assistant:** echo: part-39", "part-38", "earlier messages of this turn not shown", "Older: `/history 5 1`"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q:\n%s", part, page)
		}
	}
	if page = h.ask(room, "/history 5 1"); !strings.Contains(page, "before") || strings.Contains(page, "part-") {
		t.Errorf("the next page: %s", page)
	}
}

func TestHistoryThatIsTooFarBackSaysSo(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "hello")
	for command, want := range map[string]string{
		"/history 51":       "at most 50 turns",
		"/history 5 10001":  "goes back 10000 turns and no further",
		"/history 5 7":      "nothing older than that",
		"/history 5 -1":     "`/history [n] [skip]`",
		"/history list 0":   "`/history list [page]`",
		"/history 99999999": "`/history [n] [skip]`",
	} {
		if got := h.ask(room, command); !strings.Contains(got, want) {
			t.Errorf("%s: %q lacks %q", command, got, want)
		}
	}
}
