package pairing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/conversation/internal/db"
)

// BoundName is a name on a platform that is bound to an account or a group.
type BoundName struct {
	Channel string
	Name    string // in lower case, "@ada"
	Holder  string // the platform's id of the account or group
	BoundAt time.Time
}

// ErrNotBound says that a name is not bound.
var ErrNotBound = errors.New("the name is bound to nobody")

// BindName binds a name of a channel to a holder, unless it is bound already, and returns the holder that it is bound to. A
// name stays bound, for all processes, until ReleaseName.
func (p *Pairings) BindName(ctx context.Context, channel, name, holder string) (bound string, err error) {
	name = strings.ToLower(name)
	if bound, err = holderOf(ctx, p.db, channel, name); !errors.Is(err, sql.ErrNoRows) {
		return bound, db.Explain(err)
	}
	err = p.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO bound_names (channel, name, holder, bound_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (channel, name) DO NOTHING`, channel, name, holder, db.Millis(p.now()))
		if err == nil { // another process may have been first
			bound, err = holderOf(ctx, tx, channel, name)
		}
		return err
	})
	return bound, err
}

func holderOf(ctx context.Context, q db.Querier, channel, name string) (holder string, err error) {
	err = q.QueryRowContext(ctx, `SELECT holder FROM bound_names WHERE channel = ? AND name = ?`, channel, name).Scan(&holder)
	return holder, err
}

// ReleaseName unbinds a name, so that it can be bound again. It returns the former binding. The error is ErrNotBound if there
// is none.
func (p *Pairings) ReleaseName(ctx context.Context, channel, name string) (released BoundName, err error) {
	name = strings.ToLower(name)
	err = p.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
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

// BoundNames returns all bound names, ordered by channel and name.
func (p *Pairings) BoundNames(ctx context.Context) ([]BoundName, error) {
	rows, err := p.db.QueryContext(ctx, selectBoundNames+`ORDER BY channel, name`)
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
