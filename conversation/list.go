package conversation

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/conversation/internal/db"
)

// Session is a place people talk in, with the totals of its conversations.
type Session struct {
	Key           Key
	Place         string // what people call it, "" when nobody said
	Active        bool   // it has a conversation that goes on
	Conversations int64
	Messages      int64
	Tokens        int64
	Waiting       int64 // inbound that no run has settled
	CreatedAt     time.Time
	UsedAt        time.Time // when one of its conversations was last used, else CreatedAt
	Metadata      Metadata  // of the program that uses it

	row int64
}

// SessionQuery chooses sessions. The zero value means all.
type SessionQuery struct {
	Channel  string
	Text     string // stands in the key, also that of a place that moved, in the place or a title, in any case of its ASCII letters
	User     string // has written in one of its conversations: the platform's id, or the name in any case of its ASCII letters
	Metadata Filter
	Active   bool   // only those with a conversation that goes on
	Archived bool   // only those whose conversations are all archived
	ByAge    bool   // begin with what was made last, not with what was used last; see Sessions
	From     string // where the page begins, as the page before it says; "" = the first
	Limit    int    // 0 = none
}

const (
	selectSessions = `
		SELECT s.id, s.key, s.place, s.metadata, s.created_at, count(c.id) AS conversations, coalesce(sum(c.messages), 0), coalesce(sum(c.tokens), 0),
			coalesce(max(c.active), 0) AS goes_on, coalesce(max(c.updated_at), s.created_at) AS used_at,
			(SELECT count(*) FROM inbox i WHERE i.session_id = s.id AND i.run_id IS NULL AND i.note = 0) AS waiting
		FROM sessions s LEFT JOIN conversations c ON c.session_id = s.id AND c.deleted = 0 AND c.messages > 0 `
	whereText = `(s.key LIKE :text ESCAPE '\' OR s.place LIKE :text ESCAPE '\'
		OR EXISTS (SELECT 1 FROM moved_places m WHERE m.session = s.key AND m.place LIKE :text ESCAPE '\') OR EXISTS (
		SELECT 1 FROM conversations t WHERE t.session_id = s.id AND t.deleted = 0 AND t.title LIKE :text ESCAPE '\'))`
	whereUser = `EXISTS (SELECT 1 FROM conversations u JOIN participants p ON p.conversation_id = u.id
		WHERE u.session_id = s.id AND u.deleted = 0 AND (p.user_id = :user OR p.name = :user COLLATE NOCASE))`
)

// Sessions lists the sessions that hold conversations, waiting messages or
// metadata. next is where the page that follows begins, "" when there is none. A
// From that no page has given is ErrInvalid, and so is a Text of more than 4 KiB.
func (s *Store) Sessions(ctx context.Context, q SessionQuery) (list []Session, next string, err error) {
	args, err := listArguments(q)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.QueryContext(ctx, selectSessions+`
		WHERE (:channel = '' OR s.channel = :channel) AND (:text = '%%' OR `+whereText+`) AND (:user = '' OR `+whereUser+`)
			AND `+metadataMatches("s.metadata", ":metadata")+`
		GROUP BY s.id HAVING (conversations + waiting > 0 OR s.metadata IS NOT NULL)
			AND (NOT :active OR goes_on) AND (NOT :archived OR conversations > 0 AND goes_on = 0)
			AND `+order(q.ByAge).follows("used_at", "s.id")+`
		ORDER BY `+order(q.ByAge).by("used_at", "s.id")+` LIMIT :limit`, args...)
	if err != nil {
		return nil, "", db.Explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		session, err := scanSession(rows)
		if err != nil {
			return nil, "", err
		}
		list = append(list, session)
	}
	list, next = cutPage(list, q.Limit, func(last Session) string { return order(q.ByAge).next(last.UsedAt, last.row) })
	return list, next, db.Explain(rows.Err())
}

// listArguments returns the parameters that the lists of sessions and of conversations
// have in common.
func listArguments(q SessionQuery) ([]any, error) {
	from, err := order(q.ByAge).parse(q.From)
	if err != nil {
		return nil, err
	}
	filter, err := q.Metadata.parameter()
	if err != nil {
		return nil, err
	}
	text, err := containing(q.Text)
	if err != nil {
		return nil, err
	}
	return []any{
		sql.Named("channel", q.Channel), sql.Named("text", text), sql.Named("user", q.User), sql.Named("metadata", filter),
		sql.Named("active", q.Active), sql.Named("archived", q.Archived),
		sql.Named("used", from.used), sql.Named("row", from.row), sql.Named("limit", oneMore(q.Limit)),
	}, nil
}

// Session returns one session, or ErrNoSession.
func (s *Store) Session(ctx context.Context, key Key) (Session, error) {
	session, err := scanSession(s.db.QueryRowContext(ctx, selectSessions+`WHERE s.key = ? GROUP BY s.id`, string(key)))
	if errors.Is(err, sql.ErrNoRows) {
		return session, fmt.Errorf("%w: %q", ErrNoSession, key)
	}
	return session, db.Explain(err)
}

func scanSession(row interface{ Scan(...any) error }) (s Session, err error) {
	var created, used int64
	var metadata sql.NullString
	err = row.Scan(&s.row, &s.Key, &s.Place, &metadata, &created, &s.Conversations, &s.Messages, &s.Tokens, &s.Active, &used, &s.Waiting)
	s.Metadata = Metadata(metadata.String)
	s.CreatedAt, s.UsedAt = db.FromMillis(created), db.FromMillis(used)
	return s, err
}

// maxListText is how many bytes of text a list may be asked for: more than any
// key, place or title has, and less than SQLite's LIKE takes
// (https://www.sqlite.org/limits.html, section 8).
const maxListText = 4 << 10

// containing returns the pattern by which LIKE finds texts that contain text. A text that
// is too long is ErrInvalid.
func containing(text string) (pattern string, err error) {
	if len(text) > maxListText {
		return "", fmt.Errorf("%w: a text of %d bytes is looked for, at most %d may be", ErrInvalid, len(text), maxListText)
	}
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%", nil
}

// Find returns the conversation whose ID begins with id, of any session. The error is
// ErrNotFound when there is none, and says so when there are several.
func (s *Store) Find(ctx context.Context, id string) (Conversation, error) {
	var found []Conversation
	id = strings.ToLower(id)
	rows, err := s.db.QueryContext(ctx, selectConversations+`
		WHERE c.uuid >= ?1 AND c.uuid < ?1 || 'g' AND c.deleted = 0 ORDER BY c.uuid LIMIT 2`, id) // g comes after every hexadecimal digit and the hyphen
	if err != nil {
		return Conversation{}, db.Explain(err)
	}
	defer rows.Close()
	var place string
	for rows.Next() {
		c, err := scanConversation(rows, &place)
		if err != nil {
			return c, err
		}
		found = append(found, c)
	}
	switch {
	case rows.Err() != nil:
		return Conversation{}, db.Explain(rows.Err())
	case len(found) == 0 || id == "":
		return Conversation{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	case len(found) > 1:
		return Conversation{}, fmt.Errorf("several conversations have an id that begins with %q: give more of it", id)
	}
	return found[0], nil
}

// ConversationQuery chooses conversations. The zero value means all.
type ConversationQuery struct {
	Key      Key // of the session, "" for all
	Channel  string
	Text     string // stands in the title, in any case of its ASCII letters
	User     string // has written in it: the platform's id, or the name in any case of its ASCII letters
	Metadata Filter // of its session
	Active   bool   // only those that go on
	Archived bool   // only those that are archived
	ByAge    bool   // begin with what was made last, not with what was used last; see Sessions
	From     string // where the page begins, as the page before it says; "" = the first
	Skip     int    // leave out as many first ones
	Limit    int    // 0 = none
}

// Conversations lists conversations in which there are messages. next is
// where the page that follows begins, "" when there is none. A From that no page
// has given is ErrInvalid, and so is a Text of more than 4 KiB.
func (s *Store) Conversations(ctx context.Context, q ConversationQuery) (list []Conversation, next string, err error) {
	args, err := listArguments(SessionQuery{
		Channel: q.Channel, Text: q.Text, User: q.User, Metadata: q.Metadata, Active: q.Active, Archived: q.Archived, ByAge: q.ByAge, From: q.From, Limit: q.Limit,
	})
	if err != nil {
		return nil, "", err
	}
	session := `(:channel = '' OR s.channel = :channel)`
	if q.Key != "" {
		session = `c.session_id = (SELECT id FROM sessions WHERE key = :key) AND ` + session
	}
	rows, err := s.db.QueryContext(ctx, selectConversations+`
		WHERE `+session+` AND c.deleted = 0 AND c.messages > 0
			AND (:text = '%%' OR c.title LIKE :text ESCAPE '\')
			AND (:user = '' OR EXISTS (SELECT 1 FROM participants p WHERE p.conversation_id = c.id AND (p.user_id = :user OR p.name = :user COLLATE NOCASE)))
			AND (NOT :active OR c.active = 1) AND (NOT :archived OR c.active = 0)
			AND `+metadataMatches("s.metadata", ":metadata")+`
			AND `+order(q.ByAge).follows("c.updated_at", "c.id")+`
		ORDER BY `+order(q.ByAge).by("c.updated_at", "c.id")+` LIMIT :limit OFFSET :skip`,
		append(args, sql.Named("key", string(q.Key)), sql.Named("skip", q.Skip))...)
	if err != nil {
		return nil, "", db.Explain(err)
	}
	defer rows.Close()
	var place string
	for rows.Next() {
		c, err := scanConversation(rows, &place)
		if err != nil {
			return nil, "", err
		}
		list = append(list, c)
	}
	list, next = cutPage(list, q.Limit, func(last Conversation) string { return order(q.ByAge).next(last.UpdatedAt, last.row) })
	return list, next, db.Explain(rows.Err())
}

// Conversation returns the conversation with an ID, of any session, or ErrNotFound.
func (s *Store) Conversation(ctx context.Context, id string) (Conversation, error) {
	var place string
	c, err := scanConversation(s.db.QueryRowContext(ctx, selectConversations+`WHERE c.uuid = ? AND c.deleted = 0`, id), &place)
	if err != nil {
		return c, db.Explain(fmt.Errorf("%w: %q", notFound(err), id))
	}
	return c, nil
}

// order is how a list is paged through: true by age, false by use.
//
// By use, what is used while somebody pages moves to the front, so that the pages behind it
// may lack it. By age, everything comes once that was there at the first page.
type order bool

// pagePlace is where a page begins: behind the row that was used then.
type pagePlace struct {
	used int64 // milliseconds; by age nothing
	row  int64 // 0 = at the beginning
}

// by returns the terms of ORDER BY.
func (o order) by(used, row string) string {
	if o {
		return row + ` DESC`
	}
	return used + ` DESC, ` + row + ` DESC`
}

// follows returns the condition that a row stands behind the place with the
// parameters :used and :row.
func (o order) follows(used, row string) string {
	if o {
		return `(:row = 0 OR ` + row + ` < :row)`
	}
	return `(:row = 0 OR (` + used + `, ` + row + `) < (:used, :row))`
}

// next returns the place behind a row, as callers get it.
func (o order) next(used time.Time, row int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s/%d/%d", o.name(), db.Millis(used), row))
}

// parse reads what next has given.
func (o order) parse(from string) (p pagePlace, err error) {
	if from == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(from)
	if err == nil {
		_, err = fmt.Sscanf(string(text), o.name()+"/%d/%d", &p.used, &p.row)
	}
	if err == nil && p.row > 0 && o.next(db.FromMillis(p.used), p.row) == from {
		return p, nil
	}
	return pagePlace{}, fmt.Errorf("%w: no page of this list begins at %q", ErrInvalid, from)
}

func (o order) name() string {
	if o {
		return "age"
	}
	return "use"
}

// cutPage returns a page of rows that were read with oneMore, and where the next page
// begins: next of the last row, or "" if there is no other page.
func cutPage[T any](rows []T, limit int, next func(last T) string) (page []T, from string) {
	if limit <= 0 || len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], next(rows[limit-1])
}

// oneMore returns the LIMIT by which a query tells whether another page follows.
func oneMore(limit int) int {
	if limit <= 0 {
		return -1 // SQLite's word for none
	}
	return limit + 1
}

// Participants returns who has written in a conversation, with the platform's ids, ordered by name.
func (s *Store) Participants(ctx context.Context, conversation string) ([]Sender, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT p.user_id, p.name FROM participants p JOIN conversations c ON c.id = p.conversation_id
		WHERE c.uuid = ? AND c.deleted = 0 ORDER BY p.name, p.user_id`, conversation)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Sender
	for rows.Next() {
		var p Sender
		if err := rows.Scan(&p.ID, &p.Name); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, db.Explain(rows.Err())
}

// HasOther reports whether the session of a conversation has another one with
// messages.
func (s *Store) HasOther(ctx context.Context, c Conversation) (has bool, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM conversations WHERE session_id = ? AND uuid <> ? AND deleted = 0 AND messages > 0)`, c.session, c.ID).Scan(&has)
	return has, db.Explain(err)
}

// CountSessions returns how many sessions are stored.
func (s *Store) CountSessions(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM sessions`).Scan(&n)
	return n, db.Explain(err)
}

// Metadata is what a program notes of a session or a message: the text of a JSON
// object, "" for none.
type Metadata string

const (
	maxMetadata      = 16 << 10 // bytes of a session's or a message's
	maxMetadataDepth = 20       // objects and lists inside each other; SQLite reads no more than 1000: https://www.sqlite.org/json1.html
)

// checked returns the metadata without spaces between its members, "" for an empty object,
// or ErrInvalid.
func (m Metadata) checked() (Metadata, error) { return m.checkedUpTo(maxMetadata) }

// checkedUpTo is checked with another bound, in bytes.
func (m Metadata) checkedUpTo(most int) (Metadata, error) {
	if m == "" {
		return "", nil
	}
	if len(m) > most {
		return "", fmt.Errorf("%w: metadata has %d bytes, at most %d are taken", ErrInvalid, len(m), most)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(db.Text(string(m)))); err != nil || compact.Bytes()[0] != '{' {
		return "", fmt.Errorf("%w: metadata is no JSON object", ErrInvalid)
	}
	if compact.Len() == len("{}") {
		return "", nil
	}
	if depth(compact.Bytes()) > maxMetadataDepth {
		return "", fmt.Errorf("%w: metadata has more than %d objects or lists inside each other", ErrInvalid, maxMetadataDepth)
	}
	return Metadata(compact.String()), nil
}

// depth returns how deep the objects and lists of a JSON text are nested.
func depth(text []byte) (deepest int) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for depth := 0; ; deepest = max(deepest, depth) {
		switch token, err := decoder.Token(); {
		case err != nil:
			return deepest
		case token == json.Delim('{'), token == json.Delim('['):
			depth++
		case token == json.Delim('}'), token == json.Delim(']'):
			depth--
		}
	}
}

// Filter asks for metadata that has each of these members, with a text, a number
// or a truth value that reads so: {"agent": "planner", "iteration": "3"}. The
// zero value takes everything.
type Filter map[string]string

// parameter returns the filter as metadataMatches reads it.
func (f Filter) parameter() (any, error) {
	if len(f) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(f)
	return string(text), err
}

// metadataMatches returns the condition that a column of metadata has what a filter asks
// for, which is a parameter of the query.
func metadataMatches(column, parameter string) string {
	return `NOT EXISTS (SELECT 1 FROM json_each(` + parameter + `) wanted WHERE NOT EXISTS (
		SELECT 1 FROM json_each(` + column + `) has WHERE has.key = wanted.key AND wanted.value =
			CASE has.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(has.atom AS TEXT) END))`
}
