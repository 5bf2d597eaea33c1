// Package postgres connects database/sql to a PostgreSQL server, for statements that SQLite
// accepts, too. It converts their placeholders, stores booleans as 0 and 1, and lets a
// connection execute a statement while the rows of another are still being read. Only this
// package and cluster import the driver, pgx.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Config says how to connect to a database.
type Config = pgx.ConnConfig

// The ways to execute statements that a config can have beside others of pgx, see Config.DefaultQueryExecMode.
const (
	Prepared   = pgx.QueryExecModeCacheStatement // the server keeps prepared statements for its connection; the default
	Unprepared = pgx.QueryExecModeCacheDescribe
)

// Connector opens connections for sql.OpenDB.
type Connector struct {
	config     *Config
	statements *statements
}

// NewConnector returns a connector to the database of a config.
func NewConnector(config *Config) *Connector {
	return &Connector{config: config, statements: &statements{}}
}

// Connect implements driver.Connector.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := pgx.ConnectConfig(ctx, c.config)
	if err != nil {
		return nil, err
	}
	return &conn{pgx: raw, statements: c.statements}, nil
}

// OpenPlain opens a database for a library that writes its statements for PostgreSQL. Statements are
// not rewritten, and values have the types of pgx.
func OpenPlain(config *Config) *sql.DB { return stdlib.OpenDB(*config) }

// Driver implements driver.Connector.
func (c *Connector) Driver() driver.Driver { return opener{} }

// opener opens connections by their URL. The interface driver.Connector requires it, but database/sql
// does not use it here.
type opener struct{}

// Open implements driver.Driver.
func (opener) Open(url string) (driver.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	return NewConnector(config).Connect(context.Background())
}
