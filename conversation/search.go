package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// SearchQuery says what to look for, and where.
type SearchQuery struct {
	Key          Key    // the session to look in; "" for all of them, which is for the operator alone
	Conversation string // the ID of one conversation of it, "" for all
	Words        string // plain text: words, and phrases in double quotes
	TalkOnly     bool   // leave out tool results
	Limit, Skip  int    // a page of the hits, the best first
}

// Hit is a message that a search found.
type Hit struct {
	Key          Key
	Conversation string // ID
	Title        string // of the conversation
	Seq          int64
	Turn         int64 // the exchange of the conversation that the message is in, from 1
	Role         Role
	ToolName     string // tool: the name of the tool
	Sender       Sender // user: who wrote it
	At           time.Time
	Snippet      Snippet
}

const (
	searchBlock = 100  // matches, the newest first, that are ranked among each other
	searchEach  = 10   // of them at least for each word, where no message has all
	searchChars = 8000 // of a message, that count for its rank
)

// Search finds messages by their words, the best first: those that have all of
// the words and phrases; else, when the last word is unknown, those that have a
// word that begins so; else, of a query without quotes, the newest of those that
// have any of the words. Case, accents and every other character count for
// nothing. The newest 100 matches are ranked among each other, then the next
// 100, so that the cost grows with Skip and not with the archive; those in a
// conversation that began later count as newer.
//
// Messages that were deleted are never found. What is no longer part of the
// talk, and the gateway's own, is found only over all sessions. A new message
// is found about a second after its commit. A Conversation that the session
// does not have is ErrNotFound.
func (s *Store) Search(ctx context.Context, query SearchQuery) ([]Hit, error) {
	terms := parseTerms(query.Words)
	if len(terms) == 0 || query.Limit <= 0 {
		return nil, nil
	}
	s.catchUp(ctx, index)
	in, err := s.scopeOf(ctx, query)
	if err != nil || in == "" {
		return nil, explain(err)
	}
	search := &search{store: s, query: query, scope: in}
	found, terms, err := search.byTerms(ctx, terms)
	if err != nil {
		return nil, explain(err)
	}
	hits, err := s.hits(ctx, found, terms)
	return hits, explain(err)
}

// everywhere is the scope of a search over all sessions.
const everywhere = "*"

// scopeOf is what the index calls the place that is searched, "" for a session
// that has nothing.
func (s *Store) scopeOf(ctx context.Context, query SearchQuery) (scope string, err error) {
	switch {
	case query.Conversation != "":
		err = s.readers.QueryRowContext(ctx, `
			SELECT 'c' || c.id FROM conversations c JOIN sessions s ON s.id = c.session_id
			WHERE c.uuid = ? AND c.deleted = 0 AND (?2 = '' OR s.key = ?2)`, query.Conversation, string(query.Key)).Scan(&scope)
		if errors.Is(err, sql.ErrNoRows) {
			return "", fmt.Errorf("search in %s: %w", query.Conversation, ErrNotFound)
		}
	case query.Key != "":
		err = s.readers.QueryRowContext(ctx, `SELECT 's' || id FROM sessions WHERE key = ?`, string(query.Key)).Scan(&scope)
		if errors.Is(err, sql.ErrNoRows) {
			return "", nil
		}
	default:
		scope = everywhere
	}
	return scope, err
}

// search is one search under way.
type search struct {
	store *Store
	query SearchQuery
	scope string
}

// byTerms gives the page of candidates, and the terms that they were found by.
func (s *search) byTerms(ctx context.Context, terms []term) ([]candidate, []term, error) {
	page, found, err := s.all(ctx, terms)
	if err != nil || found {
		return page, terms, err
	}
	begun, err := s.begun(ctx, terms)
	if err != nil {
		return nil, nil, err
	}
	if begun {
		if page, found, err = s.all(ctx, terms); err != nil || found {
			return page, terms, err
		}
	}
	if slices.ContainsFunc(terms, func(t term) bool { return t.quoted }) {
		return nil, terms, nil
	}
	terms = split(terms)
	page, err = s.some(ctx, terms)
	return page, terms, err
}

// begun looks whether no message has the last word of the query, and then makes
// it the beginning of one.
func (s *search) begun(ctx context.Context, terms []term) (bool, error) {
	last := slices.IndexFunc(terms, term.mayBegin)
	if last < 0 {
		return false, nil
	}
	_, matched, err := s.candidates(ctx, terms[last].match(), 1, 0)
	terms[last].prefix = err == nil && matched == 0
	return terms[last].prefix, err
}

// all gives the page of messages that have all terms. found says whether there
// are such messages at all.
func (s *search) all(ctx context.Context, terms []term) (page []candidate, found bool, err error) {
	skip, want := s.query.Skip, s.query.Limit
	known := make([]int, len(terms))
	for i := range known {
		known[i] = i
	}
	for offset := 0; want > 0; offset += searchBlock {
		block, matched, err := s.candidates(ctx, matchAll(terms), searchBlock, offset)
		if err != nil {
			return nil, false, err
		}
		for i := range block {
			block[i].known = known
		}
		rank(block, terms)
		found = found || len(block) > 0
		if skip < len(block) {
			block = block[skip:min(len(block), skip+want)]
			page, want, skip = append(page, block...), want-len(block), 0
		} else {
			skip -= len(block)
		}
		if matched < searchBlock {
			break
		}
	}
	return page, found, nil
}

// some gives the page of messages that have any of the terms.
func (s *search) some(ctx context.Context, terms []term) ([]candidate, error) {
	var pool []candidate
	at := map[int64]int{} // in the pool
	for t := range terms {
		found, _, err := s.candidates(ctx, terms[t].match(), max(searchEach, searchBlock/len(terms)), 0)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			i, known := at[c.id]
			if !known {
				i = len(pool)
				pool, at[c.id] = append(pool, c), i
			}
			pool[i].known = append(pool[i].known, t)
		}
	}
	rank(pool, terms)
	pool = pool[min(s.query.Skip, len(pool)):]
	return pool[:min(s.query.Limit, len(pool))], nil
}

// candidates asks the index, the newest first. matched is how many messages it
// had, some of which are not for this search.
func (s *search) candidates(ctx context.Context, match string, limit, offset int) (list []candidate, matched int, err error) {
	everything := s.scope == everywhere
	rows, err := s.store.readers.QueryContext(ctx, `
		SELECT messages.id, messages.created_at, CASE WHEN c.deleted = 0 AND (?2 OR `+inTalk+`) THEN substr(content, 1, ?3) END
		FROM (SELECT rowid FROM messages_fts WHERE messages_fts MATCH ?1 ORDER BY rowid DESC LIMIT ?4 OFFSET ?5) f
			JOIN messages ON conversation_id = f.rowid >> 24 AND seq = f.rowid & 0xFFFFFF
			JOIN conversations c ON c.id = conversation_id`,
		s.within(match), everything, searchChars, limit, offset)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for ; rows.Next(); matched++ {
		var c candidate
		var at int64
		var text sql.NullString
		if err := rows.Scan(&c.id, &at, &text); err != nil {
			return nil, 0, err
		}
		if text.Valid {
			c.text, c.at = text.String, fromMillis(at)
			list = append(list, c)
		}
	}
	return list, matched, rows.Err()
}

// within is a match in the place that is searched alone.
func (s *search) within(match string) string {
	if s.scope != everywhere {
		match = `(place : "` + s.scope + `" AND ` + match + `) NOT place : "internal"`
	}
	if s.query.TalkOnly {
		match = "(" + match + `) NOT place : "tool"`
	}
	return match
}

// hits reads what is shown of the candidates.
func (s *Store) hits(ctx context.Context, found []candidate, terms []term) ([]Hit, error) {
	ids := make([]int64, len(found))
	for i, c := range found {
		ids[i] = c.id
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	rows, err := s.readers.QueryContext(ctx, `
		SELECT s.key, c.id, c.uuid, c.title, m.seq, m.role, coalesce(m.tool_name, ''), m.sender, m.created_at, m.content
		FROM json_each(?) j JOIN messages m ON m.id = j.value
			JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE c.deleted = 0 ORDER BY j.key`, string(list))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var hits []Hit
	var conversations []int64 // row ids
	for rows.Next() {
		h, row, err := scanHit(rows, terms)
		if err != nil {
			return nil, err
		}
		hits, conversations = append(hits, h), append(conversations, row)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range hits {
		if hits[i].Turn, err = turnOf(ctx, s.readers, conversations[i], hits[i].Seq); err != nil {
			return nil, err
		}
	}
	return hits, nil
}

func scanHit(rows *sql.Rows, terms []term) (h Hit, conversation int64, err error) {
	var sender []byte
	var at int64
	var text string
	err = rows.Scan(&h.Key, &conversation, &h.Conversation, &h.Title, &h.Seq, &h.Role, &h.ToolName, &sender, &at, &text)
	if err == nil && len(sender) > 0 {
		err = json.Unmarshal(sender, &h.Sender)
	}
	h.At, h.Snippet = fromMillis(at), snippetOf(text, terms)
	return h, conversation, err
}
