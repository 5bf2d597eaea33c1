package conversation

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"
)

// The packages of the subjects import this one, so that its own tests can't import them. Package conversation_test can,
// and sets these functions.
var (
	AskPairing     func(ctx context.Context, s *Store, of Account, user string) (code string, err error)
	ApprovePairing func(ctx context.Context, s *Store, code string) error
	IsPaired       func(ctx context.Context, s *Store, of Account, user string) (bool, error)

	Queues       func(ctx context.Context, s *Store) ([]Queue, error)
	SetServing   func(ctx context.Context, s *Store, bot Account) error
	BeginService func(ctx context.Context, s *Store, bot Account) (former string, left []Queue, err error)

	Find         func(ctx context.Context, s *Store, key Key, words string, limit int) ([]Found, error)
	ReadTurns    func(ctx context.Context, s *Store, key Key, conversation string, first, last int64) ([]string, error)
	ReadToolUses func(ctx context.Context, s *Store, key Key, conversation, tool string, limit int) ([]string, error)
	ReadOverview func(ctx context.Context, s *Store, key Key, conversation string, limit int) ([]string, error)

	ReadStretch func(ctx context.Context, s *Store, conversation string, before int64, tokens int) ([]Message, error)
	Summarize   func(ctx context.Context, s *Store, conversation string, before int64, tokens int, content string, size int) (stored bool, err error)

	RunsByChannel func(ctx context.Context, s *Store) (map[string]int64, error) // of the last hour

	ReadTranscript func(ctx context.Context, s *Store, t Transcript) (c Conversation, place string, seen iter.Seq2[Message, error], err error)
	Newest         func(ctx context.Context, s *Store, c Conversation, bytes int64) (from, older int64, err error)

	// NewCleaner returns the retention of a store: Clean deletes conversations that have rested for expiration, and
	// those that are over, once they are older than retention.
	NewCleaner func(s *Store) (clean func(ctx context.Context, expiration, retention time.Duration) error)
)

// cleaners are the retention of each store, by *Store: it must know the time from the beginning.
var cleaners sync.Map

// cleanable has the retention of a store count the time from now on.
func cleanable(s *Store) *Store {
	cleaners.Store(s, NewCleaner(s))
	return s
}

func mustClean(t testing.TB, s *Store, expiration, retention time.Duration) {
	t.Helper()
	clean, known := cleaners.Load(s)
	if !known {
		t.Fatal("the store was not made cleanable")
	}
	if err := clean.(func(context.Context, time.Duration, time.Duration) error)(t.Context(), expiration, retention); err != nil {
		t.Fatal(err)
	}
}

const day = 24 * time.Hour

// Queue is what waits for a bot, as package bots has it.
type Queue struct {
	Channel       string
	Account       string
	Waiting       int64
	OldestWaiting time.Time
	Due           int64
	OldestDue     time.Time
	Held          int64
	OldestHeld    time.Time
}

// Found is a hit of a search.
type Found struct {
	Seq, Turn int64
	Text      string // with [brackets] around what was found
}

// told stores messages as one run of a session, the first as its question.
func told(t testing.TB, s *Store, key Key, messages ...Message) {
	t.Helper()
	var count int
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM inbox`).Scan(&count); err != nil {
		t.Fatal(err)
	}
	mustAccept(t, s, say(key, 1000+count, messages[0].Content))
	run := answered(key, mustBegin(t, s, key, 1000), "")
	run.Messages = messages
	mustCommit(t, s, run)
}

func user(text string) Message      { return Message{Role: RoleUser, Content: text} }
func assistant(text string) Message { return Message{Role: RoleAssistant, Content: text} }

func count(t testing.TB, s *Store, query string) (n int64) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
