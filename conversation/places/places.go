// Package places keeps track of places that move. A platform may give a place another
// id, as Telegram does when a group becomes a supergroup. The session keeps its key, so
// that no run or delivery is disturbed, in this process or another. Messages that are
// written in the place under its new key belong to the session from then on, with the new
// key as their origin.
package places

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/wordindex"
)

// Places stores which places have moved.
type Places struct {
	db  *db.DB
	now func() time.Time
}

// New returns the places of a store.
func New(store *conversation.Store) *Places { return &Places{store.DB(), store.Now} }

// Moved is the result of MovePlace.
type Moved struct {
	IsNew      bool // the move was not stored before
	OwnSession bool // the place had a session of its own, whose content AdoptPlace gives to the session that it belongs to now
}

// MovePlace stores that the place from is to be found at to. Messages that Accept
// takes for to belong to the session of from; replies that are due there, and
// messages that wait, get the address that readdress gives for theirs. It must
// return other addresses as they are.
//
// It may be called again and again, and at any time. Keys of different channels
// are ErrInvalid.
func (p *Places) MovePlace(ctx context.Context, from, to conversation.Key, readdress func(address string) string) (moved Moved, err error) {
	if from.Channel() != to.Channel() || from == to {
		return moved, fmt.Errorf("%w: %s can't move to %s", conversation.ErrInvalid, from, to)
	}
	err = p.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		moved, err = movePlace(ctx, tx, from, to, readdress, db.Millis(p.now()))
		if err != nil {
			return fmt.Errorf("move %s to %s: %w", from, to, err)
		}
		return nil
	})
	return moved, err
}

func movePlace(ctx context.Context, tx db.Tx, from, to conversation.Key, readdress func(string) string, now int64) (moved Moved, err error) {
	session, err := rows.SessionOf(ctx, tx, string(from))
	if err != nil || session == string(to) { // which moved to from before: one of the two is out of date
		return moved, err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO moved_places (place, former, session, moved_at) VALUES (?, ?, ?, ?) ON CONFLICT (place) DO NOTHING`,
		string(to), string(from), session, now)
	if err != nil {
		return moved, err
	}
	added, err := result.RowsAffected()
	if err == nil {
		err = rows.HoldPlace(ctx, tx, string(to))
	}
	if err != nil {
		return moved, err
	}
	if moved.IsNew = added > 0; moved.IsNew { // also for places that had moved to this one before
		if _, err := tx.ExecContext(ctx, `UPDATE moved_places SET session = ? WHERE session = ?`, session, string(to)); err != nil {
			return moved, err
		}
	}
	if err := moveTalk(ctx, tx, string(to), session); err != nil {
		return moved, err
	}
	for _, those := range []struct{ table, which string }{{"inbox", "run_id IS NULL"}, {"outbox", "state = 'due'"}, {"outbox", "state = 'failed'"}} {
		if err := readdressRows(ctx, tx, those.table, those.which, session, readdress); err != nil {
			return moved, err
		}
	}
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sessions WHERE key = ?)`, string(to)).Scan(&moved.OwnSession)
	return moved, err
}

// readdressRows changes the addresses in those rows of a table that belong to the
// session.
func readdressRows(ctx context.Context, tx db.Tx, table, which, session string, readdress func(string) string) error {
	rows, err := tx.QueryContext(ctx, `
		SELECT id, address FROM `+table+` WHERE session_id = (SELECT id FROM sessions WHERE key = ?) AND `+which, session)
	if err != nil {
		return err
	}
	defer rows.Close()
	moved := map[int64]string{}
	for rows.Next() {
		var id int64
		var address string
		if err := rows.Scan(&id, &address); err != nil {
			return err
		}
		if now := readdress(address); now != address {
			moved[id] = now
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for id, address := range moved {
		if _, err := tx.ExecContext(ctx, `UPDATE `+table+` SET address = ? WHERE id = ?`, address, id); err != nil {
			return err
		}
	}
	return nil
}

// FormerPlaces lists the keys that a place had before it moved, the latest first.
func (p *Places) FormerPlaces(ctx context.Context, place conversation.Key) ([]conversation.Key, error) {
	list, err := db.Column[conversation.Key](p.db.QueryContext(ctx, `
		WITH RECURSIVE before (place, n) AS (
			SELECT former, 1 FROM moved_places WHERE place = ?
			UNION ALL SELECT m.former, n + 1 FROM before b JOIN moved_places m ON m.place = b.place WHERE n < ?)
		SELECT place FROM before ORDER BY n`, string(place), maxMoves))
	return list, db.Explain(err)
}

// maxMoves bounds the walk back over the moves of one place.
const maxMoves = 20

// OwnSessions lists the places that belong to another session since they moved,
// and still have conversations, waiting messages or reminders in one of their own.
func (p *Places) OwnSessions(ctx context.Context, channel string) ([]conversation.Key, error) {
	list, err := db.Column[conversation.Key](p.db.QueryContext(ctx, `
		SELECT m.place FROM moved_places m JOIN sessions s ON s.key = m.place
		WHERE m.session <> m.place AND s.channel = ? AND (
			EXISTS (SELECT 1 FROM conversations c WHERE c.session_id = s.id)
			OR EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = s.id AND i.run_id IS NULL)
			OR EXISTS (SELECT 1 FROM reminders r WHERE r.session_id = s.id))
		ORDER BY m.moved_at, m.place`, channel))
	return list, db.Explain(err)
}

// PlaceName returns what people call a place, "" where nobody said.
func (p *Places) PlaceName(ctx context.Context, place conversation.Key) (name string, err error) {
	session, err := rows.SessionOf(ctx, p.db, string(place))
	if err == nil {
		err = p.db.QueryRowContext(ctx, `SELECT place FROM sessions WHERE key = ?`, session).Scan(&name)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return name, db.Explain(err)
}

// AdoptPlace moves waiting messages, conversations, reminders and tools that are always allowed, which a place has in a
// session of its own, from before the move was known, to the session that the place belongs
// to. If that session has an active conversation, those of the place are archived. The reminders
// get new numbers. A run under way goes on there, and its questions can be answered there. A model, an agent and a pin of the place's own session go along where the other has none.
// Replies on their way are not moved. The caller holds the lock of the place's own
// session, and wakes the session that adopted it, whose key is returned, or "" if
// there was nothing to move.
func (p *Places) AdoptPlace(ctx context.Context, place conversation.Key) (session conversation.Key, err error) {
	err = p.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		session, err = adoptPlace(ctx, tx, place, db.Millis(p.now()))
		if err != nil {
			return fmt.Errorf("adopt %s: %w", place, err)
		}
		return nil
	})
	return session, err
}

func adoptPlace(ctx context.Context, tx db.Tx, place conversation.Key, now int64) (conversation.Key, error) {
	session, err := rows.SessionOf(ctx, tx, string(place))
	if err != nil || session == string(place) {
		return "", err
	}
	var own int64
	err = tx.QueryRowContext(ctx, `SELECT id FROM sessions WHERE key = ?`, string(place)).Scan(&own)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	into, _, err := rows.EnterSession(ctx, tx, session, "", now)
	if err != nil {
		return "", err
	}
	if err := wordindex.MoveSession(ctx, tx, own, into); err != nil {
		return "", err
	}
	for _, statement := range []string{
		`UPDATE inbox SET session_id = ?2, origin = coalesce(origin, ?3) WHERE session_id = ?1 AND run_id IS NULL`,
		`UPDATE conversations SET active = 0 WHERE session_id = ?1 AND EXISTS (SELECT 1 FROM conversations WHERE session_id = ?2 AND active = 1)`,
		`UPDATE runs SET session_id = ?2 WHERE conversation_id IN (SELECT id FROM conversations WHERE session_id = ?1)`,
		`UPDATE conversations SET session_id = ?2 WHERE session_id = ?1`,
		`UPDATE appends AS a SET session_id = ?2 WHERE session_id = ?1 AND NOT EXISTS (SELECT 1 FROM appends o WHERE o.session_id = ?2 AND o.source_id = a.source_id)`,
		`INSERT INTO unread_files (file_id) SELECT id FROM files WHERE session_id = ?1 AND message_id IS NOT NULL AND blob_id IS NOT NULL
			ON CONFLICT (file_id) DO UPDATE SET page = -1`,
		`UPDATE files SET session_id = ?2 WHERE session_id = ?1`,
		`UPDATE journals SET session_id = ?2 WHERE session_id = ?1`,
		`UPDATE approvals SET session_id = ?2 WHERE session_id = ?1`,
		`UPDATE session_approvals AS a SET session_id = ?2 WHERE session_id = ?1 AND NOT EXISTS (SELECT 1 FROM session_approvals o WHERE o.session_id = ?2 AND o.tool = a.tool)`,
		`UPDATE reminders SET session_id = ?2, number = number + (SELECT coalesce(max(number), 0) FROM reminders WHERE session_id = ?2) WHERE session_id = ?1`,
		`UPDATE sessions AS s SET metadata = coalesce(s.metadata, own.metadata), model = coalesce(nullif(s.model, ''), own.model),
				agent = coalesce(nullif(s.agent, ''), own.agent), pinned = CASE WHEN s.pinned = 0 THEN own.pinned ELSE s.pinned END
			FROM sessions AS own WHERE own.id = ?1 AND s.id = ?2`,
		`UPDATE sessions SET metadata = NULL, model = NULL, agent = NULL, pinned = 0 WHERE id = ?1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, own, into, string(place)); err != nil {
			return "", err
		}
	}
	return conversation.Key(session), moveTalk(ctx, tx, string(place), session)
}

// moveTalk gives the session the group talk that was stored for the place before the move was known.
func moveTalk(ctx context.Context, tx db.Tx, place, session string) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE group_talk AS t SET session = ?1 WHERE session = ?2 AND NOT EXISTS (SELECT 1 FROM group_talk o WHERE o.session = ?1 AND o.source_id = t.source_id)`, session, place)
	return err
}
