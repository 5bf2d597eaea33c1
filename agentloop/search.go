package agentloop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/agentloop/window"
	"parley/conversation"
)

const (
	searchPage = 8   // hits of a page, which together stay below historyPage
	searchHit  = 320 // runes of a hit with its marks; one with more is shown without
	searchMost = 100 // pages
)

const searchUsage = "`/search WORDS` finds what was said in this place: messages that have all of the words, or a \"quoted phrase\"."

// searchMessages reads "/search [#page] WORDS".
func searchMessages(l *loop, ctx context.Context, turn conversation.Turn, arguments string) (result, error) {
	page, words := searchedPage(arguments)
	if words == "" {
		return result{text: searchUsage}, nil
	}
	hits, err := l.Store.Search(ctx, conversation.SearchQuery{
		Key: l.key, Words: words, TalkOnly: true, Skip: (page - 1) * searchPage, Limit: searchPage + 1,
	})
	if err != nil {
		return result{}, err
	}
	if len(hits) == 0 {
		return result{text: nothingFound(page, words)}, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**Found for %s**, the best first", unmarked(quoted(window.OneLine(words, 100))))
	for _, h := range hits[:min(len(hits), searchPage)] {
		b.WriteString("\n\n" + showHit(h, turn.Conversation.ID))
	}
	var actions []conversation.Action
	if len(hits) > searchPage {
		more := fmt.Sprintf("/search #%d %s", page+1, window.OneLine(words, 500))
		fmt.Fprintf(&b, "\n\nMore: `%s`", strings.ReplaceAll(more, "`", ""))
		actions = append(actions, conversation.Action{Label: "More", Command: more})
	}
	return result{text: b.String(), actions: actions}, nil
}

// searchedPage reads the page, from 1, that may stand before the words as "#2".
func searchedPage(arguments string) (page int, words string) {
	words = strings.TrimSpace(arguments)
	first, rest, _ := strings.Cut(words, " ")
	if number, is := strings.CutPrefix(first, "#"); is && strings.TrimSpace(rest) != "" {
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= searchMost {
			return n, strings.TrimSpace(rest)
		}
	}
	return 1, words
}

func nothingFound(page int, words string) string {
	if page > 1 {
		return "There is nothing more for " + unmarked(quoted(window.OneLine(words, 100))) + "."
	}
	return "Nothing was found for " + unmarked(quoted(window.OneLine(words, 100))) + " in this place. Fewer words, or other ones, may find more."
}

// showHit is a hit in one line, with its conversation unless that is the
// present one.
func showHit(h conversation.Hit, present string) string {
	who := "Assistant"
	if h.Role == conversation.RoleUser {
		who = "You"
		if h.Sender != (conversation.Sender{}) {
			who = unmarked(window.SenderName(h.Sender))
		}
	}
	for i := range h.Snippet {
		h.Snippet[i].Text = unmarked(h.Snippet[i].Text)
	}
	text := h.Snippet.Mark("**", "**")
	if utf8.RuneCountInString(text) > searchHit {
		text = h.Snippet.Mark("", "")
	}
	where := ""
	if h.Conversation != present {
		where = fmt.Sprintf(" in *%s*", unmarked(window.OneLine(orUntitled(h.Title), 40)))
	}
	return fmt.Sprintf("%s%s, %s: %s", when(h.At), where, who, text)
}

// unmarked escapes what would begin bold or code: a piece of a text may have a
// beginning without its end.
func unmarked(text string) string {
	return strings.NewReplacer("`", "\\`", "*", `\*`).Replace(text)
}
