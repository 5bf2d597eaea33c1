package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	poolerRounds = 3               // a pooler may give a client the same server connection twice by chance
	poolerWait   = 2 * time.Second // for a statement, which waits where the pooler has no other server connection
)

// KeepsStatements reports whether a statement that was prepared in one transaction can be executed in a later one. Behind a
// connection pooler that gives each transaction another server connection, such as PgBouncer in transaction mode, it may
// be unknown there. It connects with the settings of config, so it also fails if a pooler refuses one of them.
func KeepsStatements(ctx context.Context, config *Config) (bool, error) {
	client, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer client.Close(context.WithoutCancel(ctx))
	const backend = `SELECT pg_backend_pid()`
	var pid uint32
	if err := client.QueryRow(ctx, backend, pgx.QueryExecModeExec).Scan(&pid); err != nil || pid == client.PgConn().PID() {
		return true, err // no pooler: the server itself has answered the connection
	}
	name := "pooler_" + uuid.NewString() // server connections keep what earlier clients have prepared
	if _, err := client.Prepare(ctx, name, backend); err != nil {
		return false, err
	}
	other, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer other.Close(context.WithoutCancel(ctx))
	for range poolerRounds {
		if works, err := executesBeside(ctx, client, other, name); err != nil || !works {
			return false, err
		}
	}
	return true, nil
}

// executesBeside reports whether client can execute a prepared statement while other, in a transaction, has the server
// connection that client had before.
func executesBeside(ctx context.Context, client, other *pgx.Conn, name string) (bool, error) {
	tx, err := other.Begin(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, poolerWait)
	defer cancel()
	_, failed := client.Exec(ctx, name)
	if IsLost(failed) && ctx.Err() == nil {
		return false, failed
	}
	return failed == nil, tx.Rollback(context.WithoutCancel(ctx))
}
