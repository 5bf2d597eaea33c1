package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"parley/conversation/internal/postgres"
)

// UnfinishedMove is the table that a database has while another one is moved into it. Its one row says from
// where, and how far the move has come. No gateway works on such a database.
const UnfinishedMove = "unfinished_move"

// refuseHalfMoved returns an error for a database into which another one is being moved. A node calls it after it has
// joined: a move makes its table before it looks for nodes, so that one of them sees the other.
func refuseHalfMoved(ctx context.Context, q Querier) error {
	var half bool
	err := q.QueryRowContext(ctx, `SELECT to_regclass('`+UnfinishedMove+`') IS NOT NULL`).Scan(&half)
	if err != nil || !half {
		return err
	}
	var source string
	if err := q.QueryRowContext(ctx, `SELECT source FROM `+UnfinishedMove).Scan(&source); err != nil {
		return err
	}
	return fmt.Errorf("%s is moved into this database, and that is not finished: wait for `gateway migrate`, or call it again if it was interrupted", source)
}

// Server is a PostgreSQL database that is open without this process being one of its nodes.
type Server struct {
	*sql.DB
	Name string // its URL without a password

	open   *postgresServer
	config *postgres.Config
}

// OpenServer opens a PostgreSQL database for a move, which must exist. Its schema stays as it is.
func OpenServer(ctx context.Context, config Config) (*Server, error) {
	name := postgres.Redact(config.Path)
	to, err := serverConfig(config)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, explainOpening(err))
	}
	s := &Server{DB: sql.OpenDB(postgres.NewConnector(to)), Name: name, config: to}
	s.open = &postgresServer{url: name, log: config.Log, readers: s.DB}
	if err := s.open.check(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", name, explainOpening(err)), s.Close())
	}
	return s, nil
}

// MakeSchema brings the schema of the database up to date.
func (s *Server) MakeSchema(ctx context.Context) error {
	return Explain(migratePostgres(ctx, s.open.log, s.config))
}

// NewestSchema returns the newest version of SQLite's schema that this gateway knows.
func NewestSchema() (int64, error) { return newestIn(sqliteMigrations) }

// NewestServerSchema returns the newest version of PostgreSQL's schema that this gateway knows.
func NewestServerSchema() (int64, error) { return newestIn(postgresMigrations) }

// RefuseNodes returns an error if a gateway, or a command of one, has the database open. In a
// transaction, no other can open it until that ends.
func RefuseNodes(ctx context.Context, q Querier, database string) error {
	var name, command string
	err := q.QueryRowContext(ctx, `
		SELECT name, command FROM nodes WHERE dead_at IS NULL AND expires_at > extract(epoch FROM clock_timestamp()) * 1000 ORDER BY id LIMIT 1`).
		Scan(&name, &command)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s is in use by `gateway %s` on %s: stop it first. If it was killed, wait 10 seconds", database, command, name)
	}
	return err
}
