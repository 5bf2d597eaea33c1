package retry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"

	"parley/conversation"
	"parley/conversation/retry"
	"parley/conversation/storetest"
	"parley/internal/dbdamage"
)

func TestPersistGivesUpOnDamageAlone(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	path := filepath.Join(t.TempDir(), "damaged.db")
	store := storetest.Open(t, path)
	if _, err := store.Append(t.Context(), "api:a", "", conversation.Message{Role: conversation.RoleUser, Content: "hello"}); err != nil {
		t.Fatal(err)
	}
	c, err := store.Active(t.Context(), "api:a")
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	for _, page := range dbdamage.Leaves(t, path, "messages") {
		dbdamage.Destroy(t, path, page)
	}
	store = storetest.Open(t, path)
	log := slog.New(slog.DiscardHandler)
	tries := 0
	err = retry.Persist(t.Context(), log, "read", func() error {
		tries++
		_, err := store.Messages(t.Context(), conversation.MessageQuery{Conversation: c.ID})
		return err
	})
	if !conversation.IsDamaged(err) || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	full := func() error {
		if tries++; tries == 3 {
			return nil
		}
		return errors.New("the disk is full")
	}
	if err := retry.Persist(t.Context(), log, "write", full); err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestPersistEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := retry.PersistAll(ctx, slog.New(slog.DiscardHandler), "write", func() error {
		if tries++; tries == 2 {
			cancel()
		}
		return fmt.Errorf("try %d failed", tries)
	})
	if err == nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestLockWaitsForAnotherProcess(t *testing.T) {
	synctest.Test(t, testLockWaits)
}

func testLockWaits(t *testing.T) {
	tries := 0
	lock := func(key conversation.Key) (func(), error) {
		if tries++; tries == 1 {
			return nil, &conversation.LockedError{Key: key, PID: 7}
		}
		return func() {}, nil
	}
	release, waited, err := retry.Lock(t.Context(), slog.New(slog.DiscardHandler), lock, "cli:a")
	if err != nil || !waited || release == nil || tries != 2 {
		t.Errorf("waited %t, %d tries, %v", waited, tries, err)
	}
}
