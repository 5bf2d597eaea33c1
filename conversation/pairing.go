package conversation

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/conversation/internal/db"
)

// Pairing is a person who asked to be let in, or was.
type Pairing struct {
	Channel    string
	Account    string // the platform's id of the bot that they asked; "" where it is not known: then every one
	UserID     string // the platform's
	Name       string // as the platform shows it
	Code       string // what the operator approves, "K7QM-2XWD"; "" once approved
	AskedAt    time.Time
	ExpiresAt  time.Time // of the code
	ApprovedAt time.Time // zero while it is asked for
}

const (
	pairingLife = time.Hour // of a code
	maxAsking   = 10_000    // codes of a bot that may be open at once; more than channels gives out within pairingLife
)

// AskPairing gives somebody who is a stranger to a bot a code. Whoever has one
// that is still good keeps it: fresh says that it was made now. Beyond 10,000 open
// codes of a bot, the oldest makes room.
func (s *Store) AskPairing(ctx context.Context, of Account, user, name string) (p Pairing, fresh bool, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := s.now()
		p, err = scanPairing(tx.QueryRowContext(ctx, selectPairings+ofPerson+` ORDER BY approved_at IS NULL, expires_at DESC LIMIT 1`, of.Channel, of.ID, user))
		if fresh = errors.Is(err, sql.ErrNoRows) || err == nil && p.ApprovedAt.IsZero() && !now.Before(p.ExpiresAt); !fresh {
			return err
		}
		// Nothing is kept of those whose codes have expired.
		_, err = tx.ExecContext(ctx, `DELETE FROM pairings WHERE channel = ? AND code IS NOT NULL AND expires_at <= ?`, of.Channel, db.Millis(now))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			DELETE FROM pairings WHERE id IN (
				SELECT id FROM pairings WHERE channel = ? AND account = ? AND code IS NOT NULL ORDER BY id DESC LIMIT -1 OFFSET ?)`, of.Channel, of.ID, maxAsking-1)
		if err != nil {
			return err
		}
		p = Pairing{
			Channel: of.Channel, Account: of.ID, UserID: user, Name: db.Text(name), Code: pairingCode(), AskedAt: now, ExpiresAt: now.Add(pairingLife),
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO pairings (channel, account, user_id, name, code, asked_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			of.Channel, of.ID, user, p.Name, p.Code, db.Millis(p.AskedAt), db.Millis(p.ExpiresAt))
		return err
	})
	return p, fresh, err
}

// Codes are 40 bits of Crockford's alphabet, in which no two letters look alike:
// https://www.crockford.com/base32.html
const codeLetters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

func pairingCode() string {
	raw := make([]byte, 8)
	rand.Read(raw) // never fails: https://pkg.go.dev/crypto/rand#Read
	for i, b := range raw {
		raw[i] = codeLetters[b%32]
	}
	return string(raw[:4]) + "-" + string(raw[4:])
}

// readCode is a code as people type it: in any case, without the hyphen, with
// the letters that look like digits.
func readCode(text string) string {
	text = strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1").Replace(strings.ToUpper(text))
	if len(text) != 8 {
		return text
	}
	return text[:4] + "-" + text[4:]
}

// ErrNoPairing says that no open code, or nobody let in, fits.
var ErrNoPairing = errors.New("no such pairing")

// ApprovePairing lets in who has the code. The error is ErrNoPairing when no
// code fits, or when it has expired.
func (s *Store) ApprovePairing(ctx context.Context, code string) (p Pairing, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now, code := db.Millis(s.now()), readCode(code)
		p, err = scanPairing(tx.QueryRowContext(ctx, selectPairings+`WHERE code = ? AND expires_at > ?`, code, now))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: the code %q is unknown or has expired", ErrNoPairing, code)
		}
		if err != nil {
			return err
		}
		p.Code, p.ApprovedAt = "", db.FromMillis(now)
		_, err = tx.ExecContext(ctx, `UPDATE pairings SET code = NULL, approved_at = ? WHERE code = ?`, now, code)
		return err
	})
	return p, err
}

// RevokePairing takes back the approvals and open codes of a person: with one
// bot, or with every one of the channel where none is named. It gives what it took
// back. The error is ErrNoPairing when there is nothing.
func (s *Store) RevokePairing(ctx context.Context, of Account, user string) (revoked []Pairing, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		revoked, err = readPairings(ctx, tx, selectPairings+ofPerson+` ORDER BY account`, of.Channel, of.ID, user)
		if err == nil && len(revoked) == 0 {
			err = fmt.Errorf("%w: %s has nobody with the id %q", ErrNoPairing, of, user)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM pairings `+ofPerson, of.Channel, of.ID, user)
		}
		return err
	})
	return revoked, err
}

// Pairings lists the open codes and who was let in, the newest first.
func (s *Store) Pairings(ctx context.Context) ([]Pairing, error) {
	list, err := readPairings(ctx, s.db, selectPairings+`WHERE code IS NULL OR expires_at > ? ORDER BY asked_at DESC, id DESC`, db.Millis(s.now()))
	return list, db.Explain(err)
}

func readPairings(ctx context.Context, q db.Querier, query string, args ...any) ([]Pairing, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Pairing
	for rows.Next() {
		p, err := scanPairing(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// IsPaired reports whether a person was let in with a bot.
func (s *Store) IsPaired(ctx context.Context, of Account, user string) (bool, error) {
	var paired bool
	err := s.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM pairings `+ofPerson+` AND approved_at IS NOT NULL)`, of.Channel, of.ID, user).Scan(&paired)
	return paired, db.Explain(err)
}

// ofPerson are the pairings of the person ?3 with the bot ?2 of the channel ?1.
var ofPerson = `WHERE channel = ?1 AND user_id = ?3 AND ` + ofAccount("account", "?2")

const selectPairings = `SELECT channel, account, user_id, name, coalesce(code, ''), asked_at, expires_at, coalesce(approved_at, 0) FROM pairings `

func scanPairing(row interface{ Scan(...any) error }) (Pairing, error) {
	var p Pairing
	var asked, expires, approved int64
	err := row.Scan(&p.Channel, &p.Account, &p.UserID, &p.Name, &p.Code, &asked, &expires, &approved)
	p.AskedAt, p.ExpiresAt, p.ApprovedAt = db.FromMillis(asked), db.FromMillis(expires), db.FromMillis(approved)
	return p, err
}
