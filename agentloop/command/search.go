package command

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/search"
	"parley/plaintext"
)

// Unsearchable returns the answer to a search where the index or the messages are damaged.
const Unsearchable = "⚠️ Nothing can be searched: the database of this gateway is damaged. Its operator has been told."

const (
	searchPage = 8   // hits of a page; together they stay below historyPage
	searchHit  = 320 // runes of a hit with its marks; a longer one is shown without
	searchMost = 100 // pages
)

var searchCommand = Command{
	Name: "search", Arguments: "WORDS", Description: "Find what was said in this place, also in earlier conversations",
	Options: []Option{{Name: "words", Description: "What to look for; words in quotes stand together"}},
	Private: true, Run: searchMessages,
}

const searchUsage = "`/search WORDS` finds what was said in this place: messages that have all of the words, or a \"quoted phrase\"."

// searchMessages takes "[#page] WORDS".
func searchMessages(ctx context.Context, env Env, r Request) (Result, error) {
	page, words := searchedPage(r.Arguments)
	if words == "" {
		return Result{Text: searchUsage}, nil
	}
	hits, err := search.New(env.Store).Find(ctx, search.Query{
		Key: r.Session, Words: words, WithoutTools: true, Skip: (page - 1) * searchPage, Limit: searchPage + 1,
	})
	if err != nil {
		return Result{Text: Unsearchable}, err
	}
	if len(hits) == 0 {
		return Result{Text: nothingFound(page, words)}, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**Found for %s**, the best first", unmarked(quoted(plaintext.ShortLine(words, 100))))
	for _, h := range hits[:min(len(hits), searchPage)] {
		b.WriteString("\n\n" + showHit(h, r.Snapshot.Conversation.ID))
	}
	b.WriteString(readPage(hits[:min(len(hits), searchPage)]))
	var actions []conversation.Action
	if len(hits) > searchPage {
		more := fmt.Sprintf("/search #%d %s", page+1, plaintext.ShortLine(words, 500))
		fmt.Fprintf(&b, "\n\nMore: `%s`", strings.ReplaceAll(more, "`", ""))
		actions = append(actions, conversation.Action{Label: "More", Command: more})
	}
	return Result{Text: b.String(), Actions: actions}, nil
}

// searchedPage returns the words, and the page that may stand before them as "#2".
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
		return "There is nothing more for " + unmarked(quoted(plaintext.ShortLine(words, 100))) + "."
	}
	return "Nothing was found for " + unmarked(quoted(plaintext.ShortLine(words, 100))) + " in this place. Fewer words, or other ones, may find more."
}

// showHit returns a hit in one line. It names the conversation unless that is the
// present one.
func showHit(h search.Hit, present string) string {
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
		where = fmt.Sprintf(" in *%s*", unmarked(plaintext.ShortLine(orUntitled(h.Title), 40)))
	}
	if f := h.File; f != nil {
		where += fmt.Sprintf(", in %s, page %d of %d", unmarked(fileName(*f)), f.Page, f.Pages)
	}
	return fmt.Sprintf("%s%s, %s: %s", when(h.At), where, who, text)
}

func fileName(f search.FilePage) string {
	return cmp.Or(plaintext.ShortLine(f.Name, 60), "a file")
}

// readPage says how to read the page of a file that was found, "" if none was.
func readPage(hits []search.Hit) string {
	for _, h := range hits {
		if h.File != nil {
			return fmt.Sprintf("\n\nTo read on in a file, ask for it: “Show me page %d of %s”.", h.File.Page, unmarked(fileName(*h.File)))
		}
	}
	return ""
}

// unmarked escapes the marks of bold and code, since a snippet may contain only the first
// mark of a pair.
func unmarked(text string) string {
	return strings.NewReplacer("`", "\\`", "*", `\*`).Replace(text)
}
