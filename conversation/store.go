// Package conversation holds what is kept: sessions, conversations, runs,
// messages, the inbox and the outbox, in one SQLite file. All SQL of the
// project lives here, and none of SQLite's types leave.
package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-sqlite3"
)

// What a session spans, as the configuration spells it.
const (
	ScopePlace = "place" // one place
	ScopeUser  = "user"  // the private chats of one person, wherever they are; other places as with ScopePlace
)

// Config is the [conversation] section.
type Config struct {
	// Scope is whether the private chats of a person whose accounts are linked are
	// one session: ScopeUser, or ScopePlace. Default ScopePlace.
	Scope string `toml:"scope" oneof:"place user"`
	// MaxTokens is the most that a model is sent of one conversation, system
	// prompt and waiting messages included. Default 32000.
	MaxTokens int `toml:"max_tokens" min:"500"`
	// TokenStrategy is what becomes of the part of a conversation that MaxTokens has
	// no room for: sliding_window leaves it out, summarization shows a summary of
	// it that the model makes, and KeepRecentMessages as they are. Default
	// sliding_window, and 20.
	TokenStrategy      string `toml:"token_strategy" oneof:"sliding_window summarization"`
	KeepRecentMessages int    `toml:"keep_recent_messages" min:"2" max:"10000"`
	// StateBudget is how many tokens the session state may have, which the model is
	// told in every run; 0 = it is told none. Default 800.
	StateBudget int `toml:"state_budget" min:"0" max:"100000"`
	// HintPhrases are words, beside the built-in ones, by which a message points at
	// what was said long ago: the model is then reminded that it can look that up.
	// Default none.
	HintPhrases []string `toml:"hint_phrases"`
	// SessionExpiration is how long a conversation may rest before the next
	// message begins a new one; the old one is kept. 0 = for ever. Default 720h.
	SessionExpiration time.Duration `toml:"session_expiration" min:"0"`
	// Retention is how long a conversation that is over is kept after its last
	// use. 0 = for ever. Default 0.
	Retention time.Duration `toml:"retention" min:"0"`
	// CleanupInterval is how often what is no longer kept is deleted. Default 1h.
	CleanupInterval time.Duration `toml:"cleanup_interval" min:"1s"`
}

// DefaultConfig is what holds when the section says nothing.
func DefaultConfig() Config {
	return Config{
		Scope:              ScopePlace,
		MaxTokens:          32_000,
		TokenStrategy:      "sliding_window",
		KeepRecentMessages: 20,
		StateBudget:        800,
		SessionExpiration:  720 * time.Hour,
		CleanupInterval:    time.Hour,
	}
}

// Store is the database. It is safe for concurrent use; several processes may
// open the same file, and Lock keeps them off each other's sessions.
type Store struct {
	given   string // the path as it was given to Open
	path    string
	readers *sql.DB
	writer  *writer
	files   *openFiles
	damages *damages
	locks   *locks
	now     func() time.Time
	uptime  func() time.Duration // since Open, by the monotonic clock
	clock   clockWatch
	log     *slog.Logger
	unclean bool
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

// Open opens the database at path, makes it when there is none, and brings
// its schema up to date. The folder must exist.
func Open(ctx context.Context, path string, options ...Option) (*Store, error) {
	if err := requireFTS5(); err != nil {
		return nil, err
	}
	given, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if path, err = realPath(path); err != nil {
		return nil, err
	}
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	locks, err := openLocks(path+lockSuffix, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, explainFile(path, err))
	}
	s := &Store{given: given, path: path, locks: locks, now: time.Now, log: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(s)
	}
	if opened := s.now(); s.uptime == nil {
		s.uptime = func() time.Duration { return s.now().Sub(opened) }
	}
	s.damages = newDamages(s.log)
	s.tightenFiles()
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open %s: %w", path, explainFile(path, explain(err)))
	}
	return s, nil
}

const (
	readerIdle  = 5 * time.Second // how long a connection for reading keeps its cache without use
	readerCache = "-500"          // KiB
)

func (s *Store) open(ctx context.Context) error {
	migrated, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	defer migrated.Close() // not before the writer is open: the last one to close a file syncs it twice
	if s.writer, err = openWriter(ctx, s.log, s.damages, s.path); err != nil {
		return err
	}
	if s.files, err = newOpenFiles(s.given, s.path); err != nil {
		return err
	}
	readers := max(2, runtime.GOMAXPROCS(0))
	s.readers = sql.OpenDB(connector{s.files, s.damages, dsn(s.path, "_query_only", "1", "_cache_size", readerCache)})
	s.readers.SetMaxOpenConns(readers)
	s.readers.SetMaxIdleConns(readers)
	s.readers.SetConnMaxIdleTime(readerIdle)
	s.writer.place(s.files, s.locks, s.readers, readers)
	return nil
}

// prepare makes the file ready to be used, one process at a time. The connection
// that it used is the caller's to close.
func (s *Store) prepare(ctx context.Context) (db *sql.DB, err error) {
	const wait, tries = 50 * time.Millisecond, 40 // for another process that just closes the database, or makes its log anew
	for range tries {
		if db, err = s.tryPrepare(ctx); !errors.Is(err, errNoLog) {
			return db, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, err
}

func (s *Store) tryPrepare(ctx context.Context) (*sql.DB, error) {
	pid, unlock, err := s.locks.try(migrationLock, syscall.F_WRLCK)
	if errors.Is(err, errHeld) {
		s.log.Info("waiting for another process that prepares the database", "pid", pid)
		unlock, err = s.locks.wait(migrationLock)
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	alone, sameBoot, err := s.locks.join()
	if err != nil {
		return nil, err
	}
	if !alone {
		if err := s.locks.checkShared(); err != nil {
			return nil, errors.Join(err, s.locks.leave())
		}
		return s.migrate(ctx)
	}
	if err := s.takeOver(ctx, sameBoot); err != nil {
		return nil, err
	}
	if err := makePrivate(s.path); err != nil {
		return nil, err
	}
	s.locks.noteFile()
	return s.migrate(ctx)
}

// takeOver looks at what the processes before this one have left.
func (s *Store) takeOver(ctx context.Context, sameBoot bool) error {
	done, err := finishReplace(s.path)
	if err != nil {
		return err
	}
	if done != nil {
		s.log.Warn("interrupted restore finished", "database", s.path, "restored", done.Origin, "set_aside", done.Kept)
	}
	s.unclean, err = s.checkWAL(ctx, sameBoot)
	return err
}

// Unclean reports whether the process that had the database open last died
// instead of closing it.
func (s *Store) Unclean() bool { return s.unclean }

// Close waits for the writes under way and closes the file. Every lock that
// this process held is free afterwards.
func (s *Store) Close() error {
	var errs []error
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	if s.files != nil {
		errs = append(errs, s.files.close())
	}
	errs = append(errs, s.locks.close())
	return errors.Join(errs...)
}

// Path is the absolute path of the database file.
func (s *Store) Path() string { return s.path }

// realPath follows links, as SQLite does, so that every process finds the same
// lock file beside the database.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file, nil
	}
	if target, err := os.Readlink(path); err == nil { // to a file that is not there yet
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path)), nil
	}
	return path, nil
}

func checkFolder(path string) error {
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("open %s: the folder %s does not exist", path, dir)
	case err != nil:
		return fmt.Errorf("open %s: %w", path, err)
	case !info.IsDir():
		return fmt.Errorf("open %s: %s is not a folder", path, dir)
	}
	return nil
}

// makePrivate makes the file when there is none, readable by its owner alone:
// it will hold what people say in private. SQLite gives its side files the same
// permissions. A file that can't be written is an error here: SQLite would open
// it, and tell only when the first message is to be stored.
func makePrivate(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, syscall.EISDIR) {
		return nil // SQLite's own error says more
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// busyTimeout is how long a connection waits for another process.
const busyTimeout = 10 * time.Second

// dsn carries every pragma, so that each pooled connection has them. The file
// must be there: SQLite would make an empty one where it was taken away.
func dsn(path string, extra ...string) string {
	q := url.Values{
		"mode":             {"rw"},
		"_journal_mode":    {"WAL"},
		"_synchronous":     {"FULL"},
		"_foreign_keys":    {"on"},
		"_busy_timeout":    {strconv.FormatInt(busyTimeout.Milliseconds(), 10)},
		"_txlock":          {"immediate"},
		"_secure_delete":   {"on"},
		"_cache_size":      {"-2000"},
		"_stmt_cache_size": {"64"},
	}
	for i := 0; i < len(extra); i += 2 {
		q.Set(extra[i], extra[i+1])
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

func requireFTS5() error {
	if !fts5 {
		return errors.New("this gateway was built without SQLite's full-text search: build it with `make build`, or `go build -tags sqlite_fts5`")
	}
	return nil
}

// explainFile adds to an error of the file system what the operator can do
// about it. SQLite makes files beside the database, so the folder matters too.
func explainFile(path string, err error) error {
	switch dir := filepath.Dir(path); {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the file system of %s is read-only: mount it writable, or set database to a path elsewhere (%w)", dir, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the user with the id %d may not write here: let it write to the folder %s and to the files in it that begin with %q, "+
			"or set database to a path elsewhere (%w)", os.Geteuid(), dir, filepath.Base(path), err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the disk is full: make room (%w)", err)
	}
	return err
}

// isCorrupt reports whether SQLite found damage.
func isCorrupt(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB)
}

// explain adds to an error of SQLite what the operator can do about it.
func explain(err error) error {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return err
	}
	advice := map[sqlite3.ErrNo]string{
		sqlite3.ErrFull:     "the disk is full: make room, and work goes on by itself",
		sqlite3.ErrReadonly: "the database can't be written: let this user write the file, the files beside it and their folder",
		sqlite3.ErrCantOpen: "the database can't be opened: let this user read and write the file, the files beside it and their folder",
		sqlite3.ErrIoErr:    "the disk failed or is full",
		sqlite3.ErrBusy:     "another process keeps the database locked",
		sqlite3.ErrCorrupt:  "the file is damaged: " + DamageAdvice,
		sqlite3.ErrNotADB:   "the file is not a SQLite database",
	}[e.Code]
	if advice == "" || strings.Contains(err.Error(), advice) {
		return err
	}
	return fmt.Errorf("%s (%w)", advice, err)
}
