// Package grouptalk finds what people said in groups and not to the assistant. It is kept
// apart from the conversations, for a week.
package grouptalk

import (
	"context"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
	"parley/conversation/internal/talkrows"
)

// maxRead is how many messages of a session are looked through: more than are kept.
const maxRead = 2000

// Message is what somebody said to others.
type Message struct {
	Name string // of the sender; people of one name have their ids in it
	Text string
	At   time.Time
}

// Talk finds group talk in a store.
type Talk struct{ db *db.DB }

// New returns the group talk of a store.
func New(store *conversation.Store) *Talk { return &Talk{store.DB()} }

// Find returns messages of a session that have a word of the query, in any of its forms;
// those that have more of them come first, then the newer ones. Without a query it
// returns the newest ones. It leaves out the first offset, returns at most limit, and
// tells how many there are.
func (t *Talk) Find(ctx context.Context, session conversation.Key, query string, offset, limit int) (found []Message, total int, err error) {
	list, err := talkrows.Read(ctx, t.db, string(session), "true", maxRead)
	if err != nil {
		return nil, 0, db.Explain(err)
	}
	names := talkrows.Names(list)
	if query = strings.TrimSpace(query); query != "" {
		list = ranked(list, names, query)
	}
	total = len(list)
	list = list[min(offset, total):min(offset+limit, total)]
	for _, line := range list {
		found = append(found, Message{Name: names[line.ID], Text: line.Text, At: db.FromMillis(line.At)})
	}
	return found, total, nil
}

// Count returns how many messages are kept of a session, and the ids of those who wrote
// them.
func (t *Talk) Count(ctx context.Context, session conversation.Key) (messages int, senders []string, err error) {
	list, err := talkrows.Read(ctx, t.db, string(session), "true", maxRead)
	for _, line := range list {
		if !slices.Contains(senders, line.ID) {
			senders = append(senders, line.ID)
		}
	}
	return len(list), senders, db.Explain(err)
}

// ranked returns the messages that have words of a query, the best first.
func ranked(list []talkrows.Line, names map[string]string, query string) []talkrows.Line {
	wanted := wordsOf(query)
	hits := map[int]int{} // words of each message, by its place in the list
	var which []int
	for i, line := range list {
		said := names[line.ID] + ": " + line.Text
		n := 0
		has := wordsOf(said)
		for word := range wanted {
			if has[word] {
				n++
			}
		}
		if n == 0 && strings.Contains(strings.ToLower(said), strings.ToLower(query)) { // in scripts without spaces
			n = 1
		}
		if n > 0 {
			hits[i], which = n, append(which, i)
		}
	}
	slices.SortStableFunc(which, func(a, b int) int { return hits[b] - hits[a] })
	best := make([]talkrows.Line, 0, len(which))
	for _, i := range which {
		best = append(best, list[i])
	}
	return best
}

// wordsOf returns the words of a text and their stems.
func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	for _, token := range fulltext.RankTokens(text) {
		word, _ := strings.CutSuffix(token, lastRune(token)) // which is how often the text has it
		words[word] = true
	}
	return words
}

func lastRune(text string) string {
	list := []rune(text)
	return string(list[len(list)-1:])
}
