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
	Scope       Scope
	Words       string // plain text: words, and phrases in double quotes
	Limit, Skip int    // the page of conversations to return
}

// Found is a conversation that was found by its title, by what is said in it, or by both.
type Found struct {
	Conversation conversation.Conversation
	Title        fulltext.Snippet
	Hits         []Hit // its best messages, at most three; none where only the title was found
}

const (
	bestHits = 3 // of a conversation

	// titleImpact is what a word in a title adds to a score, for its rarity: twice as much as in any message.
	// titleStart is for the beginning of a word, and messageStart for that in a message, less than any whole word there.
	titleImpact, titleStart, messageStart = 4, 2, 0.25
)

// Conversations returns the conversations that have the words of a query in their titles or in what is said in them: first
// those that have all, then those that have some, the best first. more reports whether others follow.
//
// The last word may be the beginning of a longer one: of any in a title, and, if it has at least 4 bytes, of any in a
// message. A conversation counts as much as its best message, or its title, which is ranked like a message in front of
// the first one. Very common words count as Find has it. What is not part of the talk is not searched, and neither are
// tool calls and their results.
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
	l := s.newLookup(conn, Query{Scope: query.Scope, TalkOnly: true})
	l.talkOf = true
	var list []Found
	err = l.withIndexes(ctx, func() (err error) {
		list, more, err = l.conversations(ctx, query, terms)
		return err
	})
	_ = conn.Close() // which gives it back
	if err != nil {
		return nil, false, db.Explain(err)
	}
	for _, found := range list {
		if found.Conversation, err = s.store.Conversation(ctx, found.Conversation.ID); errors.Is(err, conversation.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, false, err
		}
		page = append(page, found)
	}
	return page, more, nil
}

// conversations returns a page of what was found, of each conversation only the ID.
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
			continue // what was found is not part of the talk any more
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

// best returns the best of the rows of a conversation, of each message one.
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

// withStart returns the terms, and the last word of the query once more as the beginning of longer words.
func withStart(terms []fulltext.Term) []fulltext.Term {
	for _, t := range terms {
		if t.MayEnd() {
			t.Prefix = true
			return append(slices.Clip(terms), t)
		}
	}
	return terms
}

// candidate is a conversation of the scope, and what was found of it.
type candidate struct {
	id       int64 // row id
	uuid     string
	title    string
	byTitle  bool
	messages []int64 // rows of the index, the best first; some may not be part of the talk
	has      int     // how many of the terms
	last     int     // the number of the last of these
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

// maxMessages is how many messages of a conversation are kept until it is known which are part of the talk.
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
		case c == nil: // deleted
			continue
		case len(c.messages) > 0 || c.byTitle: // is in a list
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

// titleRow returns the row of a title among those of the index: it stands in front of the first message.
func titleRow(conversation int64) int64 { return wordindex.RowID(conversation, 0) }

// matchStart adds the messages in which the last word of the query begins a longer one.
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

// addTitles adds the titles that have the terms.
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

func impactInTitle(words fulltext.Words, t fulltext.Term) float64 {
	if words.Has(t) {
		return titleImpact
	}
	if t.Prefix = t.MayEnd(); t.Prefix && words.Has(t) {
		return titleStart
	}
	return 0
}

// count counts how many of the terms each conversation has, and returns how many there are. Common terms are not counted.
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
