package agentloop

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/conversation/dbfile"
	"parley/conversation/storetest"
	"parley/internal/waittest"
)

// The disk is full when a question expires: the gateway tries now and then to close it, instead of filling the log and using
// a whole CPU.
func TestQuestionThatCannotBeClosedIsTriedAtAPace(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t) // the trigger is SQLite's
	path := filepath.Join(t.TempDir(), "full.db")
	log := &waittest.Buffer{}
	a := newApprovalHarness(t, storetest.Open(t, path), func(d *Deps) {
		d.Approvals.ApproveTimeout, d.Log = 500*time.Millisecond, slog.New(slog.NewTextHandler(log, nil))
	}, nil)
	db, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER full BEFORE UPDATE ON approvals BEGIN SELECT RAISE(ABORT, 'no room'); END`); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	a.accept(a.from("ann", "pay the bill"))
	a.reply(room)
	until(t, "the question can't be closed", func() bool { return strings.Contains(log.String(), "open questions not read") })
	time.Sleep(answerCheck / 2)
	n := strings.Count(log.String(), "open questions not read")
	if most := 2 + int(time.Since(began)/answerCheck); n > most {
		t.Errorf("it was tried %d times, at most %d are expected", n, most)
	}
	if _, err := db.ExecContext(t.Context(), `DROP TRIGGER full`); err != nil {
		t.Fatal(err)
	}
	if got := a.reply(room); !strings.HasPrefix(got, "⌛ `pay` was not allowed within") {
		t.Errorf("when there is room again: %q", got)
	}
}
