package db

import (
	"context"
	"fmt"

	"parley/cluster"
)

// HeldError says that another process has a lock.
type HeldError struct {
	PID  int    // 0 when it is not known, for example in another container
	Node string // the name of the process among several on one server; "" when it is not known
}

func (e *HeldError) Error() string { return "held by " + e.Holder() }

// Holder returns words for the process that has the lock.
func (e *HeldError) Holder() string {
	switch {
	case e.PID > 0:
		return fmt.Sprintf("process %d", e.PID)
	case e.Node != "":
		return "the node " + e.Node
	}
	return "another process"
}

// Lock takes the lock of a name for this process until release is called or the
// process dies. It does not wait: it fails with *HeldError when another process has
// the lock. The same process may take it again, and calls release once for each time.
func (d *DB) Lock(name string) (release func(), err error) {
	return d.engine.lock(context.Background(), name)
}

// Node returns this process among the nodes that have the database open, or nil where it is a file.
func (d *DB) Node() *cluster.Node {
	if s, is := d.engine.(*postgresServer); is {
		return s.node
	}
	return nil
}

// MarkDaemon records that this process is a daemon that runs on this database, until the
// process ends. DaemonPID reads it. Several daemons may run on one database.
func (d *DB) MarkDaemon() error { return d.engine.markDaemon() }
