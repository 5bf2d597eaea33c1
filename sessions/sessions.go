// Package sessions archives, resets, renames, resumes and deletes sessions and their
// conversations, for the web chat, the console, the API and the operator's commands.
// Every change has exclusive access to its session, gives up after the same time, and
// signals those who watch the session.
package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/branches"
	"parley/conversation/catalog"
	"parley/conversation/state"
)

// Exclusive runs do while nothing else works the session, and returns its error. If
// that is not possible before ctx ends, it returns an error that wraps the cause of
// ctx, and do has not run. The same holds for ErrEnding.
type Exclusive func(ctx context.Context, key conversation.Key, do func(ctx context.Context) error) error

// maxWait limits how long a change waits for exclusive access, during which a run under
// way may end, and how long it then takes.
const maxWait = 5 * time.Second

// ErrBusy is returned when a session was busy for longer than a change waits. Nothing
// was changed.
var ErrBusy = errors.New("an answer is being made in the session")

// ErrEnding is returned when the gateway ends. Nothing was changed.
var ErrEnding = errors.New("the gateway is ending")

// Service makes the changes. It may be used from several goroutines at once.
type Service struct {
	store     *conversation.Store
	exclusive Exclusive
	ending    Exclusive
	changed   func(conversation.Key)
}

// New makes a service that has exclusive access by exclusive, and by ending for changes that end the active
// conversation, which also ends a run that waits for the answer of a person. It reports every
// session that was changed to changed, which may be nil.
func New(store *conversation.Store, exclusive, ending Exclusive, changed func(conversation.Key)) *Service {
	if changed == nil {
		changed = func(conversation.Key) {}
	}
	return &Service{store: store, exclusive: exclusive, ending: ending, changed: changed}
}

// Archive ends a conversation and returns it, the active one where id is "". It
// returns conversation.ErrNotFound where there is none.
func (s *Service) Archive(ctx context.Context, key conversation.Key, id string) (archived conversation.Conversation, err error) {
	err = s.end(ctx, key, id == "" || s.isActive(ctx, key, id), func(ctx context.Context) error {
		archived, err = s.store.Archive(ctx, key, id)
		return err
	})
	return archived, err
}

// Reset archives the active conversation and returns the new one that it begins.
// With keepSystem, that one begins with what programs had appended internally at
// the beginning of the old one.
func (s *Service) Reset(ctx context.Context, key conversation.Key, keepSystem bool) (fresh conversation.Conversation, err error) {
	err = s.end(ctx, key, true, func(ctx context.Context) error {
		fresh, err = s.store.Reset(ctx, key, keepSystem)
		return err
	})
	return fresh, err
}

// Rename changes the title of a conversation and returns the conversation. It returns
// conversation.ErrNotFound where there is none.
func (s *Service) Rename(ctx context.Context, key conversation.Key, id, title string) (renamed conversation.Conversation, err error) {
	err = s.change(ctx, key, func(ctx context.Context) error {
		renamed, err = s.store.Rename(ctx, conversation.Renaming{Key: key, ID: id, Title: title})
		return err
	})
	return renamed, err
}

// Pin puts a session at the top of lists, or takes it from there. It returns
// conversation.ErrNoSession where there is none. It does not wait for the session's work.
func (s *Service) Pin(ctx context.Context, key conversation.Key, pinned bool) error {
	err := catalog.New(s.store).Pin(ctx, key, pinned)
	if err == nil {
		s.changed(key)
	}
	return err
}

// Choose makes the branch that begins with a version of a message the chosen one of a
// conversation. It returns conversation.ErrNotFound for a message that is no version.
func (s *Service) Choose(ctx context.Context, c conversation.Conversation, version int64) error {
	return s.change(ctx, c.Key, func(ctx context.Context) error { return branches.New(s.store).Choose(ctx, c, version) })
}

// Resume makes an archived conversation its session's active one. It returns
// conversation.ErrNotFound where there is none.
func (s *Service) Resume(ctx context.Context, key conversation.Key, id string) error {
	return s.end(ctx, key, !s.isActive(ctx, key, id), func(ctx context.Context) error { return s.store.Resume(ctx, key, id) })
}

// Correct changes the state of the active conversation, and returns the conversation.
// Errors are those of conversation.Store.Correct.
func (s *Service) Correct(ctx context.Context, key conversation.Key, correction state.Correction, record conversation.Message) (changed conversation.Conversation, err error) {
	err = s.change(ctx, key, func(ctx context.Context) error {
		changed, err = s.store.Correct(ctx, key, correction, record)
		return err
	})
	return changed, err
}

// Delete deletes a conversation for good, or all conversations and the metadata of
// the session where id is "", and returns how many it deleted.
func (s *Service) Delete(ctx context.Context, key conversation.Key, id string) (deleted int, err error) {
	err = s.end(ctx, key, id == "" || s.isActive(ctx, key, id), func(ctx context.Context) error {
		deleted, err = s.store.Delete(ctx, key, id)
		return err
	})
	return deleted, err
}

// isActive reports whether a conversation is the active one of its session.
func (s *Service) isActive(ctx context.Context, key conversation.Key, id string) bool {
	active, err := s.store.Active(ctx, key)
	return err == nil && active.ID == id
}

// change makes a change with exclusive access and reports it.
func (s *Service) change(ctx context.Context, key conversation.Key, do func(context.Context) error) error {
	return s.end(ctx, key, false, do)
}

// end is change, for a change that ends the active conversation if ends is true.
func (s *Service) end(ctx context.Context, key conversation.Key, ends bool, do func(context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, maxWait, ErrBusy)
	defer cancel()
	exclusive := s.exclusive
	if ends {
		exclusive = s.ending
	}
	err := exclusive(limited, key, do)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if err == nil {
		s.changed(key)
	}
	return err
}
