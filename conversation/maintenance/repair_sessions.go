package maintenance

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"parley/conversation"
)

// mendSessions adds the sessions that others refer to and whose rows are lost:
// the index knows their keys.
func (r *repair) mendSessions(ctx context.Context) error {
	missing, err := firstColumn(ctx, r.tx, `
		SELECT session_id FROM (SELECT session_id FROM conversations UNION SELECT session_id FROM runs
			UNION SELECT session_id FROM inbox UNION SELECT session_id FROM outbox)
		WHERE session_id NOT IN (SELECT id FROM sessions)`)
	if err != nil {
		return err
	}
	wanted := map[int64]bool{}
	for _, text := range missing {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		wanted[id] = true
	}
	for id, s := range r.tally.sessions {
		wanted[id] = wanted[id] || !s.row && s.key != ""
	}
	for id, c := range r.tally.conversations {
		if !c.row && len(c.found) > 0 {
			if c.session == 0 {
				if err := r.findSession(ctx, id, c); err != nil {
					return err
				}
			}
			wanted[c.session] = wanted[c.session] || r.tally.sessions[c.session] == nil
		}
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[id] {
			if err := r.addSession(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// findSession finds the session of a conversation through its runs.
func (r *repair) findSession(ctx context.Context, id int64, c *conversationTally) error {
	err := r.tx.QueryRowContext(ctx, `
		SELECT r.session_id FROM messages m JOIN runs r ON r.id = m.run_id AND r.conversation_id = m.conversation_id
		WHERE m.conversation_id = ? AND m.run_id > 0 LIMIT 1`, id).Scan(&c.session)
	if errors.Is(err, sql.ErrNoRows) {
		c.session = unknownSession
		return nil
	}
	return err
}

// unknownSession is the id of a session made for what belongs to none that is
// known. No session has it: SQLite gives ids from 1 on.
const unknownSession = math.MaxInt32

func (r *repair) addSession(ctx context.Context, id int64) error {
	s := r.tally.session(id)
	if s.key == "" {
		s.key = conversation.Key(fmt.Sprintf("cli:recovered-%d", id))
		r.unnamed++
	}
	channel, _, _ := strings.Cut(string(s.key), ":")
	return r.exec(ctx, `
		INSERT OR IGNORE INTO sessions (id, key, channel, created_at)
		VALUES (?1, ?2, ?3, coalesce((SELECT min(created_at) FROM conversations WHERE session_id = ?1), (SELECT min(started_at) FROM runs WHERE session_id = ?1), ?4))`,
		id, string(s.key), channel, time.Now().UnixMilli())
}

// mendConversations adds conversations whose rows are lost, as far as their messages
// or an index show them. One of them is active only if its session has no other active
// conversation.
func (r *repair) mendConversations(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(r.tally.conversations)) {
		c := r.tally.conversations[id]
		if c.row || c.deleted != 0 || len(c.found) == 0 && c.session == 0 {
			continue
		}
		if c.uuid == "" {
			fresh, err := uuid.NewV7()
			if err != nil {
				return err
			}
			c.uuid = fresh.String()
		}
		session := cmp.Or(c.session, unknownSession)
		if err := r.addSession(ctx, session); err != nil {
			return err
		}
		_, last := c.bounds()
		err := r.exec(ctx, `
			INSERT OR IGNORE INTO conversations (id, uuid, session_id, active, messages, tokens, created_at, updated_at)
			SELECT ?1, ?2, ?3, ?4 AND NOT EXISTS (SELECT 1 FROM conversations WHERE session_id = ?3 AND active = 1), ?5,
				coalesce(sum(tokens), 0), coalesce(min(created_at), ?6), coalesce(max(created_at), ?6)
			FROM messages WHERE conversation_id = ?1`, id, c.uuid, session, c.active, max(last, c.messages), time.Now().UnixMilli())
		if err != nil {
			return err
		}
		if err := r.count(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// bounds returns the first and the last message that can be read.
func (c *conversationTally) bounds() (first, last int64) {
	for _, s := range c.found {
		if first == 0 || s.first < first {
			first = s.first
		}
		last = max(last, s.last)
	}
	return first, last
}

// count stores the state of a conversation with the number of its turns.
func (r *repair) count(ctx context.Context, id int64) error {
	if r.version < 4 { // a later migration does it
		return nil
	}
	return r.exec(ctx, `
		UPDATE conversations SET state = (
			SELECT json_object('turns', coalesce(sum(role = 'user' AND before IS NOT 'user'), 0),
				'asked', json(CASE WHEN max(CASE WHEN behind IS NULL THEN role = 'user' END) THEN 'true' ELSE 'false' END))
			FROM (SELECT role, lag(role) OVER (ORDER BY seq) AS before, lead(role) OVER (ORDER BY seq) AS behind
				FROM messages WHERE conversation_id = ?1 AND internal = 0 AND state NOT IN ('replaced', 'undone')))
		WHERE id = ?1`, id)
}

// countAll creates a state for all conversations that lost theirs.
func (r *repair) countAll(ctx context.Context) error {
	ids, err := firstColumn(ctx, r.tx, `SELECT id FROM conversations WHERE state IS NULL AND messages > 0`)
	for _, text := range ids {
		id, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			err = r.count(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return err
}
