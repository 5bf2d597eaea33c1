package search

import (
	"context"
	"database/sql"

	"parley/conversation/internal/db"
	"parley/conversation/metadata"
)

// Scope chooses the conversations of a search over several sessions. The zero value means all.
type Scope struct {
	Channel  string
	Prefix   string          // with which the keys of the sessions begin
	Metadata metadata.Filter // each member is in that of the conversation or of its session
}

// IsAll reports whether no conversation is left out.
func (s Scope) IsAll() bool { return s.Channel == "" && s.Prefix == "" && len(s.Metadata) == 0 }

// inScope are the conversations of a scope.
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

// condition returns the condition that the row of a conversation is in the scope, and its named parameters.
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

// sizes returns the sizes of the newest conversations of the scope, without those of files.
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
