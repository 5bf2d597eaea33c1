package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes of errors that callers distinguish: https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	SerializationFailure = "40001"
	DeadlockDetected     = "40P01"
	UniqueViolation      = "23505"
	DiskFull             = "53100"
	OutOfMemory          = "53200"
	TooManyConnections   = "53300"
	LockNotAvailable     = "55P03"
	QueryCanceled        = "57014"
	ReadOnly             = "25006" // the server is a standby, or default_transaction_read_only is set
	NoSuchDatabase       = "3D000"
	WrongPassword        = "28P01"
	NotAuthorized        = "28000" // pg_hba.conf has no line that lets this user in
	NoPrivilege          = "42501"
	ProtocolViolation    = "08P01" // how PgBouncer answers whatever it refuses
	DataCorrupted        = "XX001"
	IndexCorrupted       = "XX002"

	divisionByZero   = "22012" // see needsRow
	adminShutdown    = "57P01"
	crashShutdown    = "57P02"
	cannotConnectNow = "57P03"
	connectionClass  = "08"
)

// Code returns the SQLSTATE of an error that the server has sent, or "" for every other error.
func Code(err error) string {
	var sent *pgconn.PgError
	if errors.As(err, &sent) {
		return sent.Code
	}
	return ""
}

// IsLost reports whether the server can't be reached, or the connection to it was lost. It is not known
// whether the server has carried out the statement or the COMMIT that failed with this error.
func IsLost(err error) bool {
	switch code := Code(err); {
	case code == adminShutdown || code == crashShutdown || code == cannotConnectNow || strings.HasPrefix(code, connectionClass):
		return true
	case code != "" || err == nil || errors.Is(err, context.Canceled):
		return false
	}
	var network net.Error
	var connecting *pgconn.ConnectError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) || errors.As(err, &connecting)
}

// IsRepeatable reports whether the server has rolled a transaction back because of a conflict with
// concurrent ones, so that it may succeed when it is repeated.
func IsRepeatable(err error) bool {
	code := Code(err)
	return code == SerializationFailure || code == DeadlockDetected
}

// IsWrongURL reports whether the error of ParseURL says that the URL can't be read.
func IsWrongURL(err error) bool {
	var unread *pgconn.ParseConfigError
	return errors.As(err, &unread)
}
