package conversation

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Pairing is a person who asked to be let in, or was.
type Pairing struct {
	Channel    string
	UserID     string // the platform's
	Name       string // as the platform shows it
	Code       string // what the operator approves, "K7QM-2XWD"; "" once approved
	AskedAt    time.Time
	ExpiresAt  time.Time // of the code
	ApprovedAt time.Time // zero while it is asked for
}

const (
	pairingLife = time.Hour // of a code
	maxAsking   = 10_000    // codes of a channel that may be open at once; more than channels gives out within pairingLife
)

// AskPairing gives a stranger a code. Whoever has one that is still good keeps
// it: fresh says that it was made now. Beyond 10,000 open codes of a channel, the
// oldest makes room.
func (s *Store) AskPairing(ctx context.Context, channel, user, name string) (p Pairing, fresh bool, err error) {
	err = s.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := s.now()
		p, err = scanPairing(tx.QueryRowContext(ctx, selectPairings+`WHERE channel = ? AND user_id = ?`, channel, user))
		if fresh = errors.Is(err, sql.ErrNoRows) || err == nil && p.ApprovedAt.IsZero() && !now.Before(p.ExpiresAt); !fresh {
			return err
		}
		// Nothing is kept of those whose codes have expired.
		_, err = tx.ExecContext(ctx, `DELETE FROM pairings WHERE channel = ? AND code IS NOT NULL AND expires_at <= ?`, channel, millis(now))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			DELETE FROM pairings WHERE id IN (
				SELECT id FROM pairings WHERE channel = ? AND code IS NOT NULL ORDER BY id DESC LIMIT -1 OFFSET ?)`, channel, maxAsking-1)
		if err != nil {
			return err
		}
		p = Pairing{Channel: channel, UserID: user, Name: storable(name), Code: pairingCode(), AskedAt: now, ExpiresAt: now.Add(pairingLife)}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO pairings (channel, user_id, name, code, asked_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)`,
			channel, user, p.Name, p.Code, millis(p.AskedAt), millis(p.ExpiresAt))
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
	err = s.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := millis(s.now())
		p, err = scanPairing(tx.QueryRowContext(ctx, selectPairings+`WHERE code = ? AND expires_at > ?`, readCode(code), now))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: the code %q is unknown or has expired", ErrNoPairing, code)
		}
		if err != nil {
			return err
		}
		p.Code, p.ApprovedAt = "", fromMillis(now)
		_, err = tx.ExecContext(ctx, `UPDATE pairings SET code = NULL, approved_at = ? WHERE channel = ? AND user_id = ?`, now, p.Channel, p.UserID)
		return err
	})
	return p, err
}

// RevokePairing takes back an approval, or an open code, of a person.
func (s *Store) RevokePairing(ctx context.Context, channel, user string) (p Pairing, err error) {
	err = s.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		p, err = scanPairing(tx.QueryRowContext(ctx, selectPairings+`WHERE channel = ? AND user_id = ?`, channel, user))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: %s has nobody with the id %q", ErrNoPairing, channel, user)
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM pairings WHERE channel = ? AND user_id = ?`, channel, user)
		return err
	})
	return p, err
}

// Pairings lists the open codes and who was let in, the newest first.
func (s *Store) Pairings(ctx context.Context) ([]Pairing, error) {
	rows, err := s.readers.QueryContext(ctx, selectPairings+`WHERE code IS NULL OR expires_at > ? ORDER BY asked_at DESC, id DESC`, millis(s.now()))
	if err != nil {
		return nil, explain(err)
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
	return list, explain(rows.Err())
}

// IsPaired reports whether a person was let in.
func (s *Store) IsPaired(ctx context.Context, channel, user string) (bool, error) {
	var paired bool
	err := s.readers.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM pairings WHERE channel = ? AND user_id = ? AND approved_at IS NOT NULL)`, channel, user).Scan(&paired)
	return paired, explain(err)
}

const selectPairings = `SELECT channel, user_id, name, coalesce(code, ''), asked_at, expires_at, coalesce(approved_at, 0) FROM pairings `

func scanPairing(row interface{ Scan(...any) error }) (Pairing, error) {
	var p Pairing
	var asked, expires, approved int64
	err := row.Scan(&p.Channel, &p.UserID, &p.Name, &p.Code, &asked, &expires, &approved)
	p.AskedAt, p.ExpiresAt, p.ApprovedAt = fromMillis(asked), fromMillis(expires), fromMillis(approved)
	return p, err
}
