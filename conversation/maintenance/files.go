package maintenance

import (
	"parley/conversation"
	"parley/conversation/internal/db"
)

// OnServer reports whether a database is on a PostgreSQL server, not in a file.
func OnServer(database string) bool { return db.IsURL(database) }

// RealPath returns the absolute path at which a gateway finds a database, links
// followed.
func RealPath(path string) (string, error) { return db.RealPath(path) }

// MarkDaemon records for DaemonPID, as long as this process lives, that a daemon runs
// on the database of a store. Several may.
func MarkDaemon(store *conversation.Store) error { return store.DB().MarkDaemon() }

// DaemonPID returns the process id of a daemon that runs on the database at path, 0
// when none does. It is not for a process that has the database open: closing the
// lock file would release its locks.
func DaemonPID(path string) (int, error) { return db.DaemonPID(path) }

// Exists reports whether there is a database at path, or one that an interrupted
// restore has yet to put there.
func Exists(path string) (bool, error) { return db.Exists(path) }
