// Package postgres connects database/sql to a PostgreSQL server, for statements that SQLite
// accepts, too: it numbers their placeholders, stores flags as 0 and 1, and reads another
// statement while the rows of one are still being read. Only this package and cluster name the driver.
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

// Connector opens connections for sql.OpenDB.
type Connector struct {
	config     *Config
	statements *statements
}

// NewConnector returns a connector to the server that config names.
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

// OpenPlain opens a database for a library that has statements of its own for PostgreSQL: nothing is
// rewritten, and values have the types of pgx.
func OpenPlain(config *Config) *sql.DB { return stdlib.OpenDB(*config) }

// Driver implements driver.Connector.
func (c *Connector) Driver() driver.Driver { return opener{} }

// opener opens connections by their URL. database/sql asks for it, and never uses it.
type opener struct{}

// Open implements driver.Driver.
func (opener) Open(url string) (driver.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	return NewConnector(config).Connect(context.Background())
}
