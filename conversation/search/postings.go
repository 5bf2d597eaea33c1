package search

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

// limits bound the cost of a search.
type limits struct {
	common   int // a word is common, and ignored beside rarer ones, if at least this many messages have it
	filtered int // replaces common in a search with a metadata filter, which may leave few of the messages

	manyOwn int64 // in a session with at least this many messages, rare words are looked up in all sessions, see ofSession
	atOnce  int   // how many messages of all sessions are read in one step of that
}

func usualLimits() limits {
	return limits{common: maxPostings, filtered: 200_000, manyOwn: 20_000, atOnce: 2000}
}

// maxPostings is the usual value of limits.common.
const maxPostings = 5000

// enoughCommon is how many matches are enough to rank, where all words of a query are common.
const enoughCommon = 2000

// matches is what the index has found for the terms of a query.
type matches struct {
	lists     [][]fulltext.Posting // the postings of each term
	common    []bool               // for each term, whether it is common; then its list is incomplete, or even empty
	hidden    []int64              // the rows of internal messages, which are left out
	documents int64                // the number of messages that were searched
}

// rank ranks the messages that have all terms for which needed returns true. If it returns true for none, a message must have
// at least one term. Common terms are ignored.
func (m *matches) rank(terms []fulltext.Term, needed func(fulltext.Term) bool) *fulltext.Ranking {
	var lists []fulltext.List
	for i, list := range m.lists {
		if !m.common[i] {
			lists = append(lists, fulltext.List{Postings: list, Needed: needed(terms[i])})
		}
	}
	return fulltext.Rank(lists, m.hidden, m.documents)
}

// match looks all terms up in everything that is searched. If all of them are common, it looks them up in the newest messages
// only.
func (l *lookup) match(ctx context.Context, terms []fulltext.Term) (m matches, err error) {
	in, err := l.all(ctx)
	if err != nil {
		return m, err
	}
	if m, err = l.matchIn(ctx, terms, in); err != nil {
		return m, err
	}
	if !slices.Contains(m.common, false) {
		if m, err = l.matchNewest(ctx, terms, in); err != nil {
			return m, err
		}
	}
	m.hidden, err = l.internal(ctx, in)
	return m, err
}

// most returns how many postings of a term are enough to call it common. No more of them are needed.
func (l *lookup) most() int {
	if len(l.query.Metadata) > 0 {
		return l.limits.filtered
	}
	return l.limits.common
}

// internal returns the rows of internal messages in a span, or nil if the search returns such messages.
func (l *lookup) internal(ctx context.Context, in span) ([]int64, error) {
	if !l.visible {
		return nil, nil
	}
	return l.ofSession(ctx, words, in, expression{token: wordindex.InternalToken}, math.MaxInt64)
}

// all returns one span with everything that is searched.
func (l *lookup) all(ctx context.Context) (s span, err error) {
	if !l.everywhere() {
		return joined(l.spans), nil
	}
	s.last, s.whole = math.MaxInt64, l.scope.IsAll()
	if !s.whole {
		s.messages, err = l.scope.messages(ctx, l.conn)
		return s, err
	}
	err = l.conn.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) FROM messages`).Scan(&s.messages)
	return s, err
}

// matchNewest looks the terms up in the newest messages, in growing spans until there are enough matches. No term counts as
// common then.
func (l *lookup) matchNewest(ctx context.Context, terms []fulltext.Term, all span) (m matches, err error) {
	if l.everywhere() {
		all.newestFirst, all.whole = true, false
		m, err = l.matchIn(ctx, terms, all)
		clear(m.common)
		return m, err
	}
	m = matches{lists: make([][]fulltext.Posting, len(terms)), common: make([]bool, len(terms))}
	for _, in := range l.spans {
		part, err := l.matchIn(ctx, terms, in)
		if err != nil {
			return m, err
		}
		found := 0
		for i, list := range part.lists {
			m.lists[i] = append(list, m.lists[i]...) // older messages have lower rows
			found += len(m.lists[i])
		}
		if m.documents += in.messages; found >= enoughCommon {
			break
		}
	}
	return m, nil
}

// matchIn looks the terms up in a span. It does not look up terms that are remembered as common.
func (l *lookup) matchIn(ctx context.Context, terms []fulltext.Term, in span) (m matches, err error) {
	in.unordered = in.whole
	m = matches{lists: make([][]fulltext.Posting, len(terms)), common: make([]bool, len(terms)), documents: in.messages}
	if err := l.prefetchRanks(ctx, terms, in); err != nil {
		return m, err
	}
	err = l.each(ctx, len(terms), func(l *lookup, i int) (err error) {
		c, remembered := l.frequentTerm(terms[i], in)
		if m.common[i] = remembered && l.frequent.has(c); m.common[i] {
			return nil
		}
		if m.lists[i], err = l.postings(ctx, terms[i], in); err != nil {
			return err
		}
		if m.common[i] = len(m.lists[i]) >= l.most(); m.common[i] && remembered {
			l.frequent.add(c)
		}
		return nil
	})
	return m, err
}

// postings returns the postings of a term in a span, sorted by row: all of them, or at least l.most().
func (l *lookup) postings(ctx context.Context, t fulltext.Term, in span) (list []fulltext.Posting, err error) {
	if t.RankTokens(0) != nil {
		if list, err = l.rankedPostings(ctx, t, in); err != nil || l.ranked {
			return list, err
		}
	}
	found, err := l.inSpan(ctx, in, l.stepsIn(in, t))
	return fulltext.Merge(list, postingsOf(found, 1)), err
}

func postingsOf(rowIDs []int64, impact float64) []fulltext.Posting {
	list := make([]fulltext.Posting, len(rowIDs))
	for i, rowID := range rowIDs {
		list[i] = fulltext.Posting{ID: rowID, Impact: impact}
	}
	return list
}

// rankedPostings returns the postings of a term from the table of ranks: all of them, or at least l.most(). It begins with
// the highest impact.
func (l *lookup) rankedPostings(ctx context.Context, t fulltext.Term, in span) (list []fulltext.Posting, err error) {
	for level := range fulltext.Levels {
		e := l.rankedAt(t, level)
		found, err := l.ofSession(ctx, ranks, in, e, l.most())
		if err != nil {
			return nil, err
		}
		list = fulltext.Merge(list, postingsOf(found, fulltext.Impact(level)))
		if len(list) >= l.most() && !in.newestFirst {
			break
		}
	}
	return list, nil
}

// rankedAt returns the expression for a term with a level of impact, for the table of ranks.
func (l *lookup) rankedAt(t fulltext.Term, level int) expression {
	e := ofTokens(t.RankTokens(level))
	e.withoutTools = l.query.WithoutTools
	return e
}

// stepsIn returns expressions for a term, all of which a message in a span must match. For one conversation there may be
// several: FTS5 would look for a whole phrase from the oldest message of all sessions on, which can take long if there is no
// match.
func (l *lookup) stepsIn(in span, t fulltext.Term) (steps []expression) {
	steps = []expression{of(t)}
	if !in.mixed && !l.everywhere() {
		steps = stepsOf(t)
	}
	for i := range steps {
		steps[i].session, steps[i].withoutTools = l.sessionIn(in), l.query.WithoutTools
		steps[i].noTools = l.query.WithoutTools && (i == 0 || l.postgres)
	}
	return steps
}

// sessionIn returns the token of the session if expressions for a span need it, else "". FTS5 needs no token for a span of one
// conversation, whose rows stand together. PostgreSQL needs it to find only words of the session in its index, but not where it
// reads the rows of the span instead.
func (l *lookup) sessionIn(in span) string {
	if l.postgres && !l.readsRows(in) || !l.postgres && in.mixed {
		return l.session
	}
	return ""
}

// readsRows reports whether PostgreSQL reads all rows of a span and checks the words of each, rather than looking words up in
// its index. It does so where the rows are few, or the words are known to be common.
func (l *lookup) readsRows(in span) bool {
	return l.postgres && !l.everywhere() && (!in.whole || in.messages <= firstSpan)
}

// conversationsIn returns the ids of the conversations that are searched and can have rows in a span.
func (l *lookup) conversationsIn(in span) (ids []int64) {
	for _, c := range l.sizes {
		if c.conversation >= wordindex.ConversationOf(in.first) && c.conversation <= wordindex.ConversationOf(in.last) {
			ids = append(ids, c.conversation)
		}
	}
	return ids
}

// inSpan returns the rows of a span that match all steps, sorted: all of them, or at least l.most().
func (l *lookup) inSpan(ctx context.Context, in span, steps []expression) (found []int64, err error) {
	limit := l.most()
	if len(steps) > 1 {
		limit = math.MaxInt64
	}
	if l.postgres { // its index finds the messages with all words of a phrase in one step
		steps = steps[len(steps)-1:]
	}
	for i, step := range steps {
		list, err := l.matching(ctx, words, in, step, limit)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			list = intersection(found, list)
		}
		if found = list; len(found) == 0 {
			return nil, nil
		}
	}
	return found, nil
}

// indexQuery is a query to a table of the index: for the rows of a span that match.
type indexQuery struct {
	table table
	span  span
	match match
}

// results caches what the index has returned during a search. It is safe for concurrent use.
type results struct {
	mu   sync.Mutex
	rows map[indexQuery][]int64
}

func (r *results) get(q indexQuery) (list []int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, known = r.rows[q]
	return list, known
}

func (r *results) put(q indexQuery, list []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows[q] = list
}

// matching returns the rows of a span that match, sorted, from the cache or else from the index. A search needs a word again
// where it splits terms, and as part of phrases.
func (l *lookup) matching(ctx context.Context, of table, in span, e expression, limit int) (list []int64, err error) {
	q := indexQuery{of, in, e.fts5(of)}
	if l.postgres {
		q.match = e.tsquery(of)
	}
	list, known := l.results.get(q)
	if !known {
		if list, err = l.rowIDs(ctx, q, limit); err == nil {
			l.results.put(q, list)
		}
	}
	return list, err
}

// ofSession returns the rows of a span that match and belong to the session, sorted. Where other sessions may have rows in the
// span, FTS5 needs the token of the session, and then passes over all messages of the session, even if few have the word. In a
// long session it is quicker to read the rows of all sessions that have a rare word, and to leave out those of others.
func (l *lookup) ofSession(ctx context.Context, of table, in span, e expression, limit int) (list []int64, err error) {
	all := in
	for in.mixed && !l.postgres && in.messages >= l.limits.manyOwn {
		part, err := l.matching(ctx, of, in, e, l.limits.atOnce)
		if err != nil {
			return nil, err
		}
		list = append(list, l.own(part)...)
		if len(part) < l.limits.atOnce || len(list) >= limit {
			return list, nil
		}
		in.first = part[len(part)-1] + 1
		if density(len(part), part[0], in.first)*costOfRow > density(int(all.messages), all.first, all.last) {
			break
		}
	}
	e.session = l.sessionIn(in)
	rest, err := l.matching(ctx, of, in, e, limit-len(list))
	return append(list, rest...), err
}

// costOfRow is how many messages of a session FTS5 passes over in the time that it takes to read one row with a word.
const costOfRow = 12

// density returns the number of messages for each row of the index from first to last.
func density(messages int, first, last int64) float64 {
	return float64(messages) / float64(last-first+1)
}

// own returns the rows of a sorted list that belong to conversations which are searched.
func (l *lookup) own(list []int64) (own []int64) {
	next := len(l.sizes) - 1 // the last one is the oldest
	for _, row := range list {
		conversation := wordindex.ConversationOf(row)
		for next >= 0 && l.sizes[next].conversation < conversation {
			next--
		}
		if next >= 0 && l.sizes[next].conversation == conversation {
			own = append(own, row)
		}
	}
	return own
}

// rowID is the column that holds the row number in the tables of the index.
var rowID = db.Either(`rowid`, `id`)

// has returns the condition that a row of a table on PostgreSQL matches. It uses strpos, which takes half the time of LIKE.
func (m match) has(of table) string {
	if of == ranks {
		return `ranks @@ CAST(:match AS tsquery)`
	}
	condition := `words @@ CAST(:match AS tsquery)`
	if phrases := append(holds("said", m.said), holds("called", m.called)...); len(phrases) > 0 {
		condition += ` AND (` + strings.Join(phrases, ` OR `) + `)`
	}
	return condition
}

// holds returns a condition for each line of texts: that the column contains it. texts is also the value of the parameter with
// the name of the column.
func holds(column, texts string) (conditions []string) {
	for n := 1; texts != "" && n <= 1+strings.Count(texts, "\n"); n++ {
		conditions = append(conditions, fmt.Sprintf(`strpos(%s, split_part(:%s, chr(10), %d)) > 0`, column, column, n))
	}
	return conditions
}

// source returns what follows FROM in the statement for a query: a table and the condition that a row matches. OFFSET 0 makes
// PostgreSQL evaluate the subquery first: it reads the rows that its index of words returns, or those of the span.
func (l *lookup) source(q indexQuery) string {
	has := q.match.has(q.table)
	if l.readsRows(q.span) {
		return rowsOf(q.table) + ` AS m WHERE ` + has
	}
	return [...]string{
		words: db.Either(`messages_fts WHERE messages_fts MATCH :match`, `(SELECT id FROM message_words WHERE `+has+` OFFSET 0) AS m WHERE true`),
		ranks: db.Either(`messages_ranks WHERE messages_ranks MATCH :match`, `(SELECT id FROM message_ranks WHERE `+has+` OFFSET 0) AS m WHERE true`),
	}[q.table]
}

// rowsOf returns the subquery for the rows of a span in a table on PostgreSQL. Both bounds of a range depend on the conversation,
// so that the server looks each range up, and does not compare every row of the span with every conversation.
func rowsOf(of table) string {
	return `(SELECT own.* FROM ` + db.EachID(":conversations") + ` c CROSS JOIN LATERAL (
		SELECT * FROM ` + [...]string{words: `message_words`, ranks: `message_ranks`}[of] + `
		WHERE id BETWEEN greatest(c.value << 24, :first) AND least(c.value << 24 | 16777215, :last)) AS own OFFSET 0)`
}

// rowIDs queries the index and returns up to limit rows, sorted. The database returns them as one text, which costs a fraction
// of what as many result rows cost.
func (l *lookup) rowIDs(ctx context.Context, q indexQuery, limit int) (list []int64, err error) {
	order := db.Either(``, ` ORDER BY id`)
	switch {
	case q.span.newestFirst:
		order = ` ORDER BY ` + rowID + ` DESC`
	case q.span.unordered:
		order = ""
	}
	within, args, err := l.scope.condition(rowID + ` >> 24`)
	if err != nil {
		return nil, err
	}
	args = append(args, sql.Named("match", q.match.query), sql.Named("said", q.match.said), sql.Named("called", q.match.called),
		sql.Named("first", q.span.first), sql.Named("last", q.span.last), sql.Named("limit", limit))
	if l.readsRows(q.span) {
		args = append(args, sql.Named("conversations", db.IDs(l.conversationsIn(q.span))))
	}
	rows, err := db.Short(ctx, l.conn, `SELECT `+db.Either(`group_concat(rowid, ' ')`, `string_agg(CAST(id AS text), ' ')`)+` FROM (
		SELECT `+rowID+` FROM `+l.source(q)+` AND `+rowID+` BETWEEN :first AND :last AND `+within+order+` LIMIT :limit) AS found`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		if list, err = numbersIn(text.String); err != nil {
			return nil, err
		}
	}
	if !slices.IsSorted(list) {
		slices.Sort(list)
	}
	return list, rows.Err()
}

// intersection returns the numbers that are in both of two sorted lists.
func intersection(a, b []int64) (both []int64) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			both, a, b = append(both, a[0]), a[1:], b[1:]
		}
	}
	return both
}
