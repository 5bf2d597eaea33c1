package retention

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"parley/conversation/internal/db"
)

// Deletion can't be undone, so age is not judged by the machine's clock alone, which may be
// wrong. The database counts the total running time of gateways by the monotonic clock. The
// difference between the machine's clock and this count is the offset. For each of the last
// hours of running time, the database keeps the lowest offset. The trusted present is the
// running time plus the lowest offset of the last clockHold, but never later than the machine's
// clock.
//
// At a start, a clock that was put forward can't be distinguished from a time in which no
// gateway ran. Either is accepted only after gateways have run for another clockHold. A clock
// that was put back, also to correct it, is accepted at once.

// clockHold is how long gateways must run before deletion uses a clock that was put forward:
// long enough for the operator to notice.
const clockHold = 24 * time.Hour

// Clock compares the machine's clock with the one that deletion uses.
type Clock struct {
	Machine time.Time     // the machine's clock
	Trusted time.Time     // the present by which age is judged, never after Machine
	Jumped  time.Duration // how far the machine's clock has gone ahead of the monotonic clock since the last stored reading of this process; negative = it has fallen behind
}

// Held returns by how much the trusted time is behind the machine's clock.
func (c Clock) Held() time.Duration { return c.Machine.Sub(c.Trusted) }

// clockRow is the newest row of the table clock, in milliseconds.
type clockRow struct {
	ran    int64 // the total running time of gateways
	wall   int64 // the machine's clock at that running time
	lowest int64 // the lowest offset in the hour of the row
}

func (r clockRow) offset() int64 { return r.wall - r.ran }
func (r clockRow) hour() int64   { return r.ran / time.Hour.Milliseconds() }

// clockReading is a reading of the clocks of this process.
type clockReading struct {
	wall   time.Time
	uptime time.Duration
}

// storedReading is a reading that this process has stored. The zero value means that it has
// stored none.
type storedReading struct {
	clockReading
	ran, wall int64 // the newest clockRow at that time
	stored    bool
}

// clockWatch holds the last stored reading. mu lets only one call at a time read the clocks.
type clockWatch struct {
	mu   sync.Mutex
	last storedReading
}

func (r *Retention) readClocks() clockReading { return clockReading{r.now(), r.uptime()} }

// LookAtClock adds the time since the last call to the running time in the database, and
// returns the clock. A gateway calls it every few minutes. If several gateways use one
// database, only one of them adds its time; when it ends, another takes over.
func (r *Retention) LookAtClock(ctx context.Context) (c Clock, err error) {
	return r.lookAtClock(ctx, false)
}

// TrustClock makes the database accept the machine's clock as correct at once.
func (r *Retention) TrustClock(ctx context.Context) error {
	_, err := r.lookAtClock(ctx, true)
	return err
}

// Clock returns what LookAtClock would return, and stores nothing.
func (r *Retention) Clock(ctx context.Context) (Clock, error) {
	r.clock.mu.Lock()
	defer r.clock.mu.Unlock()
	now := r.readClocks()
	_, trusted, err := nextClockRow(ctx, r.db, r.clock.last, now)
	return r.clock.last.compare(now, trusted), db.Explain(err)
}

func (r *Retention) lookAtClock(ctx context.Context, trust bool) (c Clock, err error) {
	r.clock.mu.Lock()
	defer r.clock.mu.Unlock()
	now := r.readClocks()
	var row clockRow
	var trusted int64
	err = r.db.Write(ctx, func(ctx context.Context, tx db.Tx) (err error) {
		if row, trusted, err = nextClockRow(ctx, tx, r.clock.last, now); err != nil {
			return err
		}
		if trust {
			row.wall, trusted = db.Millis(now.wall), db.Millis(now.wall)
			row.lowest = row.offset()
			if _, err := tx.ExecContext(ctx, `DELETE FROM clock`); err != nil {
				return err
			}
		}
		return storeClockRow(ctx, tx, row)
	})
	if err != nil {
		return c, err
	}
	c = r.clock.last.compare(now, trusted)
	r.clock.last = storedReading{now, row.ran, row.wall, true}
	return c, nil
}

// compare returns the Clock for a reading and the trusted time, which is in milliseconds.
func (last storedReading) compare(now clockReading, trusted int64) Clock {
	c := Clock{Machine: db.FromMillis(db.Millis(now.wall)), Trusted: db.FromMillis(trusted)}
	if last.stored {
		c.Jumped = time.Duration(db.Millis(now.wall)-db.Millis(last.clockReading.wall))*time.Millisecond - (now.uptime - last.uptime)
	}
	return c
}

// nextClockRow returns the row that follows the newest one, and the trusted present in
// milliseconds. The time since the last stored reading counts only if no other process has
// stored a row since. Otherwise that process counts it, or did until this one began, and the
// newest row is returned unchanged.
func nextClockRow(ctx context.Context, q db.Querier, last storedReading, now clockReading) (row clockRow, trusted int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT ran, wall, lowest FROM clock ORDER BY hour DESC LIMIT 1`).Scan(&row.ran, &row.wall, &row.lowest)
	fresh := errors.Is(err, sql.ErrNoRows)
	if err != nil && !fresh {
		return row, 0, err
	}
	if row.ran == last.ran && row.wall == last.wall {
		if fresh {
			if row.wall, err = newestRecord(ctx, q, db.Millis(now.wall)); err != nil {
				return row, 0, err
			}
		}
		before := row.offset()
		row.ran, row.wall = row.ran+(now.uptime-last.uptime).Milliseconds(), db.Millis(now.wall)
		row.lowest = min(before, row.offset()) // the old offset held until now
	}
	var lowest int64
	err = q.QueryRowContext(ctx, `SELECT coalesce(min(lowest), ?1) FROM clock WHERE hour >= ?2`, row.lowest, row.hour()-holdHours).Scan(&lowest)
	return row, min(row.ran+min(lowest, row.lowest), db.Millis(now.wall)), err
}

// holdHours is how many whole hours before the present one count for the lowest offset.
const holdHours = int64(clockHold / time.Hour)

func storeClockRow(ctx context.Context, tx db.Tx, row clockRow) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO clock (hour, ran, wall, lowest) VALUES (?, ?, ?, ?)
		ON CONFLICT (hour) DO UPDATE SET ran = excluded.ran, wall = excluded.wall, lowest = CASE WHEN excluded.lowest < clock.lowest THEN excluded.lowest ELSE clock.lowest END`,
		row.hour(), row.ran, row.wall, row.lowest)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM clock WHERE hour < ?`, row.hour()-holdHours)
	}
	return err
}

// newestRecord returns the time of the newest run or else conversation, in milliseconds, for a
// database that has no clock yet. It returns now if there is neither.
func newestRecord(ctx context.Context, q db.Querier, now int64) (ms int64, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT coalesce((SELECT ended_at FROM runs ORDER BY id DESC LIMIT 1), (SELECT max(updated_at) FROM conversations), ?)`, now).Scan(&ms)
	return ms, err
}
