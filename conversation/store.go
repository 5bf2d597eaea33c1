// Package conversation is the store of sessions: their conversations, waiting messages, runs
// and replies. What it has acknowledged survives a crash at any instant.
//
// An adapter stores a message with [Store.Accept]. [Store.Begin] returns the [Snapshot]
// that a run starts from, and [Store.Commit] stores the finished [Run] whole or not at all.
// [Store.Deliveries] lists the replies that are due, and [Store.Mark] stores the outcome of
// each. [Store.Messages] reads what was said. [Store.Lock] keeps other processes from working
// the same session. Each public method owns its transaction. Other subjects, such as search,
// have packages of their own.
package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"parley/cluster"
	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/internal/filepages"
	"parley/conversation/internal/runtotals"
	"parley/conversation/internal/sweep"
	"parley/conversation/internal/uploads"
	"parley/conversation/internal/wordindex"
	"parley/conversation/state"
)

// The errors that callers tell apart.
var (
	ErrInvalid   = db.ErrInvalid                                                            // what a caller gave can't be stored; the text says why, for that caller
	ErrMoved     = db.ErrMoved                                                              // the database was taken away from its place; nothing is stored meanwhile
	ErrNoSession = errors.New("no such session")                                            // no session has the key
	ErrNotFound  = errors.New("no such conversation")                                       // the session, or the store, has no conversation with the ID
	ErrNotFailed = errors.New("there is no such failed delivery, or its words are deleted") // there is no failed delivery that can be sent again
	ErrReused    = errors.New("the id was used for something else")                         // an ID that is unique in its session or channel was used for something else
	ErrSettled   = errors.New("the run's messages are settled already")                     // an earlier try of the commit succeeded, and this one stored nothing
)

// ErrUnreachable says that Open could not reach the database's server, or that the server takes no connections at the moment.
var ErrUnreachable = db.ErrUnreachable

// IsDamaged reports whether an error says that the database is damaged, so that
// trying again can't help.
func IsDamaged(err error) bool { return db.IsDamaged(err) }

// IsDiskFull reports whether an error says that the disk is full, so that nothing is stored
// until somebody makes room.
func IsDiskFull(err error) bool { return db.IsDiskFull(err) }

// Store is an open database. It is safe for concurrent use. Several processes may open
// the same database, and Lock keeps them off each other's sessions.
type Store struct {
	db      *db.DB
	clock   func() time.Time // nil: see At
	log     *slog.Logger
	events  func([]Message) []state.Event // events of the messages that programs append and import, see Config.Events
	carry   state.Carry
	sweeper sweep.Sweeper
	closed  closedConversations
	known   knownSessions
	node    *cluster.Node // nil: the processes that share the file lock sessions there

	embed atomic.Pointer[func(context.Context, string) ([]float32, error)]
}

// SetEmbedder makes searches find messages also by their vectors. embed returns the vector
// of a query soon, or an error if its server does not answer; any goroutine may call it.
func (s *Store) SetEmbedder(embed func(ctx context.Context, query string) ([]float32, error)) {
	s.embed.Store(&embed)
}

// Embedder returns what SetEmbedder has set, or nil.
func (s *Store) Embedder() func(ctx context.Context, query string) ([]float32, error) {
	if embed := s.embed.Load(); embed != nil {
		return *embed
	}
	return nil
}

// Config says how Open opens a database. Only Path is required.
type Config struct {
	Path         string  // path of the database file, whose folder must exist, or the URL of a PostgreSQL database
	PasswordFile string  // holds the password of the URL's user; "" = what the URL and libpq's variables and files say
	Node         db.Node // how this process is called among those that have the database of a URL open

	Now func() time.Time // the clock; nil = that of the database's server, or else of this machine
	Log *slog.Logger     // log for what no caller can be told; nil = none

	// Events reads from messages that programs append or import which events they add to the state of their
	// conversation; nil = only their instructions.
	Events func(messages []Message) []state.Event

	// Carry says what the next conversation takes over when Archive or Reset has ended one.
	Carry state.Carry
}

// Open opens a database, creates it if there is none, and brings its schema up to date.
func Open(ctx context.Context, c Config) (*Store, error) {
	s := &Store{clock: c.Now, log: c.Log, events: c.Events, carry: c.Carry}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.events == nil {
		s.events = func([]Message) []state.Event { return nil }
	}
	path, err := db.RealPath(c.Path)
	if err != nil {
		return nil, err
	}
	chores := slices.Concat([]db.Chore{runtotals.Chore()}, wordindex.UpdateChores(c.Path), []db.Chore{
		s.sweeper.Chore(),
		filepages.Chore(path),
		wordindex.ScrubChore(),
		uploads.Chore(),
		blobs.Chore(),
	})
	s.db, err = db.Open(ctx, db.Config{Path: c.Path, Secret: c.PasswordFile, Log: s.log, Node: c.Node, Chores: chores})
	if err != nil {
		return nil, err
	}
	s.node = s.db.Node()
	return s, nil
}

// DB returns the database of the store. Only the packages below this one can use it.
func (s *Store) DB() *db.DB { return s.db }

// Now returns the time by the store's clock, which is that of the database's server where several machines share it.
func (s *Store) Now() time.Time { return s.At(time.Now()) }

// At returns what the store's clock showed when this process's own showed a time. The clock of Config knows only the present.
func (s *Store) At(own time.Time) time.Time {
	if s.clock != nil {
		return s.clock()
	}
	return s.node.At(own)
}

// Close waits for the writes under way and closes the database. It releases every
// lock that this process holds.
func (s *Store) Close() error { return s.db.Close() }

// Path returns the absolute path of the database file, or the URL of the database without its password.
func (s *Store) Path() string { return s.db.Path() }

// LockedError says that another process works a session.
type LockedError struct {
	Key  Key
	PID  int    // 0 when it can't be told, for example in another container
	Node string // the name of the node, "" where processes share a file
}

func (e *LockedError) Error() string {
	who := "another process"
	switch {
	case e.PID > 0:
		who = fmt.Sprintf("process %d", e.PID)
	case e.Node != "":
		who = "the node " + e.Node
	}
	return fmt.Sprintf("the session %q is in use by %s", e.Key, who)
}

// Lock takes a session for this process until release is called or the
// process dies. It does not wait: a session that another process has gives
// *LockedError. The same process may take it again; release is called once for
// each time.
//
// A node of a cluster also loses its sessions when it can't reach the database: work on them
// goes on as long as the context of [cluster.Node.While].
func (s *Store) Lock(key Key) (release func(), err error) {
	if s.node != nil {
		return s.claim(key)
	}
	release, err = s.db.Lock("session " + string(key))
	var held *db.HeldError
	if errors.As(err, &held) {
		return nil, &LockedError{Key: key, PID: held.PID}
	}
	return release, err
}

func (s *Store) claim(key Key) (release func(), err error) {
	release, err = s.node.Claim(context.Background(), string(key))
	var held *cluster.HeldError
	if errors.As(err, &held) {
		return nil, &LockedError{Key: key, Node: held.Name}
	}
	return release, db.Explain(err)
}

// Join makes the store share its sessions with the nodes of a cluster. It is called before
// the store is used.
func (s *Store) Join(node *cluster.Node) { s.node = node }

// Node returns this process among the nodes that share the database, or nil where processes share
// a file.
func (s *Store) Node() *cluster.Node { return s.node }

// Sweep finishes the store's background work at once. When it returns, deleted words are
// gone from the disk. An error that IsDamaged recognizes says that damage kept some of them.
func (s *Store) Sweep(ctx context.Context) error {
	stuck, err := s.db.FinishChores(ctx)
	if err == nil {
		err = blobs.RemoveFiles(ctx, s.db)
	}
	if err != nil || len(stuck) == 0 && !s.sweeper.HasSkipped() {
		return err
	}
	return fmt.Errorf("not everything that was deleted is gone from the disk: %w", db.Explain(db.ErrDamaged))
}
