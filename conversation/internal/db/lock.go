package db

import (
	"context"
	"fmt"

	"parley/cluster"
)

// HeldError says that another process has a lock.
type HeldError struct {
	PID  int    // the id of the process; 0 = it is not known, for example in another container
	Node string // on PostgreSQL, the name of the node; "" = it is not known
}

func (e *HeldError) Error() string { return "held by " + e.Holder() }

// Holder describes the process that has the lock: "process 4711".
func (e *HeldError) Holder() string {
	switch {
	case e.PID > 0:
		return fmt.Sprintf("process %d", e.PID)
	case e.Node != "":
		return "the node " + e.Node
	}
	return "another process"
}

// Lock takes the lock with a name for this process, until release is called or the
// process dies. It does not wait: the error is a *HeldError if another process has the
// lock. The same process may take the lock several times, and must call each release.
func (d *DB) Lock(name string) (release func(), err error) {
	return d.engine.lock(context.Background(), name)
}

// Node returns this process as a node of the cluster on a PostgreSQL database, or nil for a SQLite file.
func (d *DB) Node() *cluster.Node {
	if s, is := d.engine.(*postgresServer); is {
		return s.node
	}
	return nil
}

// MarkDaemon records that this process is a daemon that runs on this database, until the
// process ends. DaemonPID reads it. Several daemons may run on one database.
func (d *DB) MarkDaemon() error { return d.engine.markDaemon() }
