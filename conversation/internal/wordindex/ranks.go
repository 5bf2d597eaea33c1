package wordindex

import (
	"context"
	"fmt"
	"strings"

	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
)

// The table messages_ranks holds the stemmed words by which messages are ranked. It has its own cursor, since a database of an
// earlier version has a complete table of words and no ranks. Searches use the table of words until the ranks are complete.

// RanksChoreName names the chore that brings the ranks up to date.
const RanksChoreName = "the ranks of the search index"

// rankBytes is batchBytes for the table of ranks. It is smaller, since stemming takes several times as long as splitting a text
// into words.
const rankBytes = batchBytes / 4

// updateRanks adds the oldest messages that are missing in the table of ranks, as many as fit into a transaction. done reports
// that none is missing.
func updateRanks(ctx context.Context, tx db.Tx) (done bool, err error) {
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
	return advance(ctx, tx, "messages_ranks", last)
}

// maxRanksBehind is the maximum number of missing messages that a search adds to the ranks first.
const maxRanksBehind = 1000

// updateNewRanks is updateRanks for a search. It does nothing if too many messages are missing, as in a database of an
// earlier version: search then finds messages by the index of words.
func updateNewRanks(ctx context.Context, tx db.Tx) (done bool, err error) {
	var behind int64
	err = tx.QueryRowContext(ctx, `
		SELECT (SELECT coalesce(max(id), 0) FROM messages) - (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_ranks')`).Scan(&behind)
	if err != nil || behind > maxRanksBehind {
		return true, err
	}
	return updateRanks(ctx, tx)
}

func skipRanks(ctx context.Context, s *db.Skipper) error {
	return skipBehind(ctx, s, "messages_ranks", message.addRanks)
}

// addRanks adds a message to the table of ranks.
func (m message) addRanks(ctx context.Context, tx db.Tx) error {
	said, used := m.content, CallsText(m.calls)
	if m.role == "tool" {
		said, used = "", m.content
	}
	if said == "" && used == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, insertRanks,
		m.rowID(), m.place(), strings.Join(fulltext.RankTokens(said), " "), strings.Join(fulltext.RankTokens(used), " "))
	if err != nil {
		return fmt.Errorf("ranks of message %d: %w", m.id, err)
	}
	return nil
}

// Ranked reports whether the table of ranks has all messages that the table of words has.
func Ranked(ctx context.Context, q db.Querier) (ranked bool, err error) {
	err = q.QueryRowContext(ctx, db.Either(`
		SELECT (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_ranks')
			>= (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'messages_fts')`, `SELECT true`)).Scan(&ranked)
	return ranked, err
}
