package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/conversation/internal/db"
)

// BoundName is a name that people can give up and others take, "@ada", bound to
// whoever used it first.
type BoundName struct {
	Channel string
	Name    string // "@ada", in lower case
	Holder  string // the platform's id of the account, or of the group
	BoundAt time.Time
}

// BindName binds a name of a channel to the holder that uses it now, unless it is
// bound already, and returns whom it is bound to. Names are bound for every
// process that opens the database, until ReleaseName.
func (s *Store) BindName(ctx context.Context, channel, name, holder string) (bound string, err error) {
	name = strings.ToLower(name)
	if bound, err = boundTo(ctx, s.db, channel, name); !errors.Is(err, sql.ErrNoRows) {
		return bound, db.Explain(err)
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO bound_names (channel, name, holder, bound_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (channel, name) DO NOTHING`, channel, name, holder, db.Millis(s.now()))
		if err == nil { // another process may have been first
			bound, err = boundTo(ctx, tx, channel, name)
		}
		return err
	})
	return bound, err
}

func boundTo(ctx context.Context, q db.Querier, channel, name string) (holder string, err error) {
	err = q.QueryRowContext(ctx, `SELECT holder FROM bound_names WHERE channel = ? AND name = ?`, channel, name).Scan(&holder)
	return holder, err
}

// ErrNotBound says that a name is bound to nobody.
var ErrNotBound = errors.New("the name is bound to nobody")

// ReleaseName makes a name free again: whoever uses it next holds it. It returns
// who held it; ErrNotBound when nobody did.
func (s *Store) ReleaseName(ctx context.Context, channel, name string) (released BoundName, err error) {
	name = strings.ToLower(name)
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		released, err = scanBoundName(tx.QueryRowContext(ctx, selectBoundNames+`WHERE channel = ? AND name = ?`, channel, name))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: %q of %s", ErrNotBound, name, channel)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM bound_names WHERE channel = ? AND name = ?`, channel, name)
		}
		return err
	})
	return released, err
}

// BoundNames lists the names that are bound, by channel and name.
func (s *Store) BoundNames(ctx context.Context) ([]BoundName, error) {
	rows, err := s.db.QueryContext(ctx, selectBoundNames+`ORDER BY channel, name`)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []BoundName
	for rows.Next() {
		b, err := scanBoundName(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, db.Explain(rows.Err())
}

const selectBoundNames = `SELECT channel, name, holder, bound_at FROM bound_names `

func scanBoundName(row interface{ Scan(...any) error }) (b BoundName, err error) {
	var at int64
	err = row.Scan(&b.Channel, &b.Name, &b.Holder, &at)
	b.BoundAt = db.FromMillis(at)
	return b, err
}
