// Package search finds what was said: messages by their words, and the turns of a conversation by their numbers.
//
// Words are looked for in the index that package wordindex keeps, which is in the same database; what they mean is up to
// package fulltext.
package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

// Searcher searches a store. It is safe for concurrent use.
type Searcher struct {
	store *conversation.Store
	db    *db.DB
}

// New returns what searches a store.
func New(store *conversation.Store) *Searcher { return &Searcher{store: store, db: store.DB()} }

// Query says what to look for, and where.
type Query struct {
	Key          conversation.Key // the session to search; "" = all sessions, which is for the operator alone
	Conversation string           // the ID of one conversation of the session; "" = all
	Words        string           // plain text: words, and phrases in double quotes
	TalkOnly     bool             // leave out the arguments and the results of tool calls
	Limit, Skip  int              // the page of hits to return
}

// Hit is a message that was found.
type Hit struct {
	Key          conversation.Key
	Conversation string // ID
	Title        string // of the conversation
	Seq          int64
	Turn         int64 // the number of the turn that the message is in; 0 = they can't be counted, since the file is damaged
	Role         conversation.Role
	ToolName     string              // of a tool's result
	Sender       conversation.Sender // of a user's message
	At           time.Time
	Snippet      fulltext.Snippet
}

const (
	blockSize = 100  // how many matches are ranked among each other, the newest first
	minEach   = 10   // how many of them there are at least for each word, where no message has all words
	textSize  = 2000 // how much of a message counts for its rank, in bytes
)

// Find returns the messages that have all words and phrases of a query, the best first. If there are none, and no
// message has the query's last word, that word may also be the beginning of one. If there are still none, and nothing is
// quoted, Find returns the newest of the messages that have any of the words.
//
// The newest 100 matches are ranked among each other, then the next 100, so that the cost grows with Skip and not with
// the archive. A message in a conversation that began later counts as newer.
//
// A message is found about a second after its commit. Deleted messages are not found, and neither are those on damaged
// pages of the file. Internal messages, and those that were replaced or taken back, are found only in a search over all
// sessions. A Conversation that the session does not have is conversation.ErrNotFound.
func (s *Searcher) Find(ctx context.Context, query Query) ([]Hit, error) {
	terms := fulltext.ParseQuery(query.Words)
	if len(terms) == 0 || query.Limit <= 0 {
		return nil, nil
	}
	s.db.CatchUp(ctx, wordindex.Update)
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer conn.Close()
	l := &lookup{conn: conn, query: query, answers: map[question][]int64{}}
	hits, err := l.run(ctx, terms)
	return hits, db.Explain(err)
}

// lookup is one search under way.
type lookup struct {
	conn    *sql.Conn
	query   Query
	session string               // the token of the session in the index; "" = all sessions
	spans   []span               // of the session
	answers map[question][]int64 // of the index, which phrases of a query ask for repeatedly
}

func (l *lookup) run(ctx context.Context, terms []fulltext.Term) ([]Hit, error) {
	if err := l.locate(ctx); err != nil {
		return nil, err
	}
	found, terms, err := l.byTerms(ctx, terms)
	if err != nil {
		return nil, err
	}
	return l.hits(ctx, found, terms)
}

// locate finds the spans of the index that are to be searched.
func (l *lookup) locate(ctx context.Context) error {
	if l.everywhere() {
		return nil
	}
	var session int64
	err := l.conn.QueryRowContext(ctx, `
		SELECT s.id FROM sessions s WHERE (?1 = '' OR s.key = ?1)
			AND (?2 = '' OR s.id = (SELECT session_id FROM conversations WHERE uuid = ?2 AND deleted = 0))`,
		string(l.query.Key), l.query.Conversation).Scan(&session)
	switch {
	case errors.Is(err, sql.ErrNoRows) && l.query.Conversation != "":
		return fmt.Errorf("search in %s: %w", l.query.Conversation, conversation.ErrNotFound)
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	sizes, err := sizesOf(ctx, l.conn, session, l.query.Conversation)
	l.session, l.spans = wordindex.SessionToken(session), spansOf(sizes)
	return err
}

// everywhere reports whether all sessions are searched.
func (l *lookup) everywhere() bool { return l.query.Key == "" && l.query.Conversation == "" }

// byTerms returns the page of messages that were found, and the terms that they were found by.
func (l *lookup) byTerms(ctx context.Context, terms []fulltext.Term) ([]fulltext.Document, []fulltext.Term, error) {
	page, found, err := l.all(ctx, terms)
	if err != nil || found {
		return page, terms, err
	}
	changed, err := l.makePrefix(ctx, terms)
	if err != nil {
		return nil, nil, err
	}
	if changed {
		if page, found, err = l.all(ctx, terms); err != nil || found {
			return page, terms, err
		}
	}
	if slices.ContainsFunc(terms, func(t fulltext.Term) bool { return t.Quoted }) {
		return nil, terms, nil
	}
	terms = fulltext.SplitTerms(terms)
	page, err = l.some(ctx, terms)
	return page, terms, err
}

// makePrefix makes the last word of the query a prefix if no message has it. It reports whether it did.
func (l *lookup) makePrefix(ctx context.Context, terms []fulltext.Term) (bool, error) {
	last := slices.IndexFunc(terms, fulltext.Term.MayBePrefix)
	if last < 0 {
		return false, nil
	}
	matched, err := l.newest(ctx, terms[last:last+1], 1)
	terms[last].Prefix = err == nil && len(matched) == 0
	return terms[last].Prefix, err
}

// all returns the page of messages that have all terms. found reports whether there are such messages at all.
func (l *lookup) all(ctx context.Context, terms []fulltext.Term) (page []fulltext.Document, found bool, err error) {
	skip, want := l.query.Skip, l.query.Limit
	every := make([]int, len(terms))
	for i := range every {
		every[i] = i
	}
	for offset := 0; want > 0; offset += blockSize {
		matched, err := l.newest(ctx, terms, offset+blockSize)
		if err != nil {
			return nil, false, err
		}
		matched = matched[min(offset, len(matched)):]
		block, err := l.candidates(ctx, matched, func(int64) []int { return every })
		if err != nil {
			return nil, false, err
		}
		fulltext.Rank(block, terms)
		found = found || len(block) > 0
		if skip < len(block) {
			block = block[skip:min(len(block), skip+want)]
			page, want, skip = append(page, block...), want-len(block), 0
		} else {
			skip -= len(block)
		}
		if len(matched) < blockSize {
			break
		}
	}
	return page, found, nil
}

// some returns the page of messages that have any of the terms.
func (l *lookup) some(ctx context.Context, terms []fulltext.Term) ([]fulltext.Document, error) {
	has := map[int64][]int{} // the terms of each message
	var matched []int64
	for t := range terms {
		found, err := l.newest(ctx, terms[t:t+1], max(minEach, blockSize/len(terms)))
		if err != nil {
			return nil, err
		}
		for _, rowID := range found {
			if has[rowID] == nil {
				matched = append(matched, rowID)
			}
			has[rowID] = append(has[rowID], t)
		}
	}
	pool, err := l.candidates(ctx, matched, func(rowID int64) []int { return has[rowID] })
	if err != nil {
		return nil, err
	}
	fulltext.Rank(pool, terms)
	pool = pool[min(l.query.Skip, len(pool)):]
	return pool[:min(l.query.Limit, len(pool))], nil
}
