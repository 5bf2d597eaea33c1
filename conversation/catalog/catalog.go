// Package catalog lists sessions and conversations, page by page, and pins sessions.
package catalog

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/metadata"
	"parley/plaintext"
)

// Catalog lists what a store holds.
type Catalog struct {
	store *conversation.Store
	db    *db.DB
}

// New returns the catalog of a store.
func New(store *conversation.Store) *Catalog { return &Catalog{store, store.DB()} }

// Pin puts a session at the top of lists, or takes it from there. The error is
// ErrNoSession for a session that does not exist.
func (c *Catalog) Pin(ctx context.Context, key conversation.Key, pinned bool) error {
	return c.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		result, err := tx.ExecContext(ctx, `UPDATE sessions SET pinned = ? WHERE key = ?`, pinned, string(key))
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return fmt.Errorf("%w: %q", conversation.ErrNoSession, key)
	})
}

// Find returns the conversation whose ID begins with id, of any session. The error is
// conversation.ErrNotFound if there is none; if there are several, it says so.
func (c *Catalog) Find(ctx context.Context, id string) (conversation.Conversation, error) {
	if id == "" {
		return conversation.Conversation{}, fmt.Errorf("%w: %q", conversation.ErrNotFound, id)
	}
	found, err := conversation.ReadConversations(ctx, c.db, `
		WHERE c.uuid >= ?1 AND c.uuid < ?1 || 'g' AND c.deleted = 0 ORDER BY c.uuid LIMIT 2`, strings.ToLower(id)) // g comes after every hexadecimal digit and the hyphen
	switch {
	case err != nil:
		return conversation.Conversation{}, db.Explain(err)
	case len(found) == 0:
		return conversation.Conversation{}, fmt.Errorf("%w: %q", conversation.ErrNotFound, strings.ToLower(id))
	case len(found) > 1:
		return conversation.Conversation{}, fmt.Errorf("several conversations have an id that begins with %q: give more of it", strings.ToLower(id))
	}
	return found[0], nil
}

// Session is a place people talk in, with the totals of its conversations.
type Session struct {
	Key           conversation.Key
	Place         string // what people call it, "" when nobody said
	Title         string // of the conversation that goes on, else of the message that waits to begin one, else of the newest; may be ""
	Active        bool   // it has a conversation that goes on
	Conversations int64
	Messages      int64
	Tokens        int64
	Waiting       int64 // inbound that no run has settled
	CreatedAt     time.Time
	UsedAt        time.Time       // when one of its conversations was last used, else CreatedAt
	Metadata      metadata.Object // notes of the program that uses the session
	Model         string          // model that was chosen for the session; "" for none
	Agent         string          // agent that was chosen for the session; "" for none

	row int64
}

// SessionQuery chooses sessions. The zero value means all.
type SessionQuery struct {
	Channel   string
	Text      string // stands in the key, also that of a place that moved, in the place or a title, in any case of its ASCII letters
	User      string // has written in one of its conversations: the platform's id, or the name in any case of its ASCII letters
	Metadata  metadata.Filter
	Active    bool   // only those with a conversation that goes on, or a message that waits to begin one
	Archived  bool   // only those whose conversations are all archived, and where no message waits
	Pinned    *bool  // only those that are pinned, or only those that are not; nil = all
	ByAge     bool   // begin with what was made last, not with what was used last; see Sessions
	ByMessage bool   // use is the newest message of a conversation, not that it was resumed or imported since
	From      string // where the page begins, as the page before it says; "" = the first
	Limit     int    // 0 = none
}

// like is LIKE for letters of ASCII in any case, and isName the condition that :user is the name of a participant p.
var (
	like   = db.Either(`LIKE`, `ILIKE`)
	isName = db.Either(`p.name = :user COLLATE NOCASE`, `lower(p.name) = lower(:user COLLATE "C")`)
)

// sessionColumns are what scanSession reads of oneEach.
const sessionColumns = `s.id, s.key, s.place, s.metadata, s.model, s.agent, s.created_at, s.conversations, s.messages, s.tokens, s.goes_on, s.used_at, s.waiting, s.title`

// When a conversation c was used, for lists by use and by message.
const (
	lastUse     = `c.updated_at`
	lastMessage = `coalesce((SELECT m.created_at FROM messages m WHERE m.conversation_id = c.id AND m.seq = c.messages), c.updated_at)`
)

// oneEach returns a query for sessions s with the totals of their conversations, one row for each; a condition on s is
// appended to it. used is the SQL expression for the time at which a conversation was used.
func oneEach(used string) string {
	return `
		SELECT s.id, s.key, s.place, s.metadata, coalesce(s.model, '') AS model, coalesce(s.agent, '') AS agent, s.created_at, s.cleared,
			count(c.id) AS conversations, coalesce(sum(c.messages), 0) AS messages, coalesce(sum(c.tokens), 0) AS tokens,
			coalesce(max(c.active), 0) AS goes_on, coalesce(max(` + used + `), s.created_at) AS used_at,
			(SELECT count(*) FROM inbox i WHERE i.session_id = s.id AND i.run_id IS NULL AND i.note = 0) AS waiting,
			coalesce(
				(SELECT t.title FROM conversations t WHERE t.session_id = s.id AND t.active = 1 AND t.messages > 0),
				(SELECT CASE WHEN i.title <> '' THEN i.title ELSE substr(i.text, 1, 400) END FROM inbox i
					WHERE i.session_id = s.id AND i.run_id IS NULL AND i.note = 0 ORDER BY i.id LIMIT 1),
				(SELECT t.title FROM conversations t WHERE t.session_id = s.id AND t.deleted = 0 AND t.messages > 0 ORDER BY t.id DESC LIMIT 1), '') AS title
		FROM sessions s LEFT JOIN conversations c ON c.session_id = s.id AND c.deleted = 0 AND c.messages > 0 `
}

// The conditions that a session has a :text, and that a :user has written in it. Letters of ASCII match in any case.
var (
	whereText = strings.ReplaceAll(`(s.key LIKE :text ESCAPE '\' OR s.place LIKE :text ESCAPE '\'
		OR EXISTS (SELECT 1 FROM moved_places m WHERE m.session = s.key AND m.place LIKE :text ESCAPE '\') OR EXISTS (
		SELECT 1 FROM conversations t WHERE t.session_id = s.id AND t.deleted = 0 AND t.title LIKE :text ESCAPE '\'))`, `LIKE`, like)
	whereUser = `EXISTS (SELECT 1 FROM conversations u JOIN participants p ON p.conversation_id = u.id
		WHERE u.session_id = s.id AND u.deleted = 0 AND (p.user_id = :user OR ` + isName + `))`
)

// Sessions lists the sessions that hold conversations or waiting messages. Those with
// metadata alone are listed if they were never used, or if the metadata is asked for: a
// session whose conversations were all deleted is nothing to look at. next is where the page that follows begins, "" when there is none. A
// From that no page has given is ErrInvalid, and so is a Text of more than 4 KiB.
func (c *Catalog) Sessions(ctx context.Context, q SessionQuery) (list []Session, next string, err error) {
	args, err := listArguments(q)
	if err != nil {
		return nil, "", err
	}
	used := lastUse
	if q.ByMessage {
		used = lastMessage
	}
	rows, err := c.db.QueryContext(ctx, `
		SELECT `+sessionColumns+` FROM (`+oneEach(used)+`
		WHERE (:channel = '' OR s.channel = :channel) AND (CAST(:pinned AS BIGINT) IS NULL OR s.pinned = :pinned) AND (:text = '%%' OR `+whereText+`) AND (:user = '' OR `+whereUser+`)
			AND `+metadata.Matches(":metadata", "s.metadata")+`
		GROUP BY s.id) AS s WHERE (conversations + waiting > 0 OR s.metadata IS NOT NULL AND (CAST(:metadata AS TEXT) IS NOT NULL OR s.cleared = 0))
			AND (:active = 0 OR goes_on = 1 OR waiting > 0) AND (:archived = 0 OR conversations > 0 AND goes_on = 0 AND waiting = 0)
			AND `+order(q.ByAge).follows("used_at", "s.id")+`
		ORDER BY `+order(q.ByAge).by("used_at", "s.id")+` LIMIT :limit`, append(args, sql.Named("pinned", q.Pinned))...)
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
	filter, err := q.Metadata.Parameter()
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
		sql.Named("used", from.used), sql.Named("row", from.row), sql.Named("limit", db.OneMore(q.Limit)),
	}, nil
}

// Session returns one session, or ErrNoSession.
func (c *Catalog) Session(ctx context.Context, key conversation.Key) (Session, error) {
	session, err := scanSession(c.db.QueryRowContext(ctx, `SELECT `+sessionColumns+` FROM (`+oneEach(lastUse)+`WHERE s.key = ? GROUP BY s.id) AS s`, string(key)))
	if errors.Is(err, sql.ErrNoRows) {
		return session, fmt.Errorf("%w: %q", conversation.ErrNoSession, key)
	}
	return session, db.Explain(err)
}

// SessionOf returns the session that a place belongs to: for a place that has moved, the one that it had before. A session of its
// own from the time before the move was known is returned as long as it holds something. The error is ErrNoSession if there is none.
func (c *Catalog) SessionOf(ctx context.Context, place conversation.Key) (Session, error) {
	key, err := c.KeyOf(ctx, place)
	if err != nil {
		return Session{}, err
	}
	return c.Session(ctx, key)
}

// KeyOf returns the key of the session that SessionOf returns. For a place without a session it returns the key of the place.
func (c *Catalog) KeyOf(ctx context.Context, place conversation.Key) (key conversation.Key, err error) {
	err = c.db.QueryRowContext(ctx, `
		SELECT coalesce((SELECT m.session FROM moved_places m WHERE m.place = ?1 AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.key = m.place AND (
			EXISTS (SELECT 1 FROM conversations c WHERE c.session_id = s.id AND c.deleted = 0 AND c.messages > 0)
			OR EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = s.id AND i.run_id IS NULL AND i.note = 0)))), ?1)`, string(place)).Scan(&key)
	return key, db.Explain(err)
}

func scanSession(row interface{ Scan(...any) error }) (s Session, err error) {
	var created, used int64
	var noted sql.NullString
	err = row.Scan(&s.row, &s.Key, &s.Place, &noted, &s.Model, &s.Agent, &created, &s.Conversations, &s.Messages, &s.Tokens, &s.Active, &used, &s.Waiting, &s.Title)
	if s.Waiting > 0 {
		s.Title = plaintext.ShortLine(s.Title, 60)
	}
	s.Metadata = metadata.Object(noted.String)
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
		return "", fmt.Errorf("%w: a text of %d bytes is looked for, at most %d may be", conversation.ErrInvalid, len(text), maxListText)
	}
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%", nil
}

// ConversationQuery chooses conversations. The zero value means all.
type ConversationQuery struct {
	Key      conversation.Key // key of the session; "" for all
	Channel  string
	Text     string          // stands in the title, in any case of its ASCII letters
	User     string          // has written in it: the platform's id, or the name in any case of its ASCII letters
	Metadata metadata.Filter // each member is in its own or in its session's
	Active   bool            // only those that go on
	Archived bool            // only those that are archived
	ByAge    bool            // begin with what was made last, not with what was used last; see Sessions
	From     string          // where the page begins, as the page before it says; "" = the first
	Skip     int             // number of conversations to leave out at the beginning
	Limit    int             // 0 = none
}

// Conversations lists conversations in which there are messages. next is
// where the page that follows begins, "" when there is none. A From that no page
// has given is ErrInvalid, and so is a Text of more than 4 KiB.
func (c *Catalog) Conversations(ctx context.Context, q ConversationQuery) (list []conversation.Conversation, next string, err error) {
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
	list, err = conversation.ReadConversations(ctx, c.db, `
		WHERE `+session+` AND c.deleted = 0 AND c.messages > 0
			AND (:text = '%%' OR c.title `+like+` :text ESCAPE '\')
			AND (:user = '' OR EXISTS (SELECT 1 FROM participants p WHERE p.conversation_id = c.id AND (p.user_id = :user OR `+isName+`)))
			AND (:active = 0 OR c.active = 1) AND (:archived = 0 OR c.active = 0)
			AND `+metadata.Matches(":metadata", "c.metadata", "s.metadata")+`
			AND `+order(q.ByAge).follows("c.updated_at", "c.id")+`
		ORDER BY `+order(q.ByAge).by("c.updated_at", "c.id")+` LIMIT :limit OFFSET :skip`,
		append(args, sql.Named("key", string(q.Key)), sql.Named("skip", q.Skip))...)
	if err != nil {
		return nil, "", db.Explain(err)
	}
	list, next = cutPage(list, q.Limit, func(last conversation.Conversation) string { return order(q.ByAge).next(last.UpdatedAt, last.Row()) })
	return list, next, nil
}

// order is how a list is paged through: true by age, false by use.
//
// By use, what is used while somebody pages moves to the front, so that the pages behind it
// may lack it. By age, everything comes once that was there at the first page.
type order bool

// pagePlace is where a page begins: behind the row that was used then.
type pagePlace struct {
	used int64 // when the last one of the page was used, in milliseconds; 0 in an order by age
	row  int64 // row ID of the last one of the page; 0 = the page is the first
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
		return `(CAST(:row AS BIGINT) = 0 OR ` + row + ` < CAST(:row AS BIGINT))`
	}
	return `(CAST(:row AS BIGINT) = 0 OR (` + used + `, ` + row + `) < (CAST(:used AS BIGINT), CAST(:row AS BIGINT)))`
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
	return pagePlace{}, fmt.Errorf("%w: no page of this list begins at %q", conversation.ErrInvalid, from)
}

func (o order) name() string {
	if o {
		return "age"
	}
	return "use"
}

// cutPage returns a page of rows that were read with db.OneMore, and where the next page
// begins: next of the last row, or "" if there is no other page.
func cutPage[T any](rows []T, limit int, next func(last T) string) (page []T, from string) {
	if limit <= 0 || len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], next(rows[limit-1])
}

// Participants returns who has written in the conversation with an ID, with the platform's ids, ordered by name.
func (c *Catalog) Participants(ctx context.Context, id string) ([]conversation.Sender, error) {
	rows, err := c.db.QueryContext(ctx, `
		SELECT p.user_id, p.name FROM participants p JOIN conversations c ON c.id = p.conversation_id
		WHERE c.uuid = ? AND c.deleted = 0 ORDER BY p.name, p.user_id`, id)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []conversation.Sender
	for rows.Next() {
		var p conversation.Sender
		if err := rows.Scan(&p.ID, &p.Name); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, db.Explain(rows.Err())
}

// HasOther reports whether the session of a conversation has another one with
// messages.
func (c *Catalog) HasOther(ctx context.Context, of conversation.Conversation) (has bool, err error) {
	err = c.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM conversations WHERE session_id = (SELECT id FROM sessions WHERE key = ?) AND uuid <> ? AND deleted = 0 AND messages > 0)`, string(of.Key), of.ID).Scan(&has)
	return has, db.Explain(err)
}

// CountSessions returns how many sessions are stored.
func (c *Catalog) CountSessions(ctx context.Context) (n int64, err error) {
	err = c.db.QueryRowContext(ctx, `SELECT count(*) FROM sessions`).Scan(&n)
	return n, db.Explain(err)
}
