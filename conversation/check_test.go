package conversation_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/dbdamage"
)

// After a kill, the whole file is checked in the background, so that the operator is told of damage before
// anybody reads it.
func TestCheckUncleanFindsDamageBeforeAnybodyReadsIt(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := range 200 {
		storetest.Turn(t, s, storetest.Chat, i)
	}
	path := s.Path()
	s.Close()
	said := 0
	expect := func(damaged, logged bool) {
		t.Helper()
		before := storetest.Open(t, path)
		said++
		storetest.Turn(t, before, "telegram:chat:1", said)
		left := killed(t, before)
		before.Close()
		if damaged {
			leaves := dbdamage.Leaves(t, path, "messages")
			dbdamage.Destroy(t, left, leaves[len(leaves)/2])
		}
		var log bytes.Buffer
		next, err := conversation.Open(t.Context(), conversation.Config{Path: left, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		if err := next.DB().CheckUnclean(t.Context()); err != nil {
			t.Fatal(err)
		}
		if found := next.DB().Damages(); len(found) > 0 != damaged {
			t.Errorf("found %v", found)
		}
		if strings.Contains(log.String(), "nothing found") != logged {
			t.Errorf("the log says %s", &log)
		}
	}
	expect(false, true)
	expect(true, false)
}

func TestCheckUncleanAfterAnOrderlyEndDoesNothing(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	s := storetest.New(t)
	for i := range 200 {
		storetest.Turn(t, s, storetest.Chat, i)
	}
	path := s.Path()
	s.Close()
	leaves := dbdamage.Leaves(t, path, "messages")
	dbdamage.Destroy(t, path, leaves[len(leaves)/2])
	s = storetest.Open(t, path)
	if err := s.DB().CheckUnclean(t.Context()); err != nil || len(s.DB().Damages()) > 0 {
		t.Errorf("found %v, %v", s.DB().Damages(), err)
	}
}
