// Package pairing stores which people may talk to a bot in addition to those that the configuration allows.
//
// A stranger is told a code. When the operator approves the code, the person is paired with the bot. A name that the
// configuration allows, such as @ada, is bound to the first account that uses it, since people can give up names and others
// can take them.
package pairing

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Pairings stores pairings and bound names. It is safe for concurrent use, and other processes see a change at once.
type Pairings struct {
	db  *db.DB
	now func() time.Time
}

// New returns the pairings of a store.
func New(store *conversation.Store) *Pairings { return &Pairings{store.DB(), store.Now} }

// Pairing is a person who has been told a code, or who may talk to a bot.
type Pairing struct {
	Channel    string
	Account    string // the platform's id of the bot; "" = all bots of the channel, since the bot is not known
	UserID     string // the platform's id of the person
	Name       string // as the platform shows it
	Code       string // for the operator to approve, "K7QM-2XWD"; "" once approved
	AskedAt    time.Time
	ExpiresAt  time.Time // when the code expires
	ApprovedAt time.Time // zero if the code was not approved
}

const (
	codeLife = time.Hour // how long a code can be approved
	maxCodes = 10_000    // the maximum number of open codes of a bot; channels hand out fewer within codeLife
)

// ErrNotFound says that there is no such open code, or that the person has no pairing or open code.
var ErrNotFound = errors.New("no such pairing")

// Ask returns the pairing of a person with a bot. If there is none, or if the code has expired, Ask stores one with a new code,
// which is valid for an hour, and fresh is true. If the bot then has more than 10,000 open codes, the oldest are deleted.
func (p *Pairings) Ask(ctx context.Context, of conversation.Account, user, name string) (asked Pairing, fresh bool, err error) {
	err = p.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		now := p.now()
		asked, err = scanPairing(tx.QueryRowContext(ctx, selectPairings+ofPerson+` ORDER BY approved_at IS NULL, expires_at DESC LIMIT 1`, of.Channel, of.ID, user))
		if fresh = errors.Is(err, sql.ErrNoRows) || err == nil && asked.ApprovedAt.IsZero() && !now.Before(asked.ExpiresAt); !fresh {
			return err
		}
		// The data of people whose codes have expired is not kept.
		_, err = tx.ExecContext(ctx, `DELETE FROM pairings WHERE channel = ? AND code IS NOT NULL AND expires_at <= ?`, of.Channel, db.Millis(now))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			DELETE FROM pairings WHERE id IN (
				SELECT id FROM pairings WHERE channel = ? AND account = ? AND code IS NOT NULL ORDER BY id DESC LIMIT `+db.NoLimit+` OFFSET ?)`, of.Channel, of.ID, maxCodes-1)
		if err != nil {
			return err
		}
		asked = Pairing{
			Channel: of.Channel, Account: of.ID, UserID: user, Name: db.Text(name), Code: newCode(), AskedAt: now, ExpiresAt: now.Add(codeLife),
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO pairings (channel, account, user_id, name, code, asked_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			of.Channel, of.ID, user, asked.Name, asked.Code, db.Millis(asked.AskedAt), db.Millis(asked.ExpiresAt))
		return err
	})
	return asked, fresh, err
}

// codeLetters is Crockford's alphabet, in which no two characters look alike: https://www.crockford.com/base32.html
const codeLetters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// newCode returns a random code of 40 bits.
func newCode() string {
	raw := make([]byte, 8)
	rand.Read(raw) // never fails: https://pkg.go.dev/crypto/rand#Read
	for i, b := range raw {
		raw[i] = codeLetters[b%32]
	}
	return string(raw[:4]) + "-" + string(raw[4:])
}

// readCode returns the stored form of a code that somebody has typed: in upper case, with the hyphen, and with digits instead
// of the letters that look like them.
func readCode(text string) string {
	text = strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1").Replace(strings.ToUpper(text))
	if len(text) != 8 {
		return text
	}
	return text[:4] + "-" + text[4:]
}

// Approve pairs the person who was told a code, and returns the pairing. Case, spaces and hyphens of the code do not matter. The
// error is ErrNotFound if the code is unknown or has expired.
func (p *Pairings) Approve(ctx context.Context, code string) (approved Pairing, err error) {
	err = p.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		now, code := db.Millis(p.now()), readCode(code)
		approved, err = scanPairing(tx.QueryRowContext(ctx, selectPairings+`WHERE code = ? AND expires_at > ?`, code, now))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: the code %q is unknown or has expired", ErrNotFound, code)
		}
		if err != nil {
			return err
		}
		approved.Code, approved.ApprovedAt = "", db.FromMillis(now)
		_, err = tx.ExecContext(ctx, `UPDATE pairings SET code = NULL, approved_at = ? WHERE code = ?`, now, code)
		return err
	})
	return approved, err
}

// Revoke deletes the pairings and open codes of a person with a bot, or with all bots of the channel if of.ID is "". It returns
// what it has deleted. The error is ErrNotFound if there was nothing.
func (p *Pairings) Revoke(ctx context.Context, of conversation.Account, user string) (revoked []Pairing, err error) {
	err = p.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		revoked, err = readPairings(ctx, tx, selectPairings+ofPerson+` ORDER BY account`, of.Channel, of.ID, user)
		if err == nil && len(revoked) == 0 {
			err = fmt.Errorf("%w: %s has nobody with the id %q", ErrNotFound, of, user)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM pairings `+ofPerson, of.Channel, of.ID, user)
		}
		return err
	})
	return revoked, err
}

// List returns the pairings of people who are paired or have an open code. The ones that asked last come first.
func (p *Pairings) List(ctx context.Context) ([]Pairing, error) {
	list, err := readPairings(ctx, p.db, selectPairings+`WHERE code IS NULL OR expires_at > ? ORDER BY asked_at DESC, id DESC`, db.Millis(p.now()))
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

// Has reports whether a person is paired with a bot.
func (p *Pairings) Has(ctx context.Context, of conversation.Account, user string) (bool, error) {
	var paired bool
	err := p.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM pairings `+ofPerson+` AND approved_at IS NOT NULL)`, of.Channel, of.ID, user).Scan(&paired)
	return paired, db.Explain(err)
}

// ofPerson selects the pairings of the person ?3 with the bot ?2 of the channel ?1. As in conversation.Account.Serves, a bot with
// the unknown id "" matches any bot.
const ofPerson = `WHERE channel = ?1 AND user_id = ?3 AND (?2 = '' OR account = '' OR account = ?2)`

const selectPairings = `SELECT channel, account, user_id, name, coalesce(code, ''), asked_at, expires_at, coalesce(approved_at, 0) FROM pairings `

func scanPairing(row interface{ Scan(...any) error }) (Pairing, error) {
	var p Pairing
	var asked, expires, approved int64
	err := row.Scan(&p.Channel, &p.Account, &p.UserID, &p.Name, &p.Code, &asked, &expires, &approved)
	p.AskedAt, p.ExpiresAt, p.ApprovedAt = db.FromMillis(asked), db.FromMillis(expires), db.FromMillis(approved)
	return p, err
}
