package wordindex

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
)

// The table messages_ranks is what messages are ranked by. It has a cursor of its own: a database of before has a whole
// index of words, in which messages are found until the ranks are made.

// RanksChoreName names the chore that brings the ranks up to date.
const RanksChoreName = "the ranks of the search index"

// RanksChore returns the chore that brings the ranks up to date.
func RanksChore() db.Chore {
	return db.Chore{Name: RanksChoreName, Step: UpdateRanks, Skip: skipRanks}
}

// rankBytes is how much text is ranked in one transaction; a longer message is added alone. Stemming takes several times as
// long as cutting a text into words.
const rankBytes = batchBytes / 4

// UpdateRanks adds the oldest messages that the ranks do not have, as many as fit into a transaction. done says that they
// have all.
func UpdateRanks(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	batch, err := next(ctx, tx, "messages_ranks", rankBytes)
	if err != nil || len(batch) == 0 {
		return err == nil, err
	}
	last := batch[len(batch)-1].id
	for _, m := range sorted(batch) {
		if err := m.addRanks(ctx, tx); err != nil {
			return false, err
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = 'messages_ranks'`, last)
	return false, err
}

// maxRanksBehind is how many messages the ranks may be behind for a search to wait for them.
const maxRanksBehind = 1000

// UpdateNewRanks is UpdateRanks for a search: it does nothing while the ranks of a database of before are made, since
// messages are found by their words until then.
func UpdateNewRanks(ctx context.Context, tx *sql.Tx) (done bool, err error) {
	var behind int64
	err = tx.QueryRowContext(ctx, `
		SELECT (SELECT coalesce(max(id), 0) FROM messages) - (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_ranks')`).Scan(&behind)
	if err != nil || behind > maxRanksBehind {
		return true, err
	}
	return UpdateRanks(ctx, tx)
}

func skipRanks(ctx context.Context, s *db.Skipper) error {
	return skipBehind(ctx, s, "messages_ranks", message.addRanks)
}

// addRanks adds what one message is ranked by.
func (m message) addRanks(ctx context.Context, tx *sql.Tx) error {
	said, used := m.content, CallsText(m.calls)
	if m.role == "tool" {
		said, used = "", m.content
	}
	if said == "" && used == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO messages_ranks (rowid, said, used, place) VALUES (?, ?, ?, ?)`,
		m.rowID(), strings.Join(fulltext.RankTokens(said), " "), strings.Join(fulltext.RankTokens(used), " "), m.place())
	if err != nil {
		return fmt.Errorf("ranks of message %d: %w", m.id, err)
	}
	return nil
}

// Ranked reports whether the ranks have all messages that the index of words has.
func Ranked(ctx context.Context, q db.Querier) (ranked bool, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_ranks')
			>= (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts')`).Scan(&ranked)
	return ranked, err
}
