package conversation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// knownSessions are sessions that this process has found in the store, with their places. Another process may have moved one since,
// so whoever relies on them has the server check it.
type knownSessions struct {
	mu     sync.Mutex
	places map[Key]string
}

// maxKnown is how many sessions are known at a time; the next one empties the set.
const maxKnown = 10_000

// all reports whether the sessions of all messages are known, and are where the messages say. Two keys that are known belong to
// two sessions, so that it does not matter in which order their messages are stored; with others, one may be a place that has
// moved to the other.
func (k *knownSessions) all(batch []Inbound) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !slices.ContainsFunc(batch, func(in Inbound) bool {
		place, known := k.places[in.Key]
		return !known || in.Place != "" && in.Place != place
	})
}

func (k *knownSessions) add(in Inbound) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.places == nil || len(k.places) >= maxKnown {
		k.places = map[Key]string{}
	}
	if _, known := k.places[in.Key]; !known || in.Place != "" {
		k.places[in.Key] = in.Place
	}
}

func (k *knownSessions) remove(batch []Inbound) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, in := range batch {
		delete(k.places, in.Key)
	}
}

// errNotKnown says that a session is not stored as this process knew it: it, or its place, has moved.
var errNotKnown = errors.New("the session has moved")

// enterSession makes the session of a message if it is new, and gives the message its key, which is another one if its place has
// moved. It leaves a known session to checkKnown.
func enterSession(ctx context.Context, tx db.Tx, in *accepted, now int64) error {
	in.Origin = cmp.Or(in.Origin, in.Key)
	if in.known {
		return nil
	}
	_, key, err := rows.EnterSession(ctx, tx, string(in.Key), db.Text(in.Place), now)
	in.Key = Key(key)
	return err
}

// checkKnown has the server check that a known session is as the message says, which takes no round trip of its own. If it is not,
// the transaction fails with errNotKnown. The message is stored before: on PostgreSQL its row keeps the place from moving until the
// transaction ends, see rows.HoldPlace.
func checkKnown(ctx context.Context, tx db.Tx, in *accepted) error {
	if !in.known {
		return nil
	}
	return db.Require(ctx, tx, func() error { return errNotKnown }, `
		SELECT 1 FROM sessions WHERE key = ?1 AND (?2 = '' OR place = ?2) AND NOT EXISTS (SELECT 1 FROM moved_places WHERE place = ?1)`,
		string(in.Key), db.Text(in.Place))
}
