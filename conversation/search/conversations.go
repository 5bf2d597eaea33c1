package search

import (
	"context"
	"errors"
	"slices"

	"parley/conversation"
	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

// ConversationQuery says which conversations to look for, and where.
type ConversationQuery struct {
	Scope Scope
	Words string // plain text: words, and phrases in double quotes
	Limit int    // the number of conversations to return at most; 0 = none
	Skip  int    // the number of conversations to leave out in front of them
}

// Found is a conversation that was found by its title, by what is said in it, or by both.
type Found struct {
	Conversation conversation.Conversation
	Title        fulltext.Snippet
	Hits         []Hit // the best messages of the conversation, at most three; empty if only the title matches
}

const (
	bestHits = 3 // the number of hits of a conversation

	// titleImpact is the impact of a word in a title, twice the highest one in messages. titleStart is the impact if
	// a word of the title only begins with the word of the query, and messageStart is the same for messages: less than the
	// impact of any whole word there. Package fulltext says what an impact is.
	titleImpact, titleStart, messageStart = 4, 2, 0.25
)

// Conversations returns the conversations that have the words of a query in their titles or in what is said in them: first
// those that have all, then those that have some, the best first. more reports whether others follow.
//
// The last word of the query may be the beginning of a longer word: of any word in a title, and, if it has at least 4 bytes,
// of any word in a message. A conversation is ranked by its best message or by its title, whichever ranks higher. The title
// is ranked like a message in front of the first one. Very common words count as described at Find. Internal, replaced and
// taken-back messages are not searched, and neither are tool calls and their results.
func (s *Searcher) Conversations(ctx context.Context, query ConversationQuery) (page []Found, more bool, err error) {
	terms := fulltext.ParseQuery(query.Words)
	if len(terms) == 0 || query.Limit <= 0 {
		return nil, false, nil
	}
	wordindex.CatchUp(ctx, s.db)
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, false, db.Explain(err)
	}
	l := s.newLookup(conn, Query{Scope: query.Scope, WithoutTools: true})
	l.visible = true
	var list []Found
	err = l.withIndexes(ctx, func() (err error) {
		list, more, err = l.conversations(ctx, query, terms)
		return err
	})
	_ = conn.Close() // returns it to the pool; the reads below take their own
	if err != nil {
		return nil, false, db.Explain(err)
	}
	for _, found := range list {
		if found.Conversation, err = s.store.Conversation(ctx, found.Conversation.ID); errors.Is(err, conversation.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, false, err
		}
		page = append(page, found)
	}
	return page, more, nil
}

// conversations returns the page of conversations that the query asks for. Of each Conversation, only the ID is set.
func (l *lookup) conversations(ctx context.Context, query ConversationQuery, terms []fulltext.Term) (page []Found, more bool, err error) {
	if l.ranked, err = wordindex.Ranked(ctx, l.conn); err != nil {
		return nil, false, err
	}
	ranked, err := l.rankConversations(ctx, terms)
	if err != nil {
		return nil, false, err
	}
	if len(ranked) == 0 && !slices.ContainsFunc(terms, isQuoted) {
		terms = fulltext.SplitTerms(terms)
		if ranked, err = l.rankConversations(ctx, terms); err != nil {
			return nil, false, err
		}
	}
	for skip := query.Skip; len(ranked) > 0; ranked = ranked[1:] {
		rowIDs, err := l.best(ctx, ranked[0].messages)
		if err != nil {
			return nil, false, err
		}
		if len(rowIDs) == 0 && !ranked[0].byTitle {
			continue // all its matches were replaced, taken back or deleted
		}
		if skip--; skip >= 0 {
			continue
		}
		if len(page) == query.Limit {
			return page, true, nil
		}
		found := Found{Title: fulltext.NewSnippet(ranked[0].title, withStart(terms))}
		found.Conversation.ID = ranked[0].uuid
		if found.Hits, err = l.hits(ctx, rowIDs, withStart(terms)); err != nil {
			return nil, false, err
		}
		page = append(page, found)
	}
	return page, false, nil
}

// best returns the first bestHits of the ranked rows of a conversation that this search may return, one for each message.
func (l *lookup) best(ctx context.Context, ranked []int64) (rowIDs []int64, err error) {
	places, err := l.allowed(ctx, ranked)
	shown := map[int64]bool{}
	for _, p := range places {
		if !shown[p.message] && len(rowIDs) < bestHits {
			rowIDs = append(rowIDs, p.row)
		}
		shown[p.message] = true
	}
	return rowIDs, err
}

// withStart returns the terms and, as one more term, the last word of the query as the beginning of longer words.
func withStart(terms []fulltext.Term) []fulltext.Term {
	for _, t := range terms {
		if t.MayEnd() {
			t.Prefix = true
			return append(slices.Clip(terms), t)
		}
	}
	return terms
}

// candidate is a conversation of the scope with its matches.
type candidate struct {
	id       int64 // the id of its row
	uuid     string
	title    string
	byTitle  bool    // whether its title matches
	messages []int64 // the matching rows of the index, the best first; some may not be allowed
	has      int     // how many of the terms it has
	last     int     // the number of the last term that was counted in has, from 1
}

// candidates returns the conversations of the scope.
func (l *lookup) candidates(ctx context.Context) (list []*candidate, err error) {
	clause, args, err := l.scope.from()
	if err != nil {
		return nil, err
	}
	rows, err := db.Short(ctx, l.conn, `SELECT c.id, c.uuid, c.title `+clause+` AND c.messages > 0 ORDER BY c.id`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		c := &candidate{}
		if err := rows.Scan(&c.id, &c.uuid, &c.title); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// maxMessages is how many matches of a conversation are kept: more than bestHits, since some may not be allowed.
const maxMessages = 4 * bestHits

// rankConversations returns the conversations that have any of the terms, first those that have all.
func (l *lookup) rankConversations(ctx context.Context, terms []fulltext.Term) ([]*candidate, error) {
	list, err := l.candidates(ctx)
	if err != nil {
		return nil, err
	}
	m, err := l.match(ctx, terms)
	if err != nil {
		return nil, err
	}
	if err := l.matchStart(ctx, terms, &m); err != nil {
		return nil, err
	}
	m.addTitles(list, terms)
	byRow := map[int64]*candidate{}
	for _, c := range list {
		byRow[c.id] = c
	}
	counted := m.count(byRow)
	var all, some []*candidate
	for _, row := range m.rank(terms, noTerm).All() {
		c := byRow[wordindex.ConversationOf(row)]
		switch {
		case c == nil: // deleted, or not in the scope
			continue
		case len(c.messages) > 0 || c.byTitle: // it is in one of the lists already
		case c.has >= counted:
			all = append(all, c)
		default:
			some = append(some, c)
		}
		if row == titleRow(c.id) {
			c.byTitle = true
		} else if len(c.messages) < maxMessages {
			c.messages = append(c.messages, row)
		}
	}
	return append(all, some...), nil
}

// titleRow returns a row number for the title of a conversation: the one before its first message. The index has no such row.
func titleRow(conversation int64) int64 { return wordindex.RowID(conversation, 0) }

// matchStart adds the messages in which the last word of the query is the beginning of a longer word.
func (l *lookup) matchStart(ctx context.Context, terms []fulltext.Term, m *matches) error {
	for i, t := range terms {
		if !t.MayBePrefix() || m.common[i] {
			continue
		}
		in, err := l.all(ctx)
		if err != nil {
			return err
		}
		t.Prefix = true
		longer, err := l.inSpan(ctx, in, l.stepsIn(in, t))
		if err != nil {
			return err
		}
		m.lists[i] = fulltext.Merge(m.lists[i], postingsOf(longer, messageStart))
	}
	return nil
}

// addTitles adds the titles of conversations that have the terms.
func (m *matches) addTitles(list []*candidate, terms []fulltext.Term) {
	found := make([][]fulltext.Posting, len(terms))
	for _, c := range list {
		words := fulltext.WordsOf(c.title)
		for i, t := range terms {
			if impact := impactInTitle(words, t); impact > 0 {
				found[i] = append(found[i], fulltext.Posting{ID: titleRow(c.id), Impact: impact})
			}
		}
	}
	for i, postings := range found {
		m.lists[i] = fulltext.Merge(postings, m.lists[i])
	}
	m.documents += int64(len(list))
}

// impactInTitle returns the impact of a term in the words of a title, 0 if the title does not have it.
func impactInTitle(words fulltext.Words, t fulltext.Term) float64 {
	if words.Has(t) {
		return titleImpact
	}
	if t.Prefix = t.MayEnd(); t.Prefix && words.Has(t) {
		return titleStart
	}
	return 0
}

// count sets how many of the terms each conversation has, and returns how many terms were counted: all but common ones.
func (m *matches) count(conversations map[int64]*candidate) (counted int) {
	for i, list := range m.lists {
		if m.common[i] {
			continue
		}
		counted++
		for _, p := range list {
			c := conversations[wordindex.ConversationOf(p.ID)]
			if c != nil && c.last < counted && !isIn(m.hidden, p.ID) {
				c.has, c.last = c.has+1, counted
			}
		}
	}
	return counted
}

func isIn(sorted []int64, id int64) bool {
	_, found := slices.BinarySearch(sorted, id)
	return found
}
