package conversation

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"parley/conversation/internal/db"
)

// Account is a channel as one bot of its platform serves it. Bots of a platform
// may number their messages alike, so a message is known by channel, account and
// source id, and what came to one bot is answered by that bot alone.
type Account struct {
	Channel string
	ID      string // the platform's id of the bot, "7000001"; "" where the channel has no bots, or the id is not known
}

// String returns the channel and the bot, "telegram:7000001", or the channel alone.
func (a Account) String() string {
	if a.ID == "" {
		return a.Channel
	}
	return a.Channel + ":" + a.ID
}

// Serves reports whether a process that serves a also handles the messages and replies of
// other: both have the same channel, and the same bot unless the id of one is not known.
func (a Account) Serves(other Account) bool {
	return a.Channel == other.Channel && (a.ID == "" || other.ID == "" || a.ID == other.ID)
}

// ofAccount returns Serves as an SQL condition on a column with the bot's id. parameter is
// the SQL parameter with the id of the serving bot.
func ofAccount(column, parameter string) string {
	return `(` + parameter + ` = '' OR ` + column + ` = '' OR ` + column + ` = ` + parameter + `)`
}

// servedBy returns the SQL condition that rows of a table belong to one of the accounts, with
// its arguments. It returns "" if no accounts are given.
func servedBy(table string, accounts []Account) (condition string, args []any) {
	if len(accounts) == 0 {
		return "", nil
	}
	var each []string
	for _, a := range accounts {
		if a.ID == "" {
			each = append(each, unindexed+table+`.channel = ?`)
			args = append(args, a.Channel)
			continue
		}
		each = append(each, unindexed+table+`.channel = ? AND `+table+`.account IN ('', ?)`)
		args = append(args, a.Channel, a.ID)
	}
	return ` AND (` + strings.Join(each, ` OR `) + `)`, args
}

// Destination is where a reply goes.
type Destination struct {
	Channel string
	Account string // the platform's id of the bot that sends it, as of the inbound
	Address string // read only by the adapter that wrote it
	Run     int64  // number of the run that the reply is of
}

// Scope is the part of the work that one process does: the messages and replies of a channel,
// of one of its bots, or of one session.
type Scope struct {
	Channel string
	Account string // the platform's id of the bot; "" = every one
	Key     Key    // "" = every session
}

// By returns the account that works the scope.
func (s Scope) By() Account { return Account{s.Channel, s.Account} }

// Waiting is a session with inbound that no run has settled.
type Waiting struct {
	Key     Key
	Inbound []Revision // the waiting inbound, in order of arrival; nil if the database is damaged there
}

// Revision names an inbound as it was after a number of edits.
type Revision struct {
	Inbound int64 // ID of the inbound
	Edits   int
}

// Waiting lists the sessions in scope with inbound that no run has settled, for example after
// a restart. It leaves out deferred inbound, see package deferred.
func (s *Store) Waiting(ctx context.Context, scope Scope) ([]Waiting, error) {
	list, err := s.waiting(ctx, scope)
	if !IsDamaged(err) {
		return list, err
	}
	keys, err := s.readableKeys(ctx, `SELECT DISTINCT session_id FROM inbox`+db.Either(` INDEXED BY inbox_waiting`, ``)+` WHERE run_id IS NULL`, scope)
	list = nil
	for _, key := range keys {
		list = append(list, Waiting{Key: key})
	}
	return list, err
}

func (s *Store) waiting(ctx context.Context, scope Scope) (list []Waiting, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT s.key, i.id, i.revision FROM inbox i JOIN sessions s ON s.id = i.session_id
		WHERE i.run_id IS NULL AND i.deferred_since IS NULL AND i.note = 0 AND i.channel = ?1 AND `+ofAccount("i.account", "?3")+` AND (?2 = '' OR s.key = ?2) ORDER BY s.id, i.id`,
		scope.Channel, string(scope.Key), scope.Account)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key Key
		var in Revision
		if err := rows.Scan(&key, &in.Inbound, &in.Edits); err != nil {
			return nil, db.Explain(err)
		}
		if len(list) == 0 || list[len(list)-1].Key != key {
			list = append(list, Waiting{Key: key})
		}
		last := &list[len(list)-1]
		last.Inbound = append(last.Inbound, in)
	}
	return list, db.Explain(rows.Err())
}

// Due lists the sessions in scope that have deliveries to be sent.
func (s *Store) Due(ctx context.Context, scope Scope) ([]Key, error) {
	keys, err := s.keys(ctx, `SELECT DISTINCT session_id FROM outbox WHERE state = 'due' AND `+byAccount, scope)
	if IsDamaged(err) {
		return s.readableKeys(ctx, `SELECT DISTINCT session_id FROM outbox`+db.Either(` INDEXED BY outbox_due`, ``)+` WHERE state = 'due'`, scope)
	}
	return keys, err
}

// readableKeys returns the keys of the sessions that can be read, of every channel. The
// caller finds no work in those of other channels.
func (s *Store) readableKeys(ctx context.Context, sessions string, scope Scope) (keys []Key, err error) {
	ids, err := db.Column[int64](s.db.QueryContext(ctx, sessions))
	if err != nil {
		return nil, db.Explain(err)
	}
	for _, id := range ids {
		var key Key
		err := s.db.QueryRowContext(ctx, `SELECT key FROM sessions WHERE id = ? AND (?2 = '' OR key = ?2)`, id, string(scope.Key)).Scan(&key)
		switch {
		case err == nil:
			keys = append(keys, key)
		case !errors.Is(err, sql.ErrNoRows) && !IsDamaged(err):
			return nil, db.Explain(err)
		}
	}
	return keys, nil
}

// unindexed keeps SQLite from using an index for the column behind it. By the unique index of
// messages it would read all rows of a channel. Waiting rows are few and have an index of their own.
var unindexed = db.Either(`+`, ``)

// byAccount is the SQL condition that a row is in a scope with the channel ?1 and the bot ?3.
var byAccount = unindexed + `channel = ?1 AND ` + ofAccount("account", "?3")

func (s *Store) keys(ctx context.Context, sessions string, scope Scope) ([]Key, error) {
	keys, err := db.Column[Key](s.db.QueryContext(ctx, `
		SELECT key FROM sessions WHERE id IN (`+sessions+`) AND (?2 = '' OR key = ?2) ORDER BY id`,
		scope.Channel, string(scope.Key), scope.Account))
	return keys, db.Explain(err)
}
