// Package signin stores which browsers are signed in to the gateway's HTTP server, the one-time codes that sign a
// browser in, and which server takes them.
//
// All ids and codes are hashes that the caller computes: nothing that is stored here lets anybody in.
package signin

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// SignIns stores sign-ins. It is safe for concurrent use.
type SignIns struct {
	db       *db.DB
	now      func() time.Time
	isShared bool // several servers take sign-ins at the same time
}

// New returns the sign-ins of a store.
func New(store *conversation.Store) *SignIns {
	return &SignIns{store.DB(), store.Now, store.Node() != nil}
}

// How many of each kind are kept, the newest. Only somebody who may see everything can add one.
const (
	maxSignIns = 1000
	maxCodes   = 100
)

// Add stores that the browser with this id is signed in until a time.
func (s *SignIns) Add(ctx context.Context, id string, until time.Time) error {
	return s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		return add(ctx, tx, id, s.now(), until)
	})
}

func add(ctx context.Context, tx db.Tx, id string, now, until time.Time) error {
	_, err := tx.ExecContext(ctx, `
		DELETE FROM signins WHERE expires_at <= ?1 OR id IN (
			SELECT id FROM signins ORDER BY created_at DESC LIMIT `+db.NoLimit+` OFFSET ?2)`, db.Millis(now), maxSignIns-1)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO signins (id, created_at, expires_at) VALUES (?, ?, ?)`, id, db.Millis(now), db.Millis(until))
	return err
}

// Has reports whether the browser with this id is signed in.
func (s *SignIns) Has(ctx context.Context, id string) (bool, error) {
	var has bool
	err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM signins WHERE id = ? AND expires_at > ?)`,
		id, db.Millis(s.now())).Scan(&has)
	return has, db.Explain(err)
}

// End signs out the browser with this id for good.
func (s *SignIns) End(ctx context.Context, id string) error {
	return s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM signins WHERE id = ?`, id)
		return err
	})
}

// AddCode stores a code that signs in one browser, and lasts so long.
func (s *SignIns) AddCode(ctx context.Context, code string, lasts time.Duration) error {
	return s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		now := s.now()
		_, err := tx.ExecContext(ctx, `
			DELETE FROM signin_codes WHERE expires_at <= ?1 OR hash IN (
				SELECT hash FROM signin_codes ORDER BY created_at DESC LIMIT `+db.NoLimit+` OFFSET ?2)`, db.Millis(now), maxCodes-1)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO signin_codes (hash, created_at, expires_at) VALUES (?, ?, ?)`, code, db.Millis(now), db.Millis(now.Add(lasts)))
		return err
	})
}

// Redeem uses up a code and signs in the browser with this id until a time. It reports whether the code was valid; a
// code is valid once.
func (s *SignIns) Redeem(ctx context.Context, code, id string, until time.Time) (bool, error) {
	// An unknown code is refused by a read, so that guessing causes no writes.
	var valid bool
	err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM signin_codes WHERE hash = ?)`, code).Scan(&valid)
	if err != nil || !valid {
		return false, db.Explain(err)
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		now := s.now()
		result, err := tx.ExecContext(ctx, `DELETE FROM signin_codes WHERE hash = ? AND expires_at > ?`, code, db.Millis(now))
		if err != nil {
			return err
		}
		deleted, err := result.RowsAffected()
		if valid = deleted > 0; err != nil || !valid {
			return err
		}
		return add(ctx, tx, id, now, until)
	})
	return valid && err == nil, err
}

// Server is the HTTP server that people sign in to.
type Server struct {
	URLs  []string // where people find it, each with a slash at the end; the first works on the server's own machine
	Token TokenOrigin
}

// TokenOrigin is where the token of an HTTP server comes from.
type TokenOrigin string

const (
	TokenMade       TokenOrigin = "made"       // the gateway made the token, in a file beside the database
	TokenConfigured TokenOrigin = "configured" // the operator configured the token
	TokenNone       TokenOrigin = "none"       // the server asks for no token
)

// ErrNoServer says that no HTTP server has ever run on the database.
var ErrNoServer = errors.New("no HTTP server has run on this database")

// SetServer stores which server takes codes from now on. It deletes all earlier codes, unless other nodes of a cluster
// take them.
func (s *SignIns) SetServer(ctx context.Context, server Server) error {
	urls, err := json.Marshal(server.URLs)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		if !s.isShared {
			if _, err := tx.ExecContext(ctx, `DELETE FROM signin_codes`); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO http_server (id, urls, token, started_at) VALUES (1, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET urls = excluded.urls, token = excluded.token, started_at = excluded.started_at`,
			string(urls), server.Token, db.Millis(s.now()))
		return err
	})
}

// Server returns what SetServer has stored last, or ErrNoServer. Whether that server still runs is for
// conversation.DaemonPID to say.
func (s *SignIns) Server(ctx context.Context) (Server, error) {
	var server Server
	var urls string
	err := s.db.QueryRowContext(ctx, `SELECT urls, token FROM http_server`).Scan(&urls, &server.Token)
	if errors.Is(err, sql.ErrNoRows) {
		return server, ErrNoServer
	}
	if err != nil {
		return server, db.Explain(err)
	}
	return server, json.Unmarshal([]byte(urls), &server.URLs)
}
