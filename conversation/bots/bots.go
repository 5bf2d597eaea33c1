// Package bots stores which bots serve the channels, their health, what waits for each, and what happens to that when
// another bot takes over. A bot is known by its [conversation.Account]; a channel without bots, such as the terminal, is an
// account without an id.
package bots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Bots stores the bots of all channels. It is safe for concurrent use.
type Bots struct {
	db   *db.DB
	now  func() time.Time
	node func() int64 // the number of this process among the nodes of its database, 0 without others
}

// New returns the bots of a store.
func New(store *conversation.Store) *Bots {
	return &Bots{db: store.DB(), now: store.Now, node: func() int64 {
		if node := store.Node(); node != nil {
			return node.ID()
		}
		return 0
	}}
}

// Takeover describes what a bot finds when it begins to serve its channel.
type Takeover struct {
	Former string  // the id of the bot that served the channel before; "" if it was the same one, or if there was none
	Left   []Queue // what waits for other bots of the channel
}

// Begin stores that a bot serves its channel from now on. Pairings from before the store knew of bots become its own,
// unless another bot is known.
func (b *Bots) Begin(ctx context.Context, a conversation.Account) (t Takeover, err error) {
	if a.ID == "" {
		return t, nil
	}
	err = b.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
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
	queues, err := b.Queues(ctx)
	for _, q := range queues {
		if q.Channel == a.Channel && !a.Serves(conversation.Account{Channel: q.Channel, ID: q.Account}) {
			t.Left = append(t.Left, q)
		}
	}
	return t, err
}

func adoptPairings(ctx context.Context, tx db.Tx, a conversation.Account) error {
	for _, statement := range []string{
		`DELETE FROM pairings WHERE channel = ?1 AND account = ?2
			AND user_id IN (SELECT user_id FROM pairings WHERE channel = ?1 AND account = '')`,
		`UPDATE pairings SET account = ?2 WHERE channel = ?1 AND account = ''`,
		`DELETE FROM channel_health WHERE channel = ?1 AND account = ?2
			AND EXISTS (SELECT 1 FROM channel_health WHERE channel = ?1 AND account = '')`,
		`UPDATE channel_health SET account = ?2 WHERE channel = ?1 AND account = ''`,
	} {
		if _, err := tx.ExecContext(ctx, statement, a.Channel, a.ID); err != nil {
			return err
		}
	}
	return nil
}

// Bot is a bot that has served its channel, or that something waits for.
type Bot struct {
	conversation.Account
	State   string    // see Health.State, as of when the bot served last; "" = not known
	Since   time.Time // since when the bot is in this state
	LetIn   int64     // number of people who are paired with the bot
	Waiting int64     // inbound that no run has settled
	Due     int64     // deliveries to be sent
}

// List returns the bots ordered by channel, the one that began to serve last first.
func (b *Bots) List(ctx context.Context) ([]Bot, error) {
	rows, err := b.db.QueryContext(ctx, `
		SELECT channel, account, max(state), max(at), sum(let_in), sum(waiting), sum(due) FROM (
			SELECT channel, account, state, changed_at AS at, 0 AS let_in, 0 AS waiting, 0 AS due FROM `+db.Either(`channel_health`,
		`(SELECT DISTINCT ON (channel, account) * FROM channel_health ORDER BY channel, account, changed_at DESC) AS latest`)+`
			UNION ALL
			SELECT channel, account, '', 0, 1, 0, 0 FROM pairings WHERE approved_at IS NOT NULL
			UNION ALL
			SELECT channel, account, '', 0, 0, 1, 0 FROM inbox WHERE run_id IS NULL AND note = 0
			UNION ALL
			SELECT channel, account, '', 0, 0, 0, 1 FROM outbox WHERE state = 'due') AS known
		WHERE account <> '' GROUP BY channel, account ORDER BY channel, max(at) DESC, account`)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Bot
	for rows.Next() {
		var bot Bot
		var at int64
		if err := rows.Scan(&bot.Channel, &bot.ID, &bot.State, &at, &bot.LetIn, &bot.Waiting, &bot.Due); err != nil {
			return nil, err
		}
		bot.Since = db.FromMillis(at)
		list = append(list, bot)
	}
	return list, db.Explain(rows.Err())
}

// ErrNotFound says that a bot has never served, and that nothing waits for it.
var ErrNotFound = errors.New("no such bot")

// Release lets the bot that serves the channel answer and send what waits for another bot, and returns what that is. It returns
// ErrNotFound for a bot that is not known.
func (b *Bots) Release(ctx context.Context, a conversation.Account) (released Queue, err error) {
	err = b.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
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
			{`UPDATE inbox AS i SET account = '' WHERE run_id IS NULL AND note = 0 AND ` + db.Either(`+`, ``) + `channel = ?1 AND account = ?2
				AND NOT EXISTS (SELECT 1 FROM inbox o WHERE o.channel = ?1 AND o.source_id = i.source_id AND o.account = '')`, &released.Waiting},
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
			return fmt.Errorf("%w: %s", ErrNotFound, a)
		}
		return nil
	})
	return released, err
}
