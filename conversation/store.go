// Package conversation is the store: sessions with their conversations, the messages
// that wait for an answer, the runs that answer them, and the replies that are still to
// be sent. What it has acknowledged survives a crash at any instant.
//
// A message takes this way. An adapter stores it with [Store.Accept]. [Store.Begin]
// returns the [Snapshot] that a run starts from, and [Store.Commit] stores the finished
// [Run] whole or not at all. [Store.Deliveries] lists the replies that are due, and
// [Store.Mark] stores what became of each. [Store.Lock] keeps other processes from
// working the same session. The other methods read and manage what there is:
// [Store.Sessions], [Store.Conversations], [Store.Messages], [Store.Archive],
// [Store.Rename], [Store.Delete].
//
// A public method owns its transaction. Subjects of their own have packages below this
// one, such as search, usage and retention: each begins with New, which takes a Store.
// All SQL of the project is here and there; what is particular to the database engine is
// in internal/db.
package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
	"parley/conversation/internal/uploads"
	"parley/conversation/internal/wordindex"
)

// Store is an open database. It is safe for concurrent use. Several processes may open
// the same database, and Lock keeps them off each other's sessions.
type Store struct {
	db     *db.DB
	now    func() time.Time
	log    *slog.Logger
	events func([]Message) []Event // of what programs append and import
	carry  Carry
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

// WithEvents makes the store read from the messages that programs append and import what
// they add to the state of their conversation. Without it they add only instructions.
func WithEvents(read func(messages []Message) []Event) Option {
	return func(s *Store) { s.events = read }
}

// WithCarry says what goes over to the next conversation of a session when one is
// archived from outside, by Archive or Reset. Without it that is nothing.
func WithCarry(carry Carry) Option {
	return func(s *Store) { s.carry = carry }
}

// Open opens the database at path, creates it if there is none, and brings its
// schema up to date. The folder must exist.
func Open(ctx context.Context, path string, options ...Option) (*Store, error) {
	s := &Store{now: time.Now, log: slog.New(slog.DiscardHandler), events: func([]Message) []Event { return nil }}
	for _, option := range options {
		option(s)
	}
	var err error
	s.db, err = db.Open(ctx, db.Config{Path: path, Log: s.log, Chores: []db.Chore{
		runtotals.Chore(),
		wordindex.UpdateChore(),
		wordindex.RanksChore(),
		{Name: "what deleted conversations have left", Step: s.sweeps.sweep, Skip: s.sweeps.skip, Needs: wordindex.ChoreName},
		wordindex.ScrubChore(),
		uploads.Chore(),
	}})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// DB returns the database of the store. Only the packages below this one can use it.
func (s *Store) DB() *db.DB { return s.db }

// Now returns the time by the store's clock.
func (s *Store) Now() time.Time { return s.now() }

// Close waits for the writes under way and closes the database. It releases every
// lock that this process holds.
func (s *Store) Close() error { return s.db.Close() }

// Path returns the absolute path of the database file.
func (s *Store) Path() string { return s.db.Path() }

// LockedError says that another process works a session.
type LockedError struct {
	Key Key
	PID int // 0 when it can't be told, for example in another container
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("the session %q is in use by %s", e.Key, who)
}

// Lock takes a session for this process until release is called or the
// process dies. It does not wait: a session that another process has gives
// *LockedError. The same process may take it again; release is called once for
// each time.
func (s *Store) Lock(key Key) (release func(), err error) {
	release, err = s.db.Lock("session " + string(key))
	var held *db.HeldError
	if errors.As(err, &held) {
		return nil, &LockedError{Key: key, PID: held.PID}
	}
	return release, err
}

// lockRetry is how often a session that another process has is tried again.
const lockRetry = 2 * time.Second

// WaitLock takes a session's lock, which lock does, and waits while another
// process has it: what the session needs is that one's to do, and if it dies,
// this one takes over. waited says that it had to.
func WaitLock(ctx context.Context, log *slog.Logger, lock func(Key) (func(), error), key Key) (release func(), waited bool, err error) {
	retry := time.NewTimer(lockRetry)
	defer retry.Stop()
	for {
		release, err := lock(key)
		if err == nil {
			return release, waited, nil
		}
		if !waited {
			log.Warn("session is worked elsewhere; waiting for it", "session", key, "error", err)
		}
		waited = true
		retry.Reset(lockRetry)
		select {
		case <-retry.C:
		case <-ctx.Done():
			return nil, waited, ctx.Err()
		}
	}
}

// ErrMoved says that the database was taken away from its place. Nothing is stored
// meanwhile.
var ErrMoved = db.ErrMoved

// DamageAdvice tells the operator what to do about a damaged database.
const DamageAdvice = db.DamageAdvice

// IsDamaged reports whether an error says that the database is damaged, so that
// trying again can't help.
func IsDamaged(err error) bool { return db.IsDamaged(err) }

// IsTemporary reports whether the next try may succeed where a read failed: the
// database is busy or closed, or the process lacks memory or file handles.
func IsTemporary(err error) bool { return db.IsTemporary(err) }

// Sentence returns an error as a sentence.
func Sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Persist calls do, which uses the store, until it succeeds or ctx ends: a full
// disk or a locked file must not lose what is finished already. Only what the file
// can't give because it is damaged is not tried again: then the error is one of
// IsDamaged. The first failure and the recovery are logged, not each try.
func Persist(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	return persist(ctx, log, what, IsDamaged, do)
}

// PersistAll is Persist for what must not be given up: messages that a platform
// is told only then that they were taken. It goes on trying also while nothing can
// be stored because the file is damaged.
func PersistAll(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	return persist(ctx, log, what, func(error) bool { return false }, do)
}

func persist(ctx context.Context, log *slog.Logger, what string, isFinal func(error) bool, do func() error) error {
	err := do()
	if err == nil || ctx.Err() != nil {
		return err
	}
	if isFinal(err) {
		log.Error("could not "+what, "error", err)
		return err
	}
	log.Error("could not "+what+"; trying again until it works", "error", err)
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = 50*time.Millisecond, 5*time.Second
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err != nil && isFinal(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0))
	if err == nil {
		log.Info("could " + what + " again")
	}
	return err
}
