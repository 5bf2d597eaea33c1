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
	"parley/conversation/metadata"
	"parley/conversation/vectors"
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
	Key          conversation.Key // the session to search; "" = those of Scope
	Conversation string           // the ID of one conversation of the session; "" = all
	Scope        Scope            // where Key and Conversation are "": which sessions to search
	Words        string           // plain text: words, and phrases in double quotes
	TalkOnly     bool             // leave out the arguments and the results of tool calls
	Metadata     metadata.Filter  // each member is in that of the message, of its conversation or of its session
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
	Metadata     metadata.Object // of the message
	File         *FilePage       // where the words are in a file of the message, behind what the message holds of it; else nil
}

// FilePage is a page of a file's text.
type FilePage struct {
	ID          int64 // of the kept file
	N           int   // place among the files of the message, from 0; -1 = the message does not list it
	Name        string
	Page, Pages int64 // numbered from 1, as package files has them; Pages is 0 when the text can't be read
}

// Find returns the messages that have all words and phrases of a query, the best first. If there are none, and no
// message has the query's last word, that word may also be the beginning of one. If there are still none, Find returns the
// messages that have all phrases and any of the words. A word is found in its other forms, too, in the
// languages that package fulltext knows.
//
// All matches are ranked by BM25 with the frequencies of words in what is searched, together with the messages beside
// each; of equals, the newer one comes first. A message in a conversation that began later counts as newer. So that the
// cost has a bound, words that very many messages have count for nothing beside rarer ones; where there is no rarer one,
// the newest messages that have them are ranked.
//
// Where the store has an Embedder, and nothing is quoted, the messages whose vectors come nearest to that of the query are
// found, too, and both rankings are fused. Without an answer of its server, words alone are looked for, and also in several
// sessions that have more than 100,000 messages or 300 conversations together.
//
// A message is also found by what its files say. It is a hit once, by the best of its places. Long files are in the index some
// seconds after the message.
//
// A message is found about a second after its commit. Deleted messages are not found, and neither are those on damaged
// pages of the file. Internal messages, and those that were replaced or taken back, are found only in a search over several
// sessions, which is for the operator and for programs. A Conversation that the session does not have is conversation.ErrNotFound.
func (s *Searcher) Find(ctx context.Context, query Query) ([]Hit, error) {
	terms := fulltext.ParseQuery(query.Words)
	if len(terms) == 0 || query.Limit <= 0 {
		return nil, nil
	}
	wordindex.CatchUp(ctx, s.db)
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer conn.Close()
	l := s.newLookup(conn, query)
	var hits []Hit
	err = l.withIndexes(ctx, func() (err error) {
		hits, err = l.run(ctx, terms)
		return err
	})
	return hits, db.Explain(err)
}

// withIndexes calls search. On PostgreSQL it does so in a transaction in which the server looks words up in its index: it would
// rather read all rows of a table where it expects many matches, and then most of the time goes into unpacking their words.
func (l *lookup) withIndexes(ctx context.Context, search func() error) error {
	if !l.postgres {
		return search()
	}
	if _, err := l.conn.ExecContext(ctx, `BEGIN READ ONLY; SET LOCAL enable_seqscan = off; SET LOCAL work_mem = '32MB'`); err != nil {
		return err
	}
	err := search()
	_, ended := l.conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
	return errors.Join(err, ended)
}

func (s *Searcher) newLookup(conn *sql.Conn, query Query) *lookup {
	l := &lookup{db: s.db, conn: conn, path: s.db.Path(), postgres: db.IsURL(s.db.Path()), vectors: vectors.New(s.store), embed: s.store.Embedder(), query: query,
		answers: &answers{of: map[question][]int64{}}, frequent: s.db.Shared(frequentKey{}, newFrequentWords).(*frequentWords), limits: usualLimits()}
	if l.everywhere() {
		l.scope = query.Scope
	}
	l.talkOf = !l.everywhere()
	return l
}

// lookup is one search under way.
type lookup struct {
	db       *db.DB
	conn     *sql.Conn
	path     string // of the database
	postgres bool   // the database is one
	vectors  *vectors.Vectors
	embed    embedder // nil: only words are looked for
	query    Query
	scope    Scope            // the sessions that are searched, where they are several
	talkOf   bool             // internal messages are not found, and neither are those that were replaced or taken back
	session  string           // the token of the session in the index; "" = several sessions
	sizes    []size           // of the conversations that are searched, the newest first; of several sessions only for vectors
	spans    []span           // of them
	meaning  <-chan []float32 // gives the vector of the query, or nil; nil where only words are looked for
	nearest  []int64          // the messages that come near, when nearRead is true
	nearRead bool
	ranked   bool     // the ranks of all messages are in the index
	answers  *answers // of the index, which is asked repeatedly
	frequent *frequentWords
	limits   limits
}

func (l *lookup) run(ctx context.Context, terms []fulltext.Term) ([]Hit, error) {
	if err := l.locate(ctx); err != nil {
		return nil, err
	}
	if err := l.requestMeaning(ctx, terms); err != nil {
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

// everywhere reports whether all sessions of the scope are searched.
func (l *lookup) everywhere() bool { return l.query.Key == "" && l.query.Conversation == "" }

// byTerms returns the page of messages that were found, and the terms that they were found by.
func (l *lookup) byTerms(ctx context.Context, terms []fulltext.Term) ([]int64, []fulltext.Term, error) {
	m, err := l.match(ctx, terms)
	if err != nil {
		return nil, nil, err
	}
	page, found, err := l.page(ctx, m.rank(terms, anyTerm))
	if err != nil || found {
		return page, terms, err
	}
	if last := slices.IndexFunc(terms, fulltext.Term.MayBePrefix); last >= 0 && len(m.lists[last]) == 0 && !m.common[last] {
		terms[last].Prefix = true
		if m, err = l.match(ctx, terms); err != nil {
			return nil, nil, err
		}
		if page, found, err = l.page(ctx, m.rank(terms, anyTerm)); err != nil || found {
			return page, terms, err
		}
	}
	terms = fulltext.SplitTerms(terms)
	if m, err = l.match(ctx, terms); err != nil {
		return nil, nil, err
	}
	if page, found, err = l.page(ctx, m.rank(terms, isQuoted)); err == nil && !found {
		page, err = l.nearestPage(ctx)
	}
	return page, terms, err
}

func anyTerm(fulltext.Term) bool { return true }

func noTerm(fulltext.Term) bool { return false }

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
	shown := map[int64]bool{}                                    // messages
	for n := skip + want + 10; want > 0; n = min(2*n, maxPage) { // some are left out
		rowIDs := r.Next(n)
		if len(rowIDs) == 0 {
			break
		}
		places, err := l.allowed(ctx, rowIDs)
		if err != nil {
			return nil, false, err
		}
		for _, p := range places {
			switch found = true; {
			case shown[p.message]:
				continue
			case skip > 0:
				skip--
			case want > 0:
				page, want = append(page, p.row), want-1
			}
			shown[p.message] = true
		}
	}
	return page, found, nil
}

// maxPage is how many rows of the index are looked up at once.
const maxPage = 2000
