package conversation

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A session that goes on is read as one that is opened anew.
func TestContinueReadsWhatBeginReads(t *testing.T) {
	s := mustOpenAt(t, t.TempDir()+"/test.db")
	const key, budget = Key("cli:a"), 100
	var known Turn
	for id := range 30 {
		mustAccept(t, s, say(key, id, fmt.Sprintf("question %d", id)))
		fresh := mustBegin(t, s, key, budget)
		var err error
		if known, err = s.Continue(t.Context(), key, budget, known); err != nil {
			t.Fatal(err)
		}
		if fresh.Conversation.Messages == 0 {
			fresh.Conversation.ID = known.Conversation.ID // made anew by each
		}
		if diff := cmp.Diff(fresh, known); diff != "" {
			t.Fatalf("message %d (-begin +continue):\n%s", id, diff)
		}
		run := answered(key, known, fmt.Sprintf("answer %d", id))
		if id == 20 {
			run.Messages = nil
			run.Effect.Archive = true
		}
		mustCommit(t, s, run)
	}
}
