package search

import (
	"strings"
	"sync"
	"time"

	"parley/conversation/fulltext"
)

// Words that very many messages have are ignored beside rarer ones, but finding out that they are frequent takes most of the
// time of a search. A word stays frequent, since messages are added all the time and seldom deleted. So frequent words are
// remembered.

const (
	// frequentFor is how long a frequent word is remembered. After a deletion of messages, a word that has become rare may
	// be ignored for that long.
	frequentFor = 10 * time.Minute

	// maxFrequent is how many words are remembered over all sessions, at most: about 10 MiB.
	maxFrequent = 50_000
)

// frequentTerm identifies a term and where it is frequent.
type frequentTerm struct {
	session, conversation, match string
	withoutTools                 bool
	threshold                    int // at least this many messages have the term
}

// frequentWords remembers terms that very many messages have. It is safe for concurrent use.
type frequentWords struct {
	mu    sync.Mutex
	known map[frequentTerm]time.Time // when each was found to be frequent
}

// frequentKey is the key by which db.DB.Shared holds the frequentWords of a database.
type frequentKey struct{}

func newFrequentWords() any { return &frequentWords{known: map[frequentTerm]time.Time{}} }

func (f *frequentWords) has(t frequentTerm) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, known := f.known[t]
	return known && time.Since(since) < frequentFor
}

func (f *frequentWords) add(t frequentTerm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= maxFrequent {
		clear(f.known)
	}
	f.known[t] = time.Now()
}

// frequentTerm returns the key by which frequentWords remembers a term. ok is false if the span is only a part of what is
// searched: then nothing is remembered.
func (l *lookup) frequentTerm(t fulltext.Term, in span) (key frequentTerm, ok bool) {
	if !in.whole {
		return key, false
	}
	match := strings.Join(t.RankTokens(0), " ") + " " + of(t).fts5(words).query
	return frequentTerm{l.session, l.query.Conversation, match, l.query.WithoutTools, l.most()}, true
}
