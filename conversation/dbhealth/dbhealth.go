// Package dbhealth reports the health of a store's database: whether it is damaged,
// whether it is still in its place, and whether anything can be stored.
package dbhealth

import (
	"context"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Advice tells the operator what to do about a damaged database.
const Advice = db.DamageAdvice

// Sentence returns an error as a sentence.
func Sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// IsTemporary reports whether the next try may succeed where a read failed: the
// database is busy or closed, or the process lacks memory or file handles.
func IsTemporary(err error) bool { return db.IsTemporary(err) }

// Health is the health of a store's database.
type Health struct {
	db    *db.DB
	store *conversation.Store
}

// New returns the health of a store's database.
func New(store *conversation.Store) *Health { return &Health{db: store.DB(), store: store} }

// CheckUnclean checks all of the database if the process that had it open last died
// instead of closing it. What it finds is among the Damages. A million messages take a
// few seconds; others read and write meanwhile. The error is that of ctx, or why the
// database could not be checked.
func (h *Health) CheckUnclean(ctx context.Context) error { return h.db.CheckUnclean(ctx) }

// Damages returns the parts of the database that were found to be damaged since
// it was opened, in words for the operator.
func (h *Health) Damages() []string { return h.db.Damages() }

// Watch checks every second until ctx ends whether the database is still where it
// was opened, so that the operator is told also while nothing is written. It calls
// back when another daemon on the same file has ended, since what that one had under way is
// left in the store, and each time the database has come back: of what was written just when it went,
// the caller was told an error, and the store may hold it all the same.
func (h *Health) Watch(ctx context.Context, back func()) { h.db.Watch(ctx, back) }

// Probe makes a durable write of no meaning. Its error is why the store can't be
// written, such as a full disk or a file that was taken away, or why a larger write
// has just failed. A disk that hangs blocks Probe beyond the end of ctx.
func (h *Health) Probe(ctx context.Context) error {
	if _, err := h.store.Accept(ctx, []conversation.Cursor{{Name: "probe"}}); err != nil {
		return err
	}
	return h.db.LacksRoom()
}

// WorksSince reports whether something was stored since a time, and nothing lacks room, so that the database works even if a
// Probe still waits behind other writes.
func (h *Health) WorksSince(t time.Time) bool {
	return h.db.HasStoredSince(t) && h.db.LacksRoom() == nil
}

// Troubles returns what keeps the store from its work, in sentences for the
// operator; none while all is well.
func (h *Health) Troubles() []string {
	var list []string
	if err := h.db.Moved(); err != nil {
		list = append(list, Sentence(err))
	}
	if parts := h.Damages(); len(parts) > 0 {
		list = append(list, "The database is damaged: "+strings.Join(parts, "; ")+". What can be read goes on; "+Advice+".")
	}
	return list
}
