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

// New returns the searcher of a store.
func New(store *conversation.Store) *Searcher { return &Searcher{store: store, db: store.DB()} }

// Query says what to look for, and where.
type Query struct {
	Key          conversation.Key // the session to search; "" = all sessions, which is for the operator alone
	Conversation string           // the ID of one conversation of the session; "" = all
	Words        string           // plain text: words, and phrases in double quotes
	TalkOnly     bool             // leave out the arguments and the results of tool calls
	ExceptTool   string           // leave out the results of this tool, and messages that call it; "" = of none
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

// Find returns the messages that have all words and phrases of a query, the best first. If there are none, and no
// message has the query's last word, that word may also be the beginning of one. If there are still none, and nothing is
// quoted, Find returns the messages that have any of the words. A word is found in its other forms, too, in the
// languages that package fulltext knows.
//
// All matches are ranked by BM25 with the frequencies of words in what is searched, together with the messages beside
// each; of equals, the newer one comes first. A message in a conversation that began later counts as newer. So that the
// cost has a bound, words that very many messages have count for nothing beside rarer ones; where there is no rarer one,
// the newest messages that have them are ranked.
//
// Where the store has an Embedder, and nothing is quoted, the messages of the session whose vectors come nearest to that of
// the query are found, too, and both rankings are fused. Without an answer of its server, words alone are looked for.
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
	s.db.CatchUp(ctx, wordindex.UpdateNewRanks)
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer conn.Close()
	l := &lookup{conn: conn, query: query, answers: map[question][]int64{}}
	if query.isForMeaning(terms) {
		l.meaning = vectorOf(ctx, s.store.Embedder(), query.Words)
	}
	hits, err := l.run(ctx, terms)
	return hits, db.Explain(err)
}

// lookup is one search under way.
type lookup struct {
	conn     *sql.Conn
	query    Query
	session  string           // the token of the session in the index; "" = all sessions
	sizes    []size           // of the conversations that are searched, the newest first
	spans    []span           // of them
	meaning  <-chan []float32 // gives the vector of the query, or nil; nil where only words are looked for
	nearest  []int64          // the messages that come near, when nearRead is true
	nearRead bool
	ranked   bool                 // the ranks of all messages are in the index
	answers  map[question][]int64 // of the index, which is asked repeatedly
}

func (l *lookup) run(ctx context.Context, terms []fulltext.Term) ([]Hit, error) {
	if err := l.locate(ctx); err != nil {
		return nil, err
	}
	var err error
	if l.ranked, err = wordindex.Ranked(ctx, l.conn); err != nil {
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
		return nil // and no spans
	case err != nil:
		return err
	}
	l.sizes, err = sizesOf(ctx, l.conn, session, l.query.Conversation)
	l.session, l.spans = wordindex.SessionToken(session), spansOf(l.sizes)
	return err
}

// everywhere reports whether all sessions are searched.
func (l *lookup) everywhere() bool { return l.query.Key == "" && l.query.Conversation == "" }

// byTerms returns the page of messages that were found, and the terms that they were found by.
func (l *lookup) byTerms(ctx context.Context, terms []fulltext.Term) ([]int64, []fulltext.Term, error) {
	m, err := l.match(ctx, terms)
	if err != nil {
		return nil, nil, err
	}
	page, found, err := l.page(ctx, m.rank(true))
	if err != nil || found {
		return page, terms, err
	}
	if last := slices.IndexFunc(terms, fulltext.Term.MayBePrefix); last >= 0 && len(m.lists[last]) == 0 {
		terms[last].Prefix = true
		if m, err = l.match(ctx, terms); err != nil {
			return nil, nil, err
		}
		if page, found, err = l.page(ctx, m.rank(true)); err != nil || found {
			return page, terms, err
		}
	}
	if slices.ContainsFunc(terms, isQuoted) {
		return nil, terms, nil
	}
	terms = fulltext.SplitTerms(terms)
	if m, err = l.match(ctx, terms); err != nil {
		return nil, nil, err
	}
	if page, found, err = l.page(ctx, m.rank(false)); err == nil && !found {
		page, err = l.nearestPage(ctx)
	}
	return page, terms, err
}

func isQuoted(t fulltext.Term) bool { return t.Quoted }

// page returns the messages on the page of a ranking that the query asks for, together with what comes near by its meaning.
// found reports whether the ranking has any message that is for this search.
func (l *lookup) page(ctx context.Context, words *fulltext.Ranking) (page []int64, found bool, err error) {
	if l.meaning == nil {
		return l.pageOf(ctx, words)
	}
	r, found, err := l.fuse(ctx, words)
	if err != nil || !found {
		return nil, false, err
	}
	page, _, err = l.pageOf(ctx, r)
	return page, true, err
}

// ranking gives messages by their rows in the index, the best first.
type ranking interface {
	// Next returns up to n messages that follow. There are no more when it returns none.
	Next(n int) []int64
}

func (l *lookup) pageOf(ctx context.Context, r ranking) (page []int64, found bool, err error) {
	skip, want := l.query.Skip, l.query.Limit
	for want > 0 {
		rowIDs := r.Next(skip + want + 10) // some are left out
		if len(rowIDs) == 0 {
			break
		}
		ids, err := l.allowed(ctx, rowIDs)
		if err != nil {
			return nil, false, err
		}
		found = found || len(ids) > 0
		skipped := min(skip, len(ids))
		ids = ids[skipped:]
		ids = ids[:min(want, len(ids))]
		page, skip, want = append(page, ids...), skip-skipped, want-len(ids)
	}
	return page, found, nil
}
