package wordindex

import (
	"context"

	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// On PostgreSQL the index consists of two ordinary tables, message_words and message_ranks, which have columns of the type tsvector
// with GIN indexes. A lexeme is a word with a letter in front, which says where the message has it: s for what was said, c for tool
// calls; in message_ranks, u for tool calls and the results of tools. A tsvector keeps at most 255 positions of a word, so phrases
// are looked for in the columns said and called, which have the words in their order.
//
// Several processes write there, so ids are not in the order of commits, and a cursor could skip messages. Instead, a trigger
// lists the messages that are missing in the index in the table unindexed_messages.

// CatchUp brings the index up to date before a search.
func CatchUp(ctx context.Context, d *db.DB) {
	if db.IsURL(d.Path()) {
		d.CatchUp(ctx, updateListed)
		return
	}
	d.CatchUp(ctx, update)
	d.CatchUp(ctx, updateNewRanks)
}

// updateListed adds the oldest listed messages to the index, as many as fit into a transaction. done reports that none is left.
// Another process that would add the same messages waits for the transaction, and then finds them removed from the list.
func updateListed(ctx context.Context, tx db.Tx) (done bool, err error) {
	ids, err := db.Column[int64](tx.QueryContext(ctx, `SELECT message_id FROM unindexed_messages ORDER BY message_id LIMIT ? FOR UPDATE`, batchRows))
	if err != nil || len(ids) == 0 {
		return err == nil, err
	}
	batch, err := read(ctx, tx, `m.id IN (SELECT value FROM `+db.EachID("?")+` ids)`, db.IDs(ids), batchRows, rankBytes)
	if err != nil {
		return false, err
	}
	for _, m := range batch {
		if err := m.addBoth(ctx, tx); err != nil {
			return false, err
		}
		if err := turns.Store(ctx, tx, m.conversation, m.seq); err != nil {
			return false, err
		}
	}
	last := ids[len(ids)-1]
	if len(batch) > 0 && batch[len(batch)-1].id < last { // the batch had no room for the rest, or the rest is deleted
		last = batch[len(batch)-1].id
	}
	_, err = tx.ExecContext(ctx, `
		DELETE FROM unindexed_messages WHERE message_id <= ? AND message_id IN (SELECT value FROM `+db.EachID("?")+` ids)`, last, db.IDs(ids))
	return err == nil && len(ids) < batchRows && last == ids[len(ids)-1], err
}

// addBoth adds a message to the table of words and the table of ranks.
func (m message) addBoth(ctx context.Context, tx db.Tx) error {
	if err := m.add(ctx, tx); err != nil {
		return err
	}
	return m.addRanks(ctx, tx)
}

// lexemes returns the SQL expression, with its FROM clause, for a tsvector of the tokens of place, which are the parameter ?2, and of
// others. A tsvector holds less than 1 MiB of distinct words, so a longer text is cut, and found only by its beginning.
func lexemes(others string) string {
	return `CAST(CASE WHEN octet_length(t.tokens) < 900000 THEN t.tokens ELSE left(t.tokens, 225000) END AS tsvector)
		FROM (SELECT CAST(?2 AS text) || ` + others + ` AS tokens) AS t`
}

// marked returns the SQL expression for the tokens of a parameter, each with a letter in front.
func marked(letter, parameter string) string {
	return `' ` + letter + `' || replace(CAST(` + parameter + ` AS text), ' ', ' ` + letter + `')`
}

// The statements that add a message to the index.
var (
	insertWords = db.Either(`INSERT INTO messages_fts (rowid, place, words, parts, calls) VALUES (?1, ?2, ?3, ?4, ?5)`, `
		INSERT INTO message_words (id, said, called, words)
		SELECT ?1, ' ' || ?3 || E' \n ' || ?4 || ' ', ' ' || ?5 || ' ', `+lexemes(marked("s", "?3")+` || `+marked("s", "?4")+` || `+marked("c", "?5"))+`
		ON CONFLICT (id) DO UPDATE SET words = excluded.words, said = excluded.said, called = excluded.called`)
	insertRanks = db.Either(`INSERT INTO messages_ranks (rowid, place, said, used) VALUES (?1, ?2, ?3, ?4)`, `
		INSERT INTO message_ranks (id, ranks)
		SELECT ?1, `+lexemes(marked("s", "?3")+` || `+marked("u", "?4"))+`
		ON CONFLICT (id) DO UPDATE SET ranks = excluded.ranks`)
)

// Places returns the letters in front of the words to look for on PostgreSQL: those of message_ranks, or else of message_words.
// With withoutTools, it returns only the letter for what was said.
func Places(ranks, withoutTools bool) []string {
	switch {
	case withoutTools:
		return []string{"s"}
	case ranks:
		return []string{"s", "u"}
	}
	return []string{"s", "c"}
}
