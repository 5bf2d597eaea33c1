package db

import (
	"context"
	"time"
)

// health has the methods of an engine for the state of its database. They implement methods of DB.
type health interface {
	wasUnclean() bool
	damaged() []string
	noteDamage(part string, err error)
	moved() error
	lacksRoom() error
	hasStoredSince(t time.Time) bool
	checkUnclean(ctx context.Context) error
	watch(ctx context.Context, back func())
}

// Unclean reports whether the process that last had the database open died without closing it. On
// PostgreSQL it reports false: the server handles that itself.
func (d *DB) Unclean() bool { return d.engine.wasUnclean() }

// Damages returns the damaged parts of the database that were found since it was opened, as
// texts for the operator.
func (d *DB) Damages() []string { return d.engine.damaged() }

// NoteDamage adds a part that can't be read to the Damages, and logs it once.
func (d *DB) NoteDamage(part string, err error) { d.engine.noteDamage(part, err) }

// Moved returns an error that wraps ErrMoved while the database is not at its path, or its server can't be
// reached, so that nothing can be stored. Otherwise it returns nil.
func (d *DB) Moved() error { return d.engine.moved() }

// LacksRoom returns why a write of the last ten seconds failed if the disk was full, else
// nil. A small write may succeed meanwhile, in the space that the files have already. What has to be
// stored is tried again more often than that. A server's disk is not known here.
func (d *DB) LacksRoom() error { return d.engine.lacksRoom() }

// HasStoredSince reports whether this process has committed a write since a time, so that the database works, although other
// writes still wait.
func (d *DB) HasStoredSince(t time.Time) bool { return d.engine.hasStoredSince(t) }

// CheckUnclean makes SQLite check all pages of the database if Unclean reports true, and adds
// what it finds to the Damages. A million messages take a few seconds; reads and writes continue
// meanwhile. The error is that of ctx, or says why the database could not be checked.
func (d *DB) CheckUnclean(ctx context.Context) error { return d.engine.checkUnclean(ctx) }

// Watch checks every second, until ctx ends, whether the database is still where it was
// opened, so that a move is logged even if nothing is written. It calls back each time the
// database was put back, and when another daemon has ended that had the same file open. The caller must then read the store again, since writes that returned an
// error at the time of the move may have been stored.
func (d *DB) Watch(ctx context.Context, back func()) { d.engine.watch(ctx, back) }
