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
	common   int // messages from which on a word is so common that it is not looked for beside rarer ones
	filtered int // the same where the messages that were found are filtered by metadata, which may leave few of them

	manyOwn int64 // messages of a session from which on rare words are looked for in all sessions
	atOnce  int   // messages of all sessions that are read then at once
}

func usualLimits() limits {
	return limits{common: maxPostings, filtered: 200_000, manyOwn: 20_000, atOnce: 2000}
}

const maxPostings = 5000

// enoughCommon is how many matches of common words are enough to rank.
const enoughCommon = 2000

// matches is what the index has found for the terms of a query.
type matches struct {
	lists     [][]fulltext.Posting // by term
	common    []bool               // by term: the list is not complete, and may be empty, since very many messages have the term
	hidden    []int64              // internal messages
	documents int64                // messages that were searched
}

// rank ranks the messages that have all terms for which needed holds, and any of the others. Common terms count for nothing.
func (m *matches) rank(terms []fulltext.Term, needed func(fulltext.Term) bool) *fulltext.Ranking {
	var lists []fulltext.List
	for i, list := range m.lists {
		if !m.common[i] {
			lists = append(lists, fulltext.List{Postings: list, Needed: needed(terms[i])})
		}
	}
	return fulltext.Rank(lists, m.hidden, m.documents)
}

// match searches everything for the terms. If each of them is common, it searches only the newest messages
// alone.
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

// most returns how many postings of a word are read.
func (l *lookup) most() int {
	if len(l.query.Metadata) > 0 {
		return l.limits.filtered
	}
	return l.limits.common
}

// internal returns the internal messages, where they are not found.
func (l *lookup) internal(ctx context.Context, in span) ([]int64, error) {
	if !l.talkOf {
		return nil, nil
	}
	return l.ofSession(ctx, words, in, expression{token: wordindex.InternalToken}, math.MaxInt64)
}

// all returns all that is searched.
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

// matchNewest searches the newest messages for the terms, until it has enough.
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
			m.lists[i] = append(list, m.lists[i]...) // what is older has lower rows
			found += len(m.lists[i])
		}
		if m.documents += in.messages; found >= enoughCommon {
			break
		}
	}
	return m, nil
}

// matchIn searches a span for the terms.
func (l *lookup) matchIn(ctx context.Context, terms []fulltext.Term, in span) (m matches, err error) {
	in.unordered = in.whole
	m = matches{lists: make([][]fulltext.Posting, len(terms)), common: make([]bool, len(terms)), documents: in.messages}
	if err := l.askTogether(ctx, terms, in); err != nil {
		return m, err
	}
	err = l.each(ctx, len(terms), func(l *lookup, i int) (err error) {
		c, remembered := l.countedTerm(terms[i], in)
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

// postings returns messages of a span that have a term, sorted by row: all, or at least l.most.
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

// rankedPostings returns the postings of a term that the ranks know.
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

// rankedAt returns the expression for a term that the ranks know, with a level of impact.
func (l *lookup) rankedAt(t fulltext.Term, level int) expression {
	e := ofTokens(t.RankTokens(level))
	e.talkOnly = l.query.TalkOnly
	return e
}

// stepsIn returns the expressions that a message in a span must match, all of them. In one conversation there are
// several: asked for a phrase at once, FTS5 begins at the oldest message of all sessions, and may find no match there for
// long.
func (l *lookup) stepsIn(in span, t fulltext.Term) (steps []expression) {
	steps = []expression{of(t)}
	if !in.mixed && !l.everywhere() {
		steps = stepsOf(t)
	}
	for i := range steps {
		steps[i].session, steps[i].talkOnly = l.sessionIn(in), l.query.TalkOnly
		steps[i].noTools = l.query.TalkOnly && (i == 0 || l.postgres)
	}
	return steps
}

// sessionIn returns the token of the session where an expression needs it: FTS5 finds the messages of one conversation by
// their rows alone, while PostgreSQL reads all rows of its index that have a word, unless it reads the rows of the span.
func (l *lookup) sessionIn(in span) string {
	if l.postgres && !l.readsRows(in) || !l.postgres && in.mixed {
		return l.session
	}
	return ""
}

// readsRows reports whether PostgreSQL reads the rows of a span and looks at the words of each, rather than all rows of its
// index that have a word: where the rows are few, or the words are known to be common.
func (l *lookup) readsRows(in span) bool {
	return l.postgres && !l.everywhere() && (!in.whole || in.messages <= firstSpan)
}

// conversationsIn returns the conversations that are searched and have rows in a span.
func (l *lookup) conversationsIn(in span) (ids []int64) {
	for _, c := range l.sizes {
		if c.conversation >= wordindex.ConversationOf(in.first) && c.conversation <= wordindex.ConversationOf(in.last) {
			ids = append(ids, c.conversation)
		}
	}
	return ids
}

// inSpan returns messages of a span that match all steps, the oldest first: all, or at least l.most.
func (l *lookup) inSpan(ctx context.Context, in span, steps []expression) (found []int64, err error) {
	limit := l.most()
	if len(steps) > 1 {
		limit = math.MaxInt64
	}
	if l.postgres { // whose index finds the messages with all words of a phrase at once
		steps = steps[len(steps)-1:]
	}
	for i, step := range steps {
		list, err := l.ask(ctx, words, in, step, limit)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			list = common(found, list)
		}
		if found = list; len(found) == 0 {
			return nil, nil
		}
	}
	return found, nil
}

// question asks a table of the index for the messages of a span that match.
type question struct {
	table table
	span  span
	match match
}

// answers are those that a search has had. They are safe for concurrent use.
type answers struct {
	mu sync.Mutex
	of map[question][]int64
}

func (a *answers) get(q question) (list []int64, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list, known = a.of[q]
	return list, known
}

func (a *answers) put(q question, list []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[q] = list
}

// ask returns the answer of the index. A word is asked for again where no message has all words, and as part of phrases.
func (l *lookup) ask(ctx context.Context, of table, in span, e expression, limit int) (list []int64, err error) {
	q := question{of, in, e.fts5(of)}
	if l.postgres {
		q.match = e.tsquery(of)
	}
	list, known := l.answers.get(q)
	if !known {
		if list, err = l.rowIDs(ctx, q, limit); err == nil {
			l.answers.put(q, list)
		}
	}
	return list, err
}

// ofSession returns what ask does for a word. Where other sessions may have conversations in the span, it leaves their
// messages out: FTS5 does so by passing over all messages of the session, however few have the word. In a long session it is
// therefore quicker to read the messages of all sessions that have a rare word.
func (l *lookup) ofSession(ctx context.Context, of table, in span, e expression, limit int) (list []int64, err error) {
	all := in
	for in.mixed && !l.postgres && in.messages >= l.limits.manyOwn {
		part, err := l.ask(ctx, of, in, e, l.limits.atOnce)
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
	rest, err := l.ask(ctx, of, in, e, limit-len(list))
	return append(list, rest...), err
}

// costOfRow is how many messages of a session FTS5 passes over in the time in which one message of a word is read.
const costOfRow = 12

// density returns how many messages there are to each row of the index between two.
func density(messages int, first, last int64) float64 {
	return float64(messages) / float64(last-first+1)
}

// own returns the messages of a sorted list that are in conversations which are searched.
func (l *lookup) own(list []int64) (own []int64) {
	next := len(l.sizes) - 1 // the newest stands first
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

// rowID is the column of the tables of the index that says which message it is.
var rowID = db.Either(`rowid`, `id`)

// has returns the condition that a row of a table of PostgreSQL matches. strpos finds a phrase in half the time that LIKE takes.
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

// holds returns the conditions that a column holds the texts of the parameter of the same name, which are given, too.
func holds(column, texts string) (conditions []string) {
	for n := 1; texts != "" && n <= 1+strings.Count(texts, "\n"); n++ {
		conditions = append(conditions, fmt.Sprintf(`strpos(%s, split_part(:%s, chr(10), %d)) > 0`, column, column, n))
	}
	return conditions
}

// matching returns a table with the condition that a row matches. OFFSET 0 has PostgreSQL read what is inside first: the rows that
// its index of words gives, or those of the span.
func (l *lookup) matching(q question) string {
	has := q.match.has(q.table)
	if l.readsRows(q.span) {
		return rowsOf(q.table) + ` AS m WHERE ` + has
	}
	return [...]string{
		words: db.Either(`messages_fts WHERE messages_fts MATCH :match`, `(SELECT id FROM message_words WHERE `+has+` OFFSET 0) AS m WHERE true`),
		ranks: db.Either(`messages_ranks WHERE messages_ranks MATCH :match`, `(SELECT id FROM message_ranks WHERE `+has+` OFFSET 0) AS m WHERE true`),
	}[q.table]
}

// rowsOf returns the rows of a span in a table of PostgreSQL. Both bounds of each range depend on the conversation, so that the
// server looks each range up, and does not compare every row of the span with every conversation.
func rowsOf(of table) string {
	return `(SELECT own.* FROM ` + db.EachID(":conversations") + ` c CROSS JOIN LATERAL (
		SELECT * FROM ` + [...]string{words: `message_words`, ranks: `message_ranks`}[of] + `
		WHERE id BETWEEN greatest(c.value << 24, :first) AND least(c.value << 24 | 16777215, :last)) AS own OFFSET 0)`
}

// rowIDs asks the index, and returns the oldest message first. All rows come as one text, which costs a
// fraction of a row each.
func (l *lookup) rowIDs(ctx context.Context, q question, limit int) (list []int64, err error) {
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
		SELECT `+rowID+` FROM `+l.matching(q)+` AND `+rowID+` BETWEEN :first AND :last AND `+within+order+` LIMIT :limit) AS found`, args...)
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

// common returns what two sorted lists have in common.
func common(a, b []int64) (both []int64) {
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
