package db

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"parley/cluster"
	"parley/conversation/internal/postgres"
)

// unreachableError says that the server can't be reached, or that it refuses this node's writes because the node was
// declared dead and has not joined again. For callers it is the same as a moved database file: it is an ErrMoved.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string {
	if errors.Is(e.err, cluster.ErrFenced) {
		return fmt.Sprintf("the database refuses writes of this process until it has joined the other gateways again, which it does by itself (%v)", e.err)
	}
	return fmt.Sprintf("the database server can't be reached; nothing is stored or answered until it is back (%v)", e.err)
}

func (e *unreachableError) Unwrap() error { return e.err }

func (e *unreachableError) Is(target error) bool { return target == ErrMoved }

// postgresFault returns the fault behind an error of a PostgreSQL server or of the connection to it.
func postgresFault(err error) Fault {
	code := postgres.Code(err)
	if fault, known := postgresFaults[code]; known {
		return fault
	}
	switch {
	case isUnreachable(err):
		return Unreachable
	case code != "":
		return AnotherFailure
	}
	return NoFault
}

var postgresFaults = map[string]Fault{
	postgres.DiskFull:             Full,
	postgres.ReadOnly:             Unwritable,
	postgres.NoPrivilege:          Unwritable,
	postgres.TooManyConnections:   Busy,
	postgres.SerializationFailure: Busy,
	postgres.DeadlockDetected:     Busy,
	postgres.LockNotAvailable:     Busy,
	postgres.OutOfMemory:          NoMemory,
	postgres.QueryCanceled:        Interrupted,
	postgres.DataCorrupted:        Damaged,
	postgres.IndexCorrupted:       Damaged,
}

// postgresAdvice has the advice for the operator of a PostgreSQL database.
var postgresAdvice = map[Fault]string{
	Full:        "the disk of the database server is full: make room there; a running gateway then goes on by itself",
	Unwritable:  "the database can't be written: let this user create and write tables in it, and connect to the primary, not to a standby",
	Busy:        "the database server is too busy: raise its max_connections, or end other programs that use it",
	Interrupted: "the database server took too long: it is overloaded, or another program keeps its rows locked",
	Damaged:     "the database server says that its files are damaged: restore a backup of it",
}

// ErrUnreachable says that the server of a database could not be reached, or that it takes no connections at the moment, so that
// opening the database may succeed later.
var ErrUnreachable = errors.New("the server can't be reached")

// poolerAdvice has the advice for what PgBouncer refuses, by a part of its message.
var poolerAdvice = []struct{ message, advice string }{
	{"unsupported startup parameter", "the connection pooler refuses a setting that the gateway needs: write " +
		"`ignore_startup_parameters = extra_float_digits, statement_timeout, idle_in_transaction_session_timeout, tcp_user_timeout` into pgbouncer.ini"},
	{"statement pooling mode", "the connection pooler allows no transactions: write `pool_mode = transaction` or `pool_mode = session` into pgbouncer.ini"},
	{"no such database", noSuchDatabase},
	{"FATAL: database ", noSuchDatabase},
	{"no such user", wrongUser},
	{"FATAL: role ", wrongUser},
	{"authentication failed", wrongUser},
}

const (
	wrongUser = "the server refuses this user or its password: check the user name, set the password with database_password_file, " +
		"PGPASSWORD or ~/.pgpass, and let the user in with pg_hba.conf"
	noSuchDatabase = "the server has no such database: create it with `createdb`, and give the user of the URL the right to create tables in it"
)

// explainOpening adds advice for the operator to an error of opening a database.
func explainOpening(err error) error {
	switch postgres.Code(err) {
	case postgres.WrongPassword, postgres.NotAuthorized:
		return fmt.Errorf("%s (%w)", wrongUser, err)
	case postgres.NoSuchDatabase:
		return fmt.Errorf("%s (%w)", noSuchDatabase, err)
	case postgres.TooManyConnections:
		return fmt.Errorf("%w: %w", ErrUnreachable, Explain(err))
	case postgres.ProtocolViolation:
		for _, refusal := range poolerAdvice {
			if strings.Contains(err.Error(), refusal.message) {
				return fmt.Errorf("%s (%w)", refusal.advice, err)
			}
		}
	}
	if postgres.IsWrongURL(err) {
		return fmt.Errorf("the URL can't be read (%w); a character such as @ : / # or %% in its user or password is written as %%40 %%3A %%2F %%23 or %%25, "+
			"and database_password_file may hold the password as it is", err)
	}
	if text := err.Error(); strings.Contains(text, "password authentication") || strings.Contains(text, "SASL auth") {
		return fmt.Errorf("the server asks for another password: set it with database_password_file, PGPASSWORD or ~/.pgpass (%w)", err)
	}
	if strings.Contains(err.Error(), "server refused TLS connection") {
		return fmt.Errorf("the server offers no TLS, which sslmode of the URL demands: turn ssl on in postgresql.conf, or use sslmode=prefer (%w)", err)
	}
	if certificate := (*tls.CertificateVerificationError)(nil); errors.As(err, &certificate) {
		return fmt.Errorf("the server's certificate is not trusted: name the file of its authority in the URL with sslrootcert, and the host as the certificate does (%w)", err)
	}
	if isUnreachable(err) && !errors.Is(err, cluster.ErrFenced) {
		return fmt.Errorf("%w: check the host and the port of the URL, and whether the server runs (%w)", ErrUnreachable, err)
	}
	return Explain(err)
}
