// Package conversation is the store: sessions with their conversations, the messages that
// wait for an answer, the runs that answer them, and the replies that are to be sent. What
// it has acknowledged survives a crash at any instant.
//
// An adapter stores a message with [Store.Accept]. [Store.Begin] returns the [Snapshot]
// that a run starts from, and [Store.Commit] stores the finished [Run] whole or not at all.
// [Store.Deliveries] lists the replies that are due, and [Store.Mark] stores the outcome of
// each. [Store.Lock] keeps other processes from working the same session. [Store.Messages],
// [Store.Sessions] and [Store.Conversations] read what there is.
//
// Each public method owns its transaction. Other subjects, such as search, usage and
// retention, have packages below this one, whose New takes a Store.
package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"parley/conversation/state"

	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
	"parley/conversation/internal/uploads"
	"parley/conversation/internal/wordindex"
)

// The errors that callers tell apart.
var (
	ErrInvalid   = errors.New("invalid")                                                    // what a caller gave can't be stored; the text says why, for that caller
	ErrMoved     = db.ErrMoved                                                              // the database was taken away from its place; nothing is stored meanwhile
	ErrNoAnswer  = errors.New("no such message was accepted")                               // or so long ago that it is forgotten
	ErrNoSession = errors.New("no such session")                                            // no session has the key
	ErrNotFound  = errors.New("no such conversation")                                       // the session, or the store, has none with the ID
	ErrNotFailed = errors.New("there is no such failed delivery, or its words are deleted") // so that nothing can be sent again
	ErrReused    = errors.New("the id was used for something else")                         // an id that is unique in its session or channel
	ErrSettled   = errors.New("the run's messages are settled already")                     // an earlier try of the commit succeeded, and this one stored nothing
)

// IsDamaged reports whether an error says that the database is damaged, so that
// trying again can't help.
func IsDamaged(err error) bool { return db.IsDamaged(err) }

// Store is an open database. It is safe for concurrent use. Several processes may open
// the same database, and Lock keeps them off each other's sessions.
type Store struct {
	db     *db.DB
	now    func() time.Time
	log    *slog.Logger
	events func([]Message) []state.Event // of what programs append and import
	carry  state.Carry
	sweeps sweeper
	closed closedConversations

	embedder atomic.Pointer[Embedder]
}

// Embedder makes the vectors by which a search finds what is said in other words.
type Embedder interface {
	// EmbedQuery returns the vector of a query. It must return soon, with an error if its server does not answer. It is
	// called from any goroutine.
	EmbedQuery(ctx context.Context, text string) ([]float32, error)
}

// SetEmbedder has searches find messages by their vectors, too, from now on.
func (s *Store) SetEmbedder(e Embedder) { s.embedder.Store(&e) }

// Embedder returns what SetEmbedder has set, or nil.
func (s *Store) Embedder() Embedder {
	if e := s.embedder.Load(); e != nil {
		return *e
	}
	return nil
}

// Config says how Open opens a database. Only Path is required.
type Config struct {
	Path string // of the database file; its folder must exist

	Now func() time.Time // the clock; nil = time.Now
	Log *slog.Logger     // of what no caller can be told; nil = none

	// Events reads from messages that programs append or import which events they add to the state of their
	// conversation; nil = only their instructions.
	Events func(messages []Message) []state.Event

	// Carry says what the next conversation takes over when Archive or Reset has ended one.
	Carry state.Carry
}

// Open opens a database, creates it if there is none, and brings its schema up to date.
func Open(ctx context.Context, c Config) (*Store, error) {
	s := &Store{now: time.Now, log: c.Log, events: c.Events, carry: c.Carry}
	if c.Now != nil {
		s.now = c.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.events == nil {
		s.events = func([]Message) []state.Event { return nil }
	}
	var err error
	s.db, err = db.Open(ctx, db.Config{Path: c.Path, Log: s.log, Chores: []db.Chore{
		runtotals.Chore(),
		wordindex.UpdateChore(),
		wordindex.RanksChore(),
		{Name: "what deleted conversations have left", Step: s.sweeps.sweep, Skip: s.sweeps.skip, Needs: wordindex.ChoreName},
		wordindex.ScrubChore(),
		uploads.Chore(),
		blobs.Chore(),
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
