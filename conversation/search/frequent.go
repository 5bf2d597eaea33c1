package search

import (
	"strings"
	"sync"
	"time"

	"parley/conversation/fulltext"
)

// Most of a search's time would be spent on words that very many messages have, only to see that they count for nothing
// beside rarer ones. A word stays frequent, since messages are added all the time and seldom deleted: so it is remembered.

const (
	// frequentFor is how long that is remembered. For so long, a word that is frequent no more, since messages were
	// deleted, may count for nothing.
	frequentFor = 10 * time.Minute

	// mostFrequent is how many words are remembered, over all sessions: about 10 MiB.
	mostFrequent = 50_000
)

// counted is a word in what is searched.
type counted struct {
	session, conversation, match string
	talkOnly                     bool
	least                        int // messages that have it
}

// frequentWords remembers what very many messages have. It is safe for concurrent use.
type frequentWords struct {
	mu    sync.Mutex
	known map[counted]time.Time // since when
}

// frequentKey is the key of a database's frequentWords.
type frequentKey struct{}

func newFrequentWords() any { return &frequentWords{known: map[counted]time.Time{}} }

func (f *frequentWords) has(c counted) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, known := f.known[c]
	return known && time.Since(since) < frequentFor
}

func (f *frequentWords) add(c counted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= mostFrequent {
		clear(f.known)
	}
	f.known[c] = time.Now()
}

// countedTerm returns what is remembered of a term, and false where nothing is: only a part of the messages is searched.
func (l *lookup) countedTerm(t fulltext.Term, in span) (c counted, remembered bool) {
	if !in.whole {
		return c, false
	}
	match := strings.Join(t.RankTokens(0), " ") + " " + of(t).fts5(words).query
	return counted{l.session, l.query.Conversation, match, l.query.TalkOnly, l.most()}, true
}
