// Package budgets keeps what model calls use within caps for each day: of tokens and of money,
// by person, by session and in total. A call is reserved before it is made, and what it has used
// takes the place of the reservation. While anything under way may reach a cap, further calls
// wait, so that all together pass it by one call at most. The calls of a process that dies count
// as what they were expected to use: the model's server may have made them.
package budgets

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Scope is whose use is capped.
type Scope string

// The scopes of caps.
const (
	Person  Scope = "person"
	Session Scope = "session"
	Total   Scope = "total"
)

// Unit is what is capped.
type Unit string

// The units of caps.
const (
	Tokens Unit = "tokens"
	Cost   Unit = "cost"
)

// Cap is the most that may be used in a day.
type Cap struct {
	Scope Scope
	Unit  Unit
	Most  int64 // see Amount
}

// Amount is what calls use.
type Amount struct {
	Tokens int64
	Cost   int64 // billionths of the currency of the prices
}

// Add adds another amount.
func (a *Amount) Add(o Amount) { a.Tokens, a.Cost = a.Tokens+o.Tokens, a.Cost+o.Cost }

func (a Amount) of(unit Unit) int64 {
	if unit == Cost {
		return a.Cost
	}
	return a.Tokens
}

// Money returns a sum of money in billionths.
func Money(sum float64) int64 { return int64(math.Round(min(sum*1e9, math.MaxInt64/4))) }

// Call is a model call that is to be made.
type Call struct {
	Person    string           // "telegram:42"; "" = nobody
	Session   conversation.Key // "" = none
	Estimate  Amount           // estimate of what the call will use
	Unlimited bool             // it is counted, and never refused
	Unseen    bool             // nobody would see a warning: the next call warns

	Weight int64 // part of this person in a call for several; 0 counts as 1
}

// Split returns the parts of an amount for calls, by their weights.
func (a Amount) Split(calls []Call) (parts []Amount) {
	weights := make([]int64, len(calls))
	for i, call := range calls {
		weights[i] = max(call.Weight, 1)
	}
	tokens, cost := conversation.Split(a.Tokens, weights), conversation.Split(a.Cost, weights)
	for i := range calls {
		parts = append(parts, Amount{tokens[i], cost[i]})
	}
	return parts
}

// owner returns whose use in a scope the call is. There is none without a person or a session.
func (c Call) owner(scope Scope) (owner string, is bool) {
	switch scope {
	case Person:
		return c.Person, c.Person != ""
	case Session:
		return string(c.Session), c.Session != ""
	}
	return "", true
}

// Budgets reserves model calls and adds up what they use. It is safe for concurrent use.
type Budgets struct {
	db   *db.DB
	now  func() time.Time
	caps []Cap
	zone *time.Location

	process string // the name of this process in the database, which is locked while it lives
	release func()

	mu    sync.Mutex
	ended chan struct{} // closed when a reservation ends
}

// Open returns the budgets of a store, nil if no cap is set. It counts what was reserved by
// processes that have died.
func Open(ctx context.Context, store *conversation.Store, c Config) (*Budgets, error) {
	zone, err := c.Zone()
	if err != nil || !c.HasCaps() {
		return nil, err
	}
	b := &Budgets{db: store.DB(), now: store.Now, caps: c.caps(), zone: zone, process: "budget:" + rand.Text(), ended: make(chan struct{})}
	if err := b.countDead(ctx); err != nil {
		return nil, fmt.Errorf("count old reservations of budgets: %w", err)
	}
	if b.release, err = b.db.Lock(b.process); err != nil {
		return nil, fmt.Errorf("lock the budgets of this process: %w", err)
	}
	return b, nil
}

// Close gives up the name of this process.
func (b *Budgets) Close() {
	if b != nil {
		b.release()
	}
}

// countDead counts the reservations of other processes that hold no lock any more.
func (b *Budgets) countDead(ctx context.Context) error {
	processes, err := db.Column[string](b.db.QueryContext(ctx, `SELECT DISTINCT process FROM budget_reservations WHERE process <> ?`, b.process))
	if err != nil {
		return db.Explain(err)
	}
	var dead []string
	for _, process := range processes {
		if release, err := b.db.Lock(process); err == nil {
			release()
			dead = append(dead, process)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return b.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		for _, process := range dead {
			if err := b.count(ctx, tx, `process = ?`, process); err != nil {
				return err
			}
		}
		return nil
	})
}

// count deletes the reservations that a condition selects and counts them as used.
func (b *Budgets) count(ctx context.Context, tx db.Tx, condition string, args ...any) error {
	rows, err := tx.QueryContext(ctx, `DELETE FROM budget_reservations WHERE `+condition+` RETURNING day, person, session, tokens, cost`, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var days []string
	var ended []Call
	for rows.Next() {
		day, call := "", Call{Unseen: true}
		if err := rows.Scan(&day, &call.Person, &call.Session, &call.Estimate.Tokens, &call.Estimate.Cost); err != nil {
			return err
		}
		days, ended = append(days, day), append(ended, call)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for i, call := range ended {
		if _, err := b.addAll(ctx, tx, days[i], call, call.Estimate); err != nil {
			return err
		}
	}
	return nil
}

// Reservation is what a call under way may use.
type Reservation struct {
	day   string
	calls []Call
	ids   []int64 // of the rows, one for each of calls
}

const (
	// maxCall is how long a reservation counts: longer than a call takes.
	maxCall = 15 * time.Minute
	// recheck is how often a call that waits looks for the end of other processes' calls.
	recheck = 500 * time.Millisecond
)

// Reserve reserves a call, of which each of the given ones has a part if it is made for several people in one session. While calls
// under way may use what is left, it waits for them. The error is a *Refused when a cap is reached.
func (b *Budgets) Reserve(ctx context.Context, calls ...Call) (*Reservation, error) {
	for {
		ended := b.nextEnd()
		r, err := b.try(ctx, calls)
		if r != nil || err != nil {
			return r, err
		}
		timer := time.NewTimer(recheck)
		select {
		case <-ended:
		case <-timer.C:
			err = b.countDead(ctx) // which end no call
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// nextEnd returns a channel that is closed when the next reservation ends.
func (b *Budgets) nextEnd() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// keepName locks the name of this process again if its node was declared dead and has joined anew. ok is false while another
// process has it, which counts the old reservations.
func (b *Budgets) keepName() (ok bool, err error) {
	if b.db.Node() == nil {
		return true, nil
	}
	release, err := b.db.Lock(b.process)
	if held := (*db.HeldError)(nil); errors.As(err, &held) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	release() // the lock of Open stays
	return true, nil
}

// try reserves a call, and returns nil if it has to wait.
func (b *Budgets) try(ctx context.Context, calls []Call) (r *Reservation, err error) {
	if ok, err := b.keepName(); err != nil || !ok {
		return nil, err
	}
	err = b.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		r = nil
		now := b.now()
		day := dayOf(now, b.zone)
		if err := b.count(ctx, tx, `expires_at <= ?`, db.Millis(now)); err != nil {
			return err
		}
		var whole Amount
		for _, call := range calls {
			whole.Add(call.Estimate)
		}
		for _, call := range calls {
			if call.Unlimited {
				continue
			}
			if err := b.lockCaps(ctx, tx, call, day); err != nil {
				return err
			}
			if fits, err := b.fits(ctx, tx, call, whole, day, now); err != nil || !fits {
				return err
			}
		}
		made := &Reservation{day: day, calls: calls}
		for _, call := range calls {
			id, err := db.Insert(ctx, tx, `
				INSERT INTO budget_reservations (process, day, person, session, tokens, cost, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
				b.process, day, call.Person, string(call.Session), call.Estimate.Tokens, call.Estimate.Cost, db.Millis(now.Add(maxCall)))
			if err != nil {
				return err
			}
			made.ids = append(made.ids, id)
		}
		r = made
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// lockCaps keeps other nodes from reserving calls under the same caps until the transaction ends. SQLite has one writer.
func (b *Budgets) lockCaps(ctx context.Context, tx db.Tx, call Call, day string) error {
	for _, scope := range []Scope{Person, Session, Total} {
		owner, is := call.owner(scope)
		if !is || !slices.ContainsFunc(b.caps, func(c Cap) bool { return c.Scope == scope }) {
			continue
		}
		_, err := tx.ExecContext(ctx, db.Either(`SELECT ?1, ?2, ?3`, `INSERT INTO budget_days (day, scope, owner, tokens, cost) VALUES (?1, ?2, ?3, 0, 0)
			ON CONFLICT (day, scope, owner) DO UPDATE SET tokens = budget_days.tokens`), day, scope, owner)
		if err != nil {
			return err
		}
	}
	return nil
}

// fits reports whether a call fits beside what is used and reserved. One that is alone may use
// what is left and more; the error is a *Refused when nothing is left. whole is the estimate of the
// call for all people, which sessions and the total count.
func (b *Budgets) fits(ctx context.Context, tx db.Tx, call Call, whole Amount, day string, now time.Time) (bool, error) {
	fits := true
	for _, c := range b.caps {
		owner, is := call.owner(c.Scope)
		if !is {
			continue
		}
		used, err := usedOn(ctx, tx, day, c.Scope, owner)
		if err != nil {
			return false, err
		}
		if used.of(c.Unit) >= c.Most {
			return false, &Refused{Use{Cap: c, Used: used.of(c.Unit), Reset: nextDay(now, b.zone)}, now}
		}
		reserved, calls, err := reservedOn(ctx, tx, day, c.Scope, owner)
		if err != nil {
			return false, err
		}
		estimate := whole
		if c.Scope == Person {
			estimate = call.Estimate
		}
		if calls > 0 && used.of(c.Unit)+reserved.of(c.Unit)+estimate.of(c.Unit) > c.Most {
			fits = false
		}
	}
	return fits, nil
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// usedOn returns what was used on a day.
func usedOn(ctx context.Context, q querier, day string, scope Scope, owner string) (a Amount, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0) FROM budget_days WHERE day = ? AND scope = ? AND owner = ?`,
		day, scope, owner).Scan(&a.Tokens, &a.Cost)
	return a, err
}

// reservedOn returns what is reserved on a day, by how many calls.
func reservedOn(ctx context.Context, q querier, day string, scope Scope, owner string) (a Amount, calls int, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0), count(*) FROM budget_reservations
		WHERE day = ?1 AND CASE ?2 WHEN 'person' THEN person = ?3 WHEN 'session' THEN session = ?3 ELSE true END`,
		day, scope, owner).Scan(&a.Tokens, &a.Cost, &calls)
	return a, calls, err
}

// endTimeout is how long the end of a reservation may take, also while the gateway ends.
const endTimeout = 5 * time.Second

// End puts what a call has used in the place of its reservation. It returns the caps of which
// now most is used, each once a day.
func (b *Budgets) End(ctx context.Context, r *Reservation, used Amount) (warnings []Use, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	defer b.announce()
	err = b.db.Write(ctx, func(ctx context.Context, tx db.Tx) (err error) {
		warnings = nil
		for i, part := range used.Split(r.calls) {
			over, err := b.end(ctx, tx, r.ids[i], r.day, r.calls[i], part)
			if err != nil {
				return err
			}
			warnings = append(warnings, over...)
		}
		return nil
	})
	return warnings, err
}

// end puts the part of one person in the place of its reservation.
func (b *Budgets) end(ctx context.Context, tx db.Tx, id int64, day string, call Call, used Amount) (warnings []Use, err error) {
	n, err := db.Changed(tx.ExecContext(ctx, `DELETE FROM budget_reservations WHERE id = ? AND process = ?`, id, b.process))
	if err != nil {
		return nil, err
	}
	if n == 0 { // it was counted, since it took too long
		used.Add(Amount{-call.Estimate.Tokens, -call.Estimate.Cost})
	}
	if used == (Amount{}) {
		return nil, nil
	}
	if warnings, err = b.addAll(ctx, tx, day, call, used); err != nil {
		return nil, err
	}
	return warnings, b.forget(ctx, tx)
}

// addAll adds what a call has used in each scope, and returns what is to be warned of.
func (b *Budgets) addAll(ctx context.Context, tx db.Tx, day string, call Call, used Amount) (warnings []Use, err error) {
	for _, scope := range []Scope{Person, Session, Total} {
		if owner, is := call.owner(scope); is {
			over, err := b.add(ctx, tx, day, scope, owner, used, call.Unseen)
			if err != nil {
				return nil, err
			}
			warnings = append(warnings, over...)
		}
	}
	return warnings, nil
}

// announce wakes the calls that wait.
func (b *Budgets) announce() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ended)
	b.ended = make(chan struct{})
}

// warnAt is the part of a cap, in percent, at which people are warned.
const warnAt = 80

// add adds what a call has used, and returns what is to be warned of.
func (b *Budgets) add(ctx context.Context, tx db.Tx, day string, scope Scope, owner string, used Amount, unseen bool) (warnings []Use, err error) {
	var sum Amount
	var warned bool
	err = tx.QueryRowContext(ctx, `
		INSERT INTO budget_days (day, scope, owner, tokens, cost) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (day, scope, owner) DO UPDATE SET tokens = budget_days.tokens + excluded.tokens, cost = budget_days.cost + excluded.cost
		RETURNING tokens, cost, warned`, day, scope, owner, used.Tokens, used.Cost).Scan(&sum.Tokens, &sum.Cost, &warned)
	if err != nil || warned || unseen {
		return nil, err
	}
	for _, c := range b.caps {
		if n := sum.of(c.Unit); c.Scope == scope && float64(n)*100 >= float64(c.Most)*warnAt {
			warnings = append(warnings, Use{Cap: c, Used: n, Reset: nextDay(b.now(), b.zone)})
		}
	}
	if len(warnings) > 0 {
		_, err = tx.ExecContext(ctx, `UPDATE budget_days SET warned = 1 WHERE day = ? AND scope = ? AND owner = ?`, day, scope, owner)
	}
	return warnings, err
}

// keepDays is for how many days the sums are kept.
const keepDays = 62

func (b *Budgets) forget(ctx context.Context, tx db.Tx) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM budget_days WHERE day < ?`, dayOf(b.now().AddDate(0, 0, -keepDays), b.zone))
	return err
}

// Use is how much of a cap is used.
type Use struct {
	Cap
	Used  int64
	Reset time.Time // when the next day begins

	named bool // More names the time zone of Reset
}

// In returns the use with the time of its reset in the time zone of a person, which its words name
// where it has another time than that of the budgets. Without a zone it is the same.
func (u Use) In(zone *time.Location) Use {
	if zone != nil {
		_, before := u.Reset.Zone()
		u.Reset = u.Reset.In(zone)
		_, now := u.Reset.Zone()
		u.named = u.named || now != before
	}
	return u
}

// Of returns how much of the caps is used today by a person and in a session, and in total.
func (b *Budgets) Of(ctx context.Context, person string, session conversation.Key) ([]Use, error) {
	now, call := b.now(), Call{Person: person, Session: session}
	var list []Use
	for _, c := range b.caps {
		owner, is := call.owner(c.Scope)
		if !is {
			continue
		}
		used, err := usedOn(ctx, b.db, dayOf(now, b.zone), c.Scope, owner)
		if err != nil {
			return nil, db.Explain(err)
		}
		list = append(list, Use{Cap: c, Used: used.of(c.Unit), Reset: nextDay(now, b.zone)})
	}
	return list, nil
}

// Owner is who has used most of a cap.
type Owner struct {
	Use
	Name string // see Call.Person and Call.Session; "" for the total
}

// Most returns for each cap who has used most of it today, at most so many for each.
func (b *Budgets) Most(ctx context.Context, limit int) ([]Owner, error) {
	now := b.now()
	var list []Owner
	for _, c := range b.caps {
		found, err := b.most(ctx, c, now, limit)
		if err != nil {
			return nil, db.Explain(err)
		}
		list = append(list, found...)
	}
	return list, nil
}

func (b *Budgets) most(ctx context.Context, c Cap, now time.Time, limit int) ([]Owner, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT owner, tokens, cost FROM budget_days WHERE day = ? AND scope = ?`, dayOf(now, b.zone), c.Scope)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Owner
	for rows.Next() {
		var used Amount
		o := Owner{Use: Use{Cap: c, Reset: nextDay(now, b.zone)}}
		if err := rows.Scan(&o.Name, &used.Tokens, &used.Cost); err != nil {
			return nil, err
		}
		o.Used = used.of(c.Unit)
		list = append(list, o)
	}
	if len(list) == 0 {
		list = append(list, Owner{Use: Use{Cap: c, Reset: nextDay(now, b.zone)}})
	}
	slices.SortFunc(list, func(x, y Owner) int { return cmp.Or(cmp.Compare(y.Used, x.Used), cmp.Compare(x.Name, y.Name)) })
	return list[:min(len(list), limit)], rows.Err()
}

// Refused says that a call is not made, since a cap is reached.
type Refused struct {
	Use
	At time.Time
}

func (r *Refused) Error() string {
	return fmt.Sprintf("budget of %s used up: %s of %s; more from %s", r.Scope, r.Unit.String(r.Used), r.Unit.String(r.Most), r.Reset.Format(time.RFC3339))
}

// LogValue returns a use for the log.
func (u Use) LogValue() slog.Value {
	return slog.GroupValue(slog.String("scope", string(u.Scope)), slog.String("unit", string(u.Unit)),
		slog.String("used", u.Unit.String(u.Used)), slog.String("cap", u.Unit.String(u.Most)), slog.Time("reset", u.Reset))
}

// Sums returns what an owner has used today and this month. They begin when the first cap was
// set.
func (b *Budgets) Sums(ctx context.Context, scope Scope, owner string) (today, month Amount, err error) {
	day := dayOf(b.now(), b.zone)
	if today, err = usedOn(ctx, b.db, day, scope, owner); err != nil {
		return today, month, db.Explain(err)
	}
	err = b.db.QueryRowContext(ctx, `
		SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0) FROM budget_days WHERE day >= ? AND scope = ? AND owner = ?`,
		day[:len("2006-01")]+"-01", scope, owner).Scan(&month.Tokens, &month.Cost)
	return today, month, db.Explain(err)
}
