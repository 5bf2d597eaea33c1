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
// wrong. The database counts the total running time of gateways by the monotonic clock. For
// each of the last hours of running time it keeps the lowest difference between the machine's
// clock and this count. The present is the running time plus the lowest difference of the
// last clockHold, and never later than the machine's clock.
//
// At a start, a clock that was put forward looks like a time in which no gateway ran. Both
// count only after gateways have run for another clockHold. A clock that goes back, or is
// corrected before that, counts at once.

// clockHold is how long gateways must run before deletion uses a clock that has gone ahead:
// long enough for the operator to notice.
const clockHold = 24 * time.Hour

// Clock is the time as the database knows it.
type Clock struct {
	Machine time.Time     // what the machine's clock says
	Trusted time.Time     // up to when the database has seen time pass, never after Machine
	Jumped  time.Duration // by how much the machine's clock has moved beside the monotonic one since this process looked last
}

// Held returns by how much deletion is held back.
func (c Clock) Held() time.Duration { return c.Machine.Sub(c.Trusted) }

// clockRow is the newest row of the table clock, in milliseconds.
type clockRow struct {
	ran    int64 // how long gateways have run in all
	wall   int64 // what the machine's clock said then
	lowest int64 // offset of the row's hour
}

func (r clockRow) offset() int64 { return r.wall - r.ran }
func (r clockRow) hour() int64   { return r.ran / time.Hour.Milliseconds() }

// clockReading is a reading of the clocks of this process.
type clockReading struct {
	wall   time.Time
	uptime time.Duration
}

// clockLook is the last reading of this process.
type clockLook struct {
	clockReading
	ran, wall int64 // of the newest row then; 0 when there was none
	looked    bool
}

// clockWatch guards the latest look, which only one call at a time may follow.
type clockWatch struct {
	mu   sync.Mutex
	last clockLook
}

func (r *Retention) readClocks() clockReading { return clockReading{r.now(), r.uptime()} }

// LookAtClock adds the time that has passed since the last call to the running time
// of the database, and returns the database's clock. A gateway calls it every few
// minutes. Of several gateways on one database, one counts; when it ends, another
// takes over.
func (r *Retention) LookAtClock(ctx context.Context) (c Clock, err error) {
	return r.lookAtClock(ctx, false)
}

// TrustClock makes the database accept the machine's clock as correct.
func (r *Retention) TrustClock(ctx context.Context) error {
	_, err := r.lookAtClock(ctx, true)
	return err
}

// Clock returns what LookAtClock would, and counts nothing.
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
	r.clock.last = clockLook{now, row.ran, row.wall, true}
	return c, nil
}

// compare returns the clock at a reading.
func (last clockLook) compare(now clockReading, trusted int64) Clock {
	c := Clock{Machine: db.FromMillis(db.Millis(now.wall)), Trusted: db.FromMillis(trusted)}
	if last.looked {
		c.Jumped = time.Duration(db.Millis(now.wall)-db.Millis(last.clockReading.wall))*time.Millisecond - (now.uptime - last.uptime)
	}
	return c
}

// nextClockRow returns the row that follows on the newest one, and what the
// database takes for the present. The time since the last look counts if nobody
// else has counted since: else another process does, or did until this one began.
func nextClockRow(ctx context.Context, q db.Querier, last clockLook, now clockReading) (row clockRow, trusted int64, err error) {
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
		row.lowest = min(before, row.offset()) // the time until now was the old offset's
	}
	var lowest int64
	err = q.QueryRowContext(ctx, `SELECT coalesce(min(lowest), ?1) FROM clock WHERE hour >= ?2`, row.lowest, row.hour()-holdHours).Scan(&lowest)
	return row, min(row.ran+min(lowest, row.lowest), db.Millis(now.wall)), err
}

// holdHours is how many whole hours before the present one are looked at.
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

// newestRecord returns when something was stored last, for a database that has no
// clock yet, or now for one in which nothing is.
func newestRecord(ctx context.Context, q db.Querier, now int64) (ms int64, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT coalesce((SELECT ended_at FROM runs ORDER BY id DESC LIMIT 1), (SELECT max(updated_at) FROM conversations), ?)`, now).Scan(&ms)
	return ms, err
}
