package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
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
}

// SessionQuery chooses sessions. The zero value means all.
type SessionQuery struct {
	Channel  string
	Text     string // stands in the key, the place or a title, in any case of its ASCII letters
	Archived bool   // only those whose conversations are all archived
	Skip     int
	Limit    int // 0 = none
}

// ErrNoSession says that no session has a key.
var ErrNoSession = errors.New("no such session")

const (
	selectSessions = `
		SELECT s.key, s.place, s.created_at, count(c.id) AS conversations, coalesce(sum(c.messages), 0), coalesce(sum(c.tokens), 0),
			coalesce(max(c.active), 0) AS goes_on, coalesce(max(c.updated_at), s.created_at) AS used_at,
			(SELECT count(*) FROM inbox i WHERE i.session_id = s.id AND i.run_id IS NULL AND i.note = 0) AS waiting
		FROM sessions s LEFT JOIN conversations c ON c.session_id = s.id AND c.deleted = 0 AND c.messages > 0 `
	whereText = ` AND (s.key LIKE ?2 ESCAPE '\' OR s.place LIKE ?2 ESCAPE '\' OR EXISTS (
		SELECT 1 FROM conversations t WHERE t.session_id = s.id AND t.deleted = 0 AND t.title LIKE ?2 ESCAPE '\'))`
)

// Sessions lists the sessions that hold conversations or waiting messages, the
// one used last first.
func (s *Store) Sessions(ctx context.Context, q SessionQuery) ([]Session, error) {
	limit := q.Limit
	if limit == 0 {
		limit = -1 // SQLite's word for none
	}
	rows, err := s.readers.QueryContext(ctx, selectSessions+`
		WHERE (?1 = '' OR s.channel = ?1)`+whereText+`
		GROUP BY s.id HAVING conversations + waiting > 0 AND (NOT ?3 OR conversations > 0 AND goes_on = 0)
		ORDER BY used_at DESC, s.id DESC LIMIT ?4 OFFSET ?5`,
		q.Channel, containing(q.Text), q.Archived, limit, q.Skip)
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	var list []Session
	for rows.Next() {
		session, err := scanSession(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, session)
	}
	return list, explain(rows.Err())
}

// Session gives one session, or ErrNoSession.
func (s *Store) Session(ctx context.Context, key Key) (Session, error) {
	session, err := scanSession(s.readers.QueryRowContext(ctx, selectSessions+`WHERE s.key = ? GROUP BY s.id`, string(key)))
	if errors.Is(err, sql.ErrNoRows) {
		return session, fmt.Errorf("%w: %q", ErrNoSession, key)
	}
	return session, explain(err)
}

func scanSession(row interface{ Scan(...any) error }) (s Session, err error) {
	var created, used int64
	err = row.Scan(&s.Key, &s.Place, &created, &s.Conversations, &s.Messages, &s.Tokens, &s.Active, &used, &s.Waiting)
	s.CreatedAt, s.UsedAt = fromMillis(created), fromMillis(used)
	return s, err
}

// containing is the pattern of LIKE for whatever has the text in it.
func containing(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// Find gives the conversation whose ID begins so, of any session. The error is
// ErrNotFound when there is none, and says so when there are several.
func (s *Store) Find(ctx context.Context, id string) (Conversation, error) {
	var found []Conversation
	id = strings.ToLower(id)
	rows, err := s.readers.QueryContext(ctx, selectConversations+`
		WHERE c.uuid >= ?1 AND c.uuid < ?1 || 'g' AND c.deleted = 0 ORDER BY c.uuid LIMIT 2`, id) // g comes after every hexadecimal digit and the hyphen
	if err != nil {
		return Conversation{}, explain(err)
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
		return Conversation{}, explain(rows.Err())
	case len(found) == 0 || id == "":
		return Conversation{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	case len(found) > 1:
		return Conversation{}, fmt.Errorf("several conversations have an id that begins with %q: give more of it", id)
	}
	return found[0], nil
}
