package bots

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// The states of a bot in a group.
const (
	Member  = "member"
	Removed = "removed"
)

// Group is a group, or a server, that a bot is in or was in.
type Group struct {
	Bot    conversation.Account
	ID     string // ID of the group on the platform
	Name   string // "" leaves the stored one
	State  string // Member or Removed
	Since  time.Time
	ByID   string // ID of the person who added or removed the bot; "" where the platform does not tell
	ByName string
	Lacks  []string // what the bot may not do there, in words; nil leaves what is stored
}

// SetGroup stores how a bot stands to a group. since and by are those of the last change
// of the state: a call that changes nothing leaves them. It reports whether the state is
// another one than before, or the group is new.
func (b *Bots) SetGroup(ctx context.Context, g Group) (changed bool, err error) {
	lacks, err := json.Marshal(g.Lacks)
	if err != nil {
		return false, err
	}
	err = b.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		var before string
		err := tx.QueryRowContext(ctx, `SELECT state FROM bot_groups WHERE channel = ? AND account = ? AND group_id = ?`, g.Bot.Channel, g.Bot.ID, g.ID).Scan(&before)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		changed = before != g.State
		_, err = tx.ExecContext(ctx, `
			INSERT INTO bot_groups AS old (channel, account, group_id, name, state, since, by_id, by_name, lacks, updated_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, CASE WHEN ?9 = 'null' THEN '[]' ELSE ?9 END, ?10)
			ON CONFLICT (channel, account, group_id) DO UPDATE SET
				name = CASE WHEN ?4 = '' THEN old.name ELSE ?4 END, lacks = CASE WHEN ?9 = 'null' THEN old.lacks ELSE ?9 END, updated_at = ?10,
				since = CASE WHEN old.state = ?5 THEN old.since ELSE ?6 END, by_id = CASE WHEN old.state = ?5 THEN old.by_id ELSE ?7 END,
				by_name = CASE WHEN old.state = ?5 THEN old.by_name ELSE ?8 END, state = ?5`,
			g.Bot.Channel, g.Bot.ID, g.ID, db.Text(g.Name), g.State, sql.NullInt64{Int64: db.Millis(g.Since), Valid: !g.Since.IsZero()},
			g.ByID, db.Text(g.ByName), string(lacks), db.Millis(b.now()))
		return err
	})
	return changed, err
}

// Groups returns the groups of all bots: those that a bot is in first, then by name.
func (b *Bots) Groups(ctx context.Context) ([]Group, error) {
	rows, err := b.db.QueryContext(ctx, `
		SELECT channel, account, group_id, name, state, since, by_id, by_name, lacks FROM bot_groups
		ORDER BY state <> 'member', channel, account, lower(name), group_id`)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Group
	for rows.Next() {
		var g Group
		var since sql.NullInt64
		var lacks []byte
		if err := rows.Scan(&g.Bot.Channel, &g.Bot.ID, &g.ID, &g.Name, &g.State, &since, &g.ByID, &g.ByName, &lacks); err != nil {
			return nil, err
		}
		if since.Valid {
			g.Since = db.FromMillis(since.Int64)
		}
		if err := json.Unmarshal(lacks, &g.Lacks); err != nil {
			return nil, err
		}
		list = append(list, g)
	}
	return list, db.Explain(rows.Err())
}
