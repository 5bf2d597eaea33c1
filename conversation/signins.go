package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"parley/conversation/internal/db"
)

// SignIns says which browsers are signed in, and keeps the codes that sign one
// in. All ids and codes are hashes that the caller made: what is stored here
// lets nobody in.
type SignIns struct{ store *Store }

// SignIns returns the part of the store that keeps who is signed in.
func (s *Store) SignIns() SignIns { return SignIns{s} }

// The newest of each kind are kept. Nobody adds one who may not see everything.
const (
	maxSignIns     = 1000
	maxSignInCodes = 100
)

// Add stores that the browser with this id is signed in until then.
func (s SignIns) Add(ctx context.Context, id string, until time.Time) error {
	return s.store.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return addSignIn(ctx, tx, id, s.store.now(), until)
	})
}

func addSignIn(ctx context.Context, tx *sql.Tx, id string, now, until time.Time) error {
	_, err := tx.ExecContext(ctx, `
		DELETE FROM signins WHERE expires_at <= ?1 OR id IN (
			SELECT id FROM signins ORDER BY created_at DESC LIMIT -1 OFFSET ?2)`, db.Millis(now), maxSignIns-1)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO signins (id, created_at, expires_at) VALUES (?, ?, ?)`, id, db.Millis(now), db.Millis(until))
	return err
}

// Has reports whether the browser with this id is signed in.
func (s SignIns) Has(ctx context.Context, id string) (bool, error) {
	var has bool
	err := s.store.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM signins WHERE id = ? AND expires_at > ?)`,
		id, db.Millis(s.store.now())).Scan(&has)
	return has, db.Explain(err)
}

// End signs the browser with this id out for good.
func (s SignIns) End(ctx context.Context, id string) error {
	return s.store.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM signins WHERE id = ?`, id)
		return err
	})
}

// AddCode stores a code that signs one browser in until then.
func (s SignIns) AddCode(ctx context.Context, code string, until time.Time) error {
	return s.store.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := db.Millis(s.store.now())
		_, err := tx.ExecContext(ctx, `
			DELETE FROM signin_codes WHERE expires_at <= ?1 OR hash IN (
				SELECT hash FROM signin_codes ORDER BY created_at DESC LIMIT -1 OFFSET ?2)`, now, maxSignInCodes-1)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO signin_codes (hash, created_at, expires_at) VALUES (?, ?, ?)`, code, now, db.Millis(until))
		return err
	})
}

// Redeem takes a code, which is good once, and signs in the browser with this
// id until then. It reports whether the code was good.
func (s SignIns) Redeem(ctx context.Context, code, id string, until time.Time) (bool, error) {
	// A guess costs no write.
	var good bool
	err := s.store.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM signin_codes WHERE hash = ?)`, code).Scan(&good)
	if err != nil || !good {
		return false, db.Explain(err)
	}
	err = s.store.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := s.store.now()
		result, err := tx.ExecContext(ctx, `DELETE FROM signin_codes WHERE hash = ? AND expires_at > ?`, code, db.Millis(now))
		if err != nil {
			return err
		}
		taken, err := result.RowsAffected()
		if good = taken > 0; err != nil || !good {
			return err
		}
		return addSignIn(ctx, tx, id, now, until)
	})
	return good && err == nil, err
}

// HTTPServer is the HTTP server of the gateway that works on the database.
type HTTPServer struct {
	URLs  []string // under which people find it, with a slash at the end; the first from its own machine
	Token TokenOrigin
}

// TokenOrigin is where the token of an HTTP server comes from.
type TokenOrigin string

const (
	TokenMade       TokenOrigin = "made"       // by the gateway, in a file beside the database
	TokenConfigured TokenOrigin = "configured" // by the operator
	TokenNone       TokenOrigin = "none"       // it asks for none
)

// Serve stores which server takes codes from now on. Earlier codes are void.
func (s SignIns) Serve(ctx context.Context, server HTTPServer) error {
	urls, err := json.Marshal(server.URLs)
	if err != nil {
		return err
	}
	return s.store.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM signin_codes`); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO http_server (id, urls, token, started_at) VALUES (1, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET urls = excluded.urls, token = excluded.token, started_at = excluded.started_at`,
			string(urls), server.Token, db.Millis(s.store.now()))
		return err
	})
}

// Server returns what Serve has stored last. The error is ErrNotFound when
// nothing was served yet; whether the process still lives, DaemonPID says.
func (s SignIns) Server(ctx context.Context) (HTTPServer, error) {
	var server HTTPServer
	var urls string
	err := s.store.db.QueryRowContext(ctx, `SELECT urls, token FROM http_server`).Scan(&urls, &server.Token)
	if errors.Is(err, sql.ErrNoRows) {
		return server, ErrNotFound
	}
	if err != nil {
		return server, db.Explain(err)
	}
	return server, json.Unmarshal([]byte(urls), &server.URLs)
}
