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

// Account is a channel as one bot of its platform serves it. Bots of a platform
// may number their messages alike, so a message is known by channel, account and
// source id, and what came to one bot is answered by that bot alone.
type Account struct {
	Channel string
	ID      string // the platform's id of the bot, "7000001"; "" where the channel has no bots, or the id is not known
}

// String is "telegram:7000001", or the channel alone.
func (a Account) String() string {
	if a.ID == "" {
		return a.Channel
	}
	return a.Channel + ":" + a.ID
}

// Serves reports whether a process that serves the account works what came to
// another: the same one, or one of the channel whose id, or that of a, is not
// known.
func (a Account) Serves(other Account) bool {
	return a.Channel == other.Channel && (a.ID == "" || other.ID == "" || a.ID == other.ID)
}

// ofAccount is Serves as a condition on the column account, where the name of a
// parameter stands for the id of the one that serves.
func ofAccount(column, parameter string) string {
	return `(` + parameter + ` = '' OR ` + column + ` = '' OR ` + column + ` = ` + parameter + `)`
}

// servedBy is the condition that what the table has came to one of the accounts,
// with what stands for its question marks; none where none are named. Its plus
// is that of byAccount.
func servedBy(table string, accounts []Account) (condition string, args []any) {
	if len(accounts) == 0 {
		return "", nil
	}
	var each []string
	for _, a := range accounts {
		if a.ID == "" {
			each = append(each, `+`+table+`.channel = ?`)
			args = append(args, a.Channel)
			continue
		}
		each = append(each, `+`+table+`.channel = ? AND `+table+`.account IN ('', ?)`)
		args = append(args, a.Channel, a.ID)
	}
	return ` AND (` + strings.Join(each, ` OR `) + `)`, args
}

// Takeover is what a bot finds when it begins to serve its channel.
type Takeover struct {
	Former string  // id of the bot that served the channel last; "" when it was the same one, or there was none
	Left   []Queue // what waits for other bots of the channel
}

// BeginService says that a bot serves its channel from now on. Pairings of which
// nobody knows the bot are its own, unless another one is known: they were made
// before the store knew of bots.
func (s *Store) BeginService(ctx context.Context, a Account) (t Takeover, err error) {
	if a.ID == "" {
		return t, nil
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		t = Takeover{}
		err := tx.QueryRowContext(ctx, `
			SELECT account FROM channel_health WHERE channel = ? AND account <> '' ORDER BY changed_at DESC, account = ? DESC LIMIT 1`,
			a.Channel, a.ID).Scan(&t.Former)
		if errors.Is(err, sql.ErrNoRows) {
			err = adoptPairings(ctx, tx, a)
		}
		if t.Former == a.ID {
			t.Former = ""
		}
		return err
	})
	if err != nil {
		return t, err
	}
	queues, err := s.Queues(ctx)
	for _, q := range queues {
		if q.Channel == a.Channel && !a.Serves(Account{q.Channel, q.Account}) {
			t.Left = append(t.Left, q)
		}
	}
	return t, err
}

func adoptPairings(ctx context.Context, tx *sql.Tx, a Account) error {
	for _, statement := range []string{
		`UPDATE OR REPLACE pairings SET account = ?2 WHERE channel = ?1 AND account = ''`,
		`UPDATE OR REPLACE channel_health SET account = ?2 WHERE channel = ?1 AND account = ''`,
	} {
		if _, err := tx.ExecContext(ctx, statement, a.Channel, a.ID); err != nil {
			return err
		}
	}
	return nil
}

// Bot is a bot that has served its channel, or that something waits for.
type Bot struct {
	Account
	State   string    // as in Health, when it served last; "" where nobody knows
	Since   time.Time // of the state
	LetIn   int64     // people who were let in by a code
	Waiting int64     // inbound that no run has settled
	Due     int64     // deliveries to be sent
}

// Bots lists the bots by channel, those first that began to serve last.
func (s *Store) Bots(ctx context.Context) ([]Bot, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT channel, account, max(state), max(at), sum(let_in), sum(waiting), sum(due) FROM (
			SELECT channel, account, state, changed_at AS at, 0 AS let_in, 0 AS waiting, 0 AS due FROM channel_health
			UNION ALL
			SELECT channel, account, '', 0, 1, 0, 0 FROM pairings WHERE approved_at IS NOT NULL
			UNION ALL
			SELECT channel, account, '', 0, 0, 1, 0 FROM inbox WHERE run_id IS NULL AND note = 0
			UNION ALL
			SELECT channel, account, '', 0, 0, 0, 1 FROM outbox WHERE state = 'due')
		WHERE account <> '' GROUP BY channel, account ORDER BY channel, max(at) DESC, account`)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Bot
	for rows.Next() {
		var b Bot
		var at int64
		if err := rows.Scan(&b.Channel, &b.ID, &b.State, &at, &b.LetIn, &b.Waiting, &b.Due); err != nil {
			return nil, err
		}
		b.Since = db.FromMillis(at)
		list = append(list, b)
	}
	return list, db.Explain(rows.Err())
}

// ErrNoBot says that a bot has never served, and that nothing waits for it.
var ErrNoBot = errors.New("no such bot")

// ReleaseBot lets whichever bot serves the channel answer and send what waits for
// another one. It gives what that is. The error is ErrNoBot when nobody knows the
// bot.
func (s *Store) ReleaseBot(ctx context.Context, a Account) (released Queue, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		released = Queue{Channel: a.Channel, Account: a.ID}
		var known bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM channel_health WHERE channel = ? AND account = ?)`, a.Channel, a.ID).Scan(&known)
		if err != nil {
			return err
		}
		for _, step := range []struct {
			statement string
			count     *int64
		}{
			// One of the same number may be there, of a bot that nobody knows.
			{`UPDATE OR IGNORE inbox SET account = '' WHERE run_id IS NULL AND note = 0 AND +channel = ? AND account = ?`, &released.Waiting},
			{`UPDATE outbox SET account = '' WHERE state = 'due' AND channel = ? AND account = ?`, &released.Due},
		} {
			result, err := tx.ExecContext(ctx, step.statement, a.Channel, a.ID)
			if err != nil {
				return err
			}
			if *step.count, err = result.RowsAffected(); err != nil {
				return err
			}
		}
		if !known && released.Waiting+released.Due == 0 {
			return fmt.Errorf("%w: %s", ErrNoBot, a)
		}
		return nil
	})
	return released, err
}
