// Package conversation holds what is kept: sessions, conversations, runs,
// messages, the inbox and the outbox. All SQL of the project lives here and in the
// packages below; what is particular to the database engine in internal/db.
package conversation

import (
	"context"
	"log/slog"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
	"parley/conversation/internal/wordindex"
)

// Store is the database. It is safe for concurrent use; several processes may
// open the same file, and Lock keeps them off each other's sessions.
type Store struct {
	db     *db.DB
	now    func() time.Time
	log    *slog.Logger
	sweeps sweeper
	closed closedConversations
}

// Option changes how Open makes a Store.
type Option func(*Store)

// WithClock makes the store take its times from now instead of time.Now.
func WithClock(now func() time.Time) Option {
	return func(s *Store) { s.now = now }
}

// WithLog makes the store log what goes wrong where no caller could be told.
// Without it that is dropped.
func WithLog(log *slog.Logger) Option {
	return func(s *Store) { s.log = log }
}

// Open opens the database at path, creates it if there is none, and brings its
// schema up to date. The folder must exist.
func Open(ctx context.Context, path string, options ...Option) (*Store, error) {
	s := &Store{now: time.Now, log: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(s)
	}
	var err error
	s.db, err = db.Open(ctx, db.Config{Path: path, Log: s.log, Chores: []db.Chore{
		runtotals.Chore(),
		wordindex.UpdateChore(),
		{Name: "what deleted conversations have left", Step: s.sweeps.sweep, Skip: s.sweeps.skip, Needs: wordindex.ChoreName},
		wordindex.ScrubChore(),
		{Name: "files that were read", Step: dropUploads},
	}})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// DB returns the database of the store, for the packages below this one.
func (s *Store) DB() *db.DB { return s.db }

// Now returns the time by the store's clock.
func (s *Store) Now() time.Time { return s.now() }

// Close waits for the writes under way and closes the database. It releases every
// lock that this process holds.
func (s *Store) Close() error { return s.db.Close() }

// Path returns the absolute path of the database file.
func (s *Store) Path() string { return s.db.Path() }
