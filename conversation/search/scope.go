package search

import (
	"context"
	"database/sql"

	"parley/conversation/internal/db"
	"parley/conversation/metadata"
)

// Scope chooses the conversations of a search over several sessions. The zero value means all.
type Scope struct {
	Channel  string          // the channel of the sessions
	Prefix   string          // the beginning of the sessions' keys
	Metadata metadata.Filter // the metadata of the conversation or its session must have each of these members
}

// IsAll reports whether no conversation is left out.
func (s Scope) IsAll() bool { return s.Channel == "" && s.Prefix == "" && len(s.Metadata) == 0 }

// inScope selects the conversations of a scope. The condition on their metadata must be appended.
const inScope = `
	FROM conversations c JOIN sessions s ON s.id = c.session_id
	WHERE c.deleted = 0 AND (:channel = '' OR s.channel = :channel) AND substr(s.key, 1, length(:prefix)) = :prefix AND `

// from returns the FROM and WHERE of a query for the conversations c of the scope, and its named parameters.
func (s Scope) from() (clause string, args []any, err error) {
	wanted, err := s.Metadata.Parameter()
	if err != nil {
		return "", nil, err
	}
	return inScope + metadata.Matches(":metadata", "c.metadata", "s.metadata"),
		[]any{sql.Named("channel", s.Channel), sql.Named("prefix", s.Prefix), sql.Named("metadata", wanted)}, nil
}

// condition returns the SQL condition that row, an expression for the id of a conversation, is in the scope; and its named
// parameters.
func (s Scope) condition(row string) (condition string, args []any, err error) {
	if s.IsAll() {
		return "true", nil, nil
	}
	clause, args, err := s.from()
	return row + ` IN (SELECT c.id ` + clause + `)`, args, err
}

// messages returns how many messages the conversations of the scope have.
func (s Scope) messages(ctx context.Context, q db.Querier) (n int64, err error) {
	clause, args, err := s.from()
	if err != nil {
		return 0, err
	}
	err = q.QueryRowContext(ctx, `SELECT coalesce(sum(c.messages), 0) `+clause, args...).Scan(&n)
	return n, err
}

// sizes returns the sizes of the newest conversations of the scope, at most limit. It does not count pages of files.
func (s Scope) sizes(ctx context.Context, q db.Querier, limit int) (list []size, err error) {
	clause, args, err := s.from()
	if err != nil {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, `SELECT c.id, c.messages `+clause+` ORDER BY c.id DESC LIMIT :limit`, append(args, sql.Named("limit", limit))...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c size
		if err := rows.Scan(&c.conversation, &c.messages); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}
