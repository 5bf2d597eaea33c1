package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"parley/conversation/internal/postgres"
)

// UnfinishedMove is a table that exists while another database is being moved into this one. Its only row has the source
// and the progress of the move. Gateways refuse to open such a database.
const UnfinishedMove = "unfinished_move"

// refuseHalfMoved returns an error for a database into which another one is being moved. A node calls it after it has
// joined, and a move creates the table before it looks for nodes, so that at least one of them notices the other.
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

// Server is an open PostgreSQL database, of which this process is not a node.
type Server struct {
	*sql.DB
	Name string // the URL without a password

	open   *postgresServer
	config *postgres.Config
}

// OpenServer opens an existing PostgreSQL database for a move. It does not change the schema.
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

// NewestSchema returns the newest version of the schema for SQLite that this gateway knows.
func NewestSchema() (int64, error) { return newestIn(sqliteMigrations) }

// NewestServerSchema returns the newest version of the schema for PostgreSQL that this gateway knows.
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
