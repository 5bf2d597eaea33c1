// Package search finds messages and conversations by their words, and reads turns and tool calls of a conversation by
// their numbers.
//
// Package wordindex keeps the index of words, which is in the same database. Package fulltext splits texts into words, and
// ranks what the index has found.
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
	Key          conversation.Key // the session to search; "" = the session of Conversation, or else those of Scope
	Conversation string           // the ID of the only conversation to search; "" = all conversations of the session
	Scope        Scope            // the sessions to search if both Key and Conversation are ""
	Words        string           // plain text: words, and phrases in double quotes; at most 2,000 bytes of it are used
	WithoutTools bool             // leave out the arguments and the results of tool calls
	Metadata     metadata.Filter  // the metadata of the message, its conversation or its session must have each of these members
	ExceptTool   string           // leave out the results of this tool, and messages that call it; "" = leave out none
	Limit        int              // the number of hits to return at most; 0 = none
	Skip         int              // the number of hits to leave out in front of them
}

// Hit is a message that was found.
type Hit struct {
	Key          conversation.Key
	Conversation string // the ID of the conversation
	Title        string // the title of the conversation
	Seq          int64
	Turn         int64 // the number of the message's turn, from 1; 0 = damage of the database prevents counting
	Role         conversation.Role
	ToolName     string              // the name of the tool, if the message is a tool's result
	Sender       conversation.Sender // the person, if it is a user's message
	At           time.Time
	Snippet      fulltext.Snippet
	Metadata     metadata.Object // the metadata of the message
	File         *FilePage       // the page of a file that has the words; nil = the message itself has them
}

// FilePage is a page of a file's text. A message holds only the beginning of a long text; the pages behind that are found
// separately.
type FilePage struct {
	ID    int64 // the ID of the kept file
	N     int   // the file's place among the files of the message, from 0; -1 = the message does not list it
	Name  string
	Page  int64 // the number of the page, from 1; package files says how long a page is
	Pages int64 // the number of pages; 0 = the text can't be read
}

// Find returns the messages that have all words and phrases of a query, the best first. If there are none, and no
// message has the query's last word, that word may also be the beginning of a longer word. If there are still none, Find
// returns the messages that have all phrases and any of the words. A word also matches its other forms, in the languages
// that package fulltext knows.
//
// Messages are ranked by BM25. The word frequencies are those of the messages that are searched, and words of neighboring
// messages count, too. Of messages with equal scores, the newer one comes first; a message of a conversation that began
// later counts as newer. To limit the cost, words that very many messages have are ignored if the query has rarer words. If
// it has none, only the newest messages with these words are ranked.
//
// If the store has an Embedder and the query has no quotes, Find also looks for the messages whose vectors are nearest to
// the vector of the query, and fuses both rankings. It searches by words alone if the embeddings server does not answer, or
// if several sessions are searched that have more than 100,000 messages or 300 conversations together.
//
// The text of a file also matches, as part of its message. A message that matches in several places is returned once, with
// the best of them. Long files are in the index some seconds after the message.
//
// A message is found about a second after its commit. Deleted messages are not found, and neither are those on damaged
// pages of the database. Internal messages, and those that were replaced or taken back, are found only in a search over
// several sessions, which is for the operator and for programs. The error is conversation.ErrNotFound if the session does
// not have the Conversation.
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

// withIndexes calls search. On PostgreSQL it does so in a transaction that makes the planner use the index of words. Where the
// planner expects many matches, it would otherwise read all rows of a table and spend most of the time on decompressing them.
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
		results: &results{rows: map[indexQuery][]int64{}}, frequent: s.db.Shared(frequentKey{}, newFrequentWords).(*frequentWords), limits: usualLimits()}
	if l.everywhere() {
		l.scope = query.Scope
	}
	l.visible = !l.everywhere()
	return l
}

// lookup is one search under way.
type lookup struct {
	db       *db.DB
	conn     *sql.Conn
	path     string // the path or URL of the database
	postgres bool   // whether the database is on a PostgreSQL server
	vectors  *vectors.Vectors
	embed    embedder // nil = search by words only
	query    Query
	scope    Scope            // restricts a search over several sessions
	visible  bool             // leave out internal messages, and those that were replaced or taken back
	session  string           // the token of the session in the index; "" = several sessions
	sizes    []size           // the conversations that are searched, the newest first; for several sessions set only if vectors are compared
	spans    []span           // the rows of these conversations in the index
	vector   <-chan []float32 // receives the vector of the query, or nil if it can't be had; nil = search by words only
	nearest  []int64          // the rows of the messages nearest to the query; valid if nearRead
	nearRead bool
	ranked   bool     // whether the table of ranks has all messages that the table of words has
	results  *results // what the index has returned so far
	frequent *frequentWords
	limits   limits
}

func (l *lookup) run(ctx context.Context, terms []fulltext.Term) ([]Hit, error) {
	if err := l.locate(ctx); err != nil {
		return nil, err
	}
	if err := l.requestVector(ctx, terms); err != nil {
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

// locate sets the session, and the spans of the index that are searched.
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
		return nil // without spans, nothing is found
	case err != nil:
		return err
	}
	l.sizes, err = sizesOf(ctx, l.conn, session, l.query.Conversation)
	l.session, l.spans = wordindex.SessionToken(session), spansOf(l.sizes)
	return err
}

// everywhere reports whether all sessions of the scope are searched, rather than one session.
func (l *lookup) everywhere() bool { return l.query.Key == "" && l.query.Conversation == "" }

// byTerms returns the page of rows that were found, and the terms that they match. Find describes the three attempts.
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

// page returns the page that the query asks for, of a ranking by words that is fused with the ranking by vectors. found
// reports whether the ranking by words has a message that this search may return.
func (l *lookup) page(ctx context.Context, words *fulltext.Ranking) (page []int64, found bool, err error) {
	if l.vector == nil {
		return l.pageOf(ctx, words)
	}
	r, found, err := l.fuse(ctx, words)
	if err != nil || !found {
		return nil, false, err
	}
	page, _, err = l.pageOf(ctx, r)
	return page, true, err
}

// ranking is an iterator over messages, given by their rows in the index, the best first.
type ranking interface {
	// Next returns up to n further messages, and none at the end of the ranking.
	Next(n int) []int64
}

// pageOf returns the page of a ranking that the query asks for. found reports whether the ranking has a message that this
// search may return.
func (l *lookup) pageOf(ctx context.Context, r ranking) (page []int64, found bool, err error) {
	skip, want := l.query.Skip, l.query.Limit
	shown := map[int64]bool{}                                                                // by the ids of messages
	for n := min(skip, maxPage) + min(want, maxPage) + 10; want > 0; n = min(2*n, maxPage) { // some may not be allowed
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

// maxPage is how many rows of a ranking are read at once, at most.
const maxPage = 2000
