package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
)

// SearchQuery says what to look for, and where.
type SearchQuery struct {
	Key          Key    // the session to look in; "" for all of them, which is for the operator alone
	Conversation string // the ID of one conversation of it, "" for all
	Words        string // plain text: words, and phrases in double quotes
	TalkOnly     bool   // leave out what tools were called with, and their results
	Limit, Skip  int    // a page of the hits, the best first
}

// Hit is a message that a search found.
type Hit struct {
	Key          Key
	Conversation string // ID
	Title        string // of the conversation
	Seq          int64
	Turn         int64 // the exchange of the conversation that the message is in, from 1; 0 where they can't be counted, since the file is damaged
	Role         Role
	ToolName     string // tool: the name of the tool
	Sender       Sender // user: who wrote it
	At           time.Time
	Snippet      fulltext.Snippet
}

const (
	searchBlock = 100  // matches, the newest first, that are ranked among each other
	searchEach  = 10   // of them at least for each word, where no message has all
	searchChars = 2000 // of a message, that count for its rank
)

// Search finds messages by their words, the best first: those that have all of
// the words and phrases; else, when the last word is unknown, those that have a
// word that begins so; else, of a query without quotes, the newest of those that
// have any of the words. Case, accents and every other character count for
// nothing. The newest 100 matches are ranked among each other, then the next
// 100, so that the cost grows with Skip and not with the archive; those in a
// conversation that began later count as newer.
//
// Messages that were deleted are never found, and those on damaged pages are left out. What is no longer part of the
// talk, and the gateway's own, is found only over all sessions. A new message
// is found about a second after its commit. A Conversation that the session
// does not have is ErrNotFound.
func (s *Store) Search(ctx context.Context, query SearchQuery) ([]Hit, error) {
	terms := fulltext.ParseQuery(query.Words)
	if len(terms) == 0 || query.Limit <= 0 {
		return nil, nil
	}
	s.db.CatchUp(ctx, index)
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer conn.Close()
	search := &search{conn: conn, query: query, known: map[spanMatch][]int64{}}
	hits, err := search.run(ctx, terms)
	return hits, db.Explain(err)
}

// search is one search under way.
type search struct {
	conn  *sql.Conn
	query SearchQuery
	place string                // what the index calls the session, "" for all
	spans []span                // of the session
	known map[spanMatch][]int64 // what the index has answered
}

func (s *search) run(ctx context.Context, terms []fulltext.Term) ([]Hit, error) {
	if err := s.locate(ctx); err != nil {
		return nil, err
	}
	found, terms, err := s.byTerms(ctx, terms)
	if err != nil {
		return nil, err
	}
	return s.hits(ctx, found, terms)
}

// locate finds the spans of the index that hold the place that is searched.
func (s *search) locate(ctx context.Context) error {
	if s.everywhere() {
		return nil
	}
	var session int64
	err := s.conn.QueryRowContext(ctx, `
		SELECT s.id FROM sessions s WHERE (?1 = '' OR s.key = ?1)
			AND (?2 = '' OR s.id = (SELECT session_id FROM conversations WHERE uuid = ?2 AND deleted = 0))`,
		string(s.query.Key), s.query.Conversation).Scan(&session)
	switch {
	case errors.Is(err, sql.ErrNoRows) && s.query.Conversation != "":
		return fmt.Errorf("search in %s: %w", s.query.Conversation, ErrNotFound)
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	conversations, err := indexedOf(ctx, s.conn, session, s.query.Conversation)
	s.place, s.spans = placeToken(session), spansOf(conversations)
	return err
}

func (s *search) everywhere() bool { return s.query.Key == "" && s.query.Conversation == "" }

// byTerms gives the page of candidates, and the terms that they were found by.
func (s *search) byTerms(ctx context.Context, terms []fulltext.Term) ([]fulltext.Document, []fulltext.Term, error) {
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
	if slices.ContainsFunc(terms, func(t fulltext.Term) bool { return t.Quoted }) {
		return nil, terms, nil
	}
	terms = fulltext.SplitTerms(terms)
	page, err = s.some(ctx, terms)
	return page, terms, err
}

// begun looks whether no message has the last word of the query, and then makes
// it the beginning of one.
func (s *search) begun(ctx context.Context, terms []fulltext.Term) (bool, error) {
	last := slices.IndexFunc(terms, fulltext.Term.MayBePrefix)
	if last < 0 {
		return false, nil
	}
	matched, err := s.newest(ctx, terms[last:last+1], 1)
	terms[last].Prefix = err == nil && len(matched) == 0
	return terms[last].Prefix, err
}

// all gives the page of messages that have all terms. found says whether there
// are such messages at all.
func (s *search) all(ctx context.Context, terms []fulltext.Term) (page []fulltext.Document, found bool, err error) {
	skip, want := s.query.Skip, s.query.Limit
	every := make([]int, len(terms))
	for i := range every {
		every[i] = i
	}
	for offset := 0; want > 0; offset += searchBlock {
		matched, err := s.newest(ctx, terms, offset+searchBlock)
		if err != nil {
			return nil, false, err
		}
		matched = matched[min(offset, len(matched)):]
		block, err := s.candidates(ctx, matched, func(int64) []int { return every })
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
		if len(matched) < searchBlock {
			break
		}
	}
	return page, found, nil
}

// some gives the page of messages that have any of the terms.
func (s *search) some(ctx context.Context, terms []fulltext.Term) ([]fulltext.Document, error) {
	has := map[int64][]int{} // terms by the message that has them
	var matched []int64
	for t := range terms {
		found, err := s.newest(ctx, terms[t:t+1], max(searchEach, searchBlock/len(terms)))
		if err != nil {
			return nil, err
		}
		for _, rowid := range found {
			if has[rowid] == nil {
				matched = append(matched, rowid)
			}
			has[rowid] = append(has[rowid], t)
		}
	}
	pool, err := s.candidates(ctx, matched, func(rowid int64) []int { return has[rowid] })
	if err != nil {
		return nil, err
	}
	fulltext.Rank(pool, terms)
	pool = pool[min(s.query.Skip, len(pool)):]
	return pool[:min(s.query.Limit, len(pool))], nil
}

// candidates reads what messages are ranked by, without those that are not for this search. They are given as rowids of
// the index; has returns the terms that the index has found in one.
func (s *search) candidates(ctx context.Context, rowids []int64, has func(rowid int64) []int) ([]fulltext.Document, error) {
	return db.ReadableOf(rowids, func(rowids []int64) ([]fulltext.Document, error) { return s.readCandidates(ctx, rowids, has) })
}

func (s *search) readCandidates(ctx context.Context, rowids []int64, has func(rowid int64) []int) (list []fulltext.Document, err error) {
	rows, err := short(ctx, s.conn, `
		SELECT messages.id, j.value, messages.created_at, substr(content, 1, ?3),
			CASE WHEN octet_length(tool_calls) <= ?3 THEN tool_calls ELSE '' END
		FROM json_each(?1) j JOIN messages ON conversation_id = j.value >> 24 AND seq = j.value & 0xFFFFFF
			JOIN conversations c ON c.id = conversation_id
		WHERE c.deleted = 0 AND (?2 OR `+inTalk+`)`,
		db.IDs(rowids), s.everywhere(), searchChars)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var d fulltext.Document
		var rowid, at int64
		var text, calls string
		if err := rows.Scan(&d.ID, &rowid, &at, &text, &calls); err != nil {
			return nil, err
		}
		d.Text, d.At, d.Has = s.searched(text, calls), db.FromMillis(at), has(rowid)
		list = append(list, d)
	}
	return list, rows.Err()
}

// searched is the text that a message is found by.
func (s *search) searched(content, calls string) string {
	if calls == "" || s.query.TalkOnly {
		return content
	}
	return strings.TrimPrefix(content+"\n"+callsText(calls), "\n")
}

// hits reads what is shown of the candidates.
func (s *search) hits(ctx context.Context, found []fulltext.Document, terms []fulltext.Term) ([]Hit, error) {
	ids := make([]int64, len(found))
	for i, c := range found {
		ids[i] = c.ID
	}
	return db.ReadableOf(ids, func(ids []int64) ([]Hit, error) { return s.readHits(ctx, ids, terms) })
}

func (s *search) readHits(ctx context.Context, ids []int64, terms []fulltext.Term) ([]Hit, error) {
	rows, err := short(ctx, s.conn, `
		SELECT s.key, c.id, c.uuid, c.title, m.seq, m.role, coalesce(m.tool_name, ''), m.sender, m.created_at, m.content, coalesce(m.tool_calls, '')
		FROM json_each(?) j JOIN messages m ON m.id = j.value
			JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE c.deleted = 0 ORDER BY j.key`, db.IDs(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var hits []Hit
	var conversations []int64 // row ids
	for rows.Next() {
		h, row, err := s.scanHit(rows, terms)
		if err != nil {
			return nil, err
		}
		hits, conversations = append(hits, h), append(conversations, row)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range hits {
		hits[i].Turn, err = turnOf(context.WithoutCancel(ctx), s.conn, conversations[i], hits[i].Seq)
		if IsDamaged(err) { // somewhere before it
			hits[i].Turn, err = 0, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return hits, nil
}

func (s *search) scanHit(rows *sql.Rows, terms []fulltext.Term) (h Hit, conversation int64, err error) {
	var sender []byte
	var at int64
	var text, calls string
	err = rows.Scan(&h.Key, &conversation, &h.Conversation, &h.Title, &h.Seq, &h.Role, &h.ToolName, &sender, &at, &text, &calls)
	if err == nil && len(sender) > 0 {
		err = json.Unmarshal(sender, &h.Sender)
	}
	h.At, h.Snippet = db.FromMillis(at), fulltext.NewSnippet(s.searched(text, calls), terms)
	return h, conversation, err
}
