package bots

import (
	"context"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// The states of a channel.
const (
	Connecting  = "connecting"
	Serving     = "serving"
	Interrupted = "interrupted" // the platform can't be reached, and is tried again
	Rejected    = "rejected"    // the platform refuses the bot until somebody corrects that; it is asked again now and then
	Ended       = "ended"       // the channel has ended, with an error that trying again can't correct
)

// Health is how a channel fares, as one bot of its platform serves it on one node.
type Health struct {
	Channel string
	Account string // the platform's id of the bot; "" where the channel has none, or it is not known
	State   string // one of the above
	Detail  string // for the operator, without secrets
	Since   time.Time
	NodeID  int64  // ID of the node that reports the state; 0 if that is dead, or the only one
	Node    string // name of that node; "" where NodeID is 0
}

// SetHealth stores how a channel fares now on this node. Each node has a state of its own: what fails on one of them must not
// be hidden by another one's success.
func (b *Bots) SetHealth(ctx context.Context, of conversation.Account, state, detail string) error {
	return b.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		const other = `state = excluded.state, detail = excluded.detail, changed_at = excluded.changed_at`
		_, err := tx.ExecContext(ctx, db.Either(
			`INSERT INTO channel_health (channel, account, state, detail, changed_at) VALUES (?1, ?2, ?3, ?4, ?5)
				ON CONFLICT (channel, account) DO UPDATE SET `+other,
			`INSERT INTO channel_health (channel, account, state, detail, changed_at, node_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
				ON CONFLICT (channel, account, node_id) DO UPDATE SET `+other),
			of.Channel, of.ID, state, db.Text(detail), db.Millis(b.now()), b.node())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, db.Either(`SELECT ?1, ?2, ?3`,
			`DELETE FROM channel_health WHERE channel = ?1 AND account = ?2 AND node_id <> ?3 AND NOT EXISTS (SELECT 1 FROM nodes WHERE id = node_id)`),
			of.Channel, of.ID, b.node())
		return err
	})
}

// Health returns how every channel that was ever served fares on each node that lives, or fared last, by channel and bot, the
// newest first.
func (b *Bots) Health(ctx context.Context) ([]Health, error) {
	list, err := b.allHealth(ctx)
	lives := map[conversation.Account]bool{}
	for _, h := range list {
		if h.NodeID != 0 {
			lives[h.bot()] = true
		}
	}
	told := map[conversation.Account]bool{}
	return slices.DeleteFunc(list, func(h Health) bool {
		if h.NodeID != 0 {
			return false
		}
		old := lives[h.bot()] || told[h.bot()]
		told[h.bot()] = true
		return old
	}), err
}

func (h Health) bot() conversation.Account {
	return conversation.Account{Channel: h.Channel, ID: h.Account}
}

// allHealth is Health with what nodes have told that are dead.
func (b *Bots) allHealth(ctx context.Context) ([]Health, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT channel, account, state, detail, changed_at, `+db.Either(`0, '' FROM channel_health`,
		`coalesce(n.id, 0), coalesce(n.name, '') FROM channel_health LEFT JOIN nodes n ON n.id = node_id AND n.dead_at IS NULL`)+`
		ORDER BY channel, changed_at DESC, account`)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Health
	for rows.Next() {
		var h Health
		var at int64
		if err := rows.Scan(&h.Channel, &h.Account, &h.State, &h.Detail, &at, &h.NodeID, &h.Node); err != nil {
			return nil, err
		}
		h.Since = db.FromMillis(at)
		list = append(list, h)
	}
	return list, db.Explain(rows.Err())
}
