// Package conversation holds what is kept: sessions, conversations, runs,
// messages, the inbox and the outbox. All SQL of the project lives here and in the
// packages below; what is particular to the database engine in internal/db.
package conversation

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
	"parley/conversation/internal/wordindex"
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

// Unclean reports whether the process that had the database open last died
// instead of closing it.
func (s *Store) Unclean() bool { return s.db.Unclean() }

// CheckUnclean checks all of the database if it is Unclean. What it finds is among
// the Damages. A million messages take a few seconds; others read and write meanwhile.
// The error is that of ctx, or why the database could not be checked.
func (s *Store) CheckUnclean(ctx context.Context) error { return s.db.CheckUnclean(ctx) }

// Damages returns the parts of the database that were found to be damaged since
// it was opened, in words for the operator.
func (s *Store) Damages() []string { return s.db.Damages() }

// Close waits for the writes under way and closes the database. It releases every
// lock that this process holds.
func (s *Store) Close() error { return s.db.Close() }

// Path returns the absolute path of the database file.
func (s *Store) Path() string { return s.db.Path() }

// Watch checks every second until ctx ends whether the database is still where it
// was opened, so that the operator is told also while nothing is written. It calls
// back each time the database has come back: of what was written just when it went,
// the caller was told an error, and the store may hold it all the same.
func (s *Store) Watch(ctx context.Context, back func()) { s.db.Watch(ctx, back) }

// Moved returns why nothing is stored while the database is away from its place,
// else nil. The error wraps ErrMoved.
func (s *Store) Moved() error { return s.db.Moved() }

// MarkDaemon tells DaemonPID, for as long as this process lives, that a daemon runs
// on this database. Several may.
func (s *Store) MarkDaemon() error { return s.db.MarkDaemon() }

// Troubles returns what keeps the store from its work, in sentences for the
// operator; none while all is well.
func (s *Store) Troubles() []string {
	var list []string
	if err := s.Moved(); err != nil {
		list = append(list, Sentence(err))
	}
	if parts := s.Damages(); len(parts) > 0 {
		list = append(list, "The database is damaged: "+strings.Join(parts, "; ")+". What can be read goes on; "+DamageAdvice+".")
	}
	return list
}

// Sentence returns an error as a sentence.
func Sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
