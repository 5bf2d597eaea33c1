package agentloop

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"parley/cluster/clustertest"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/storetest"
	"parley/internal/waittest"
	"parley/tools"
)

// newHeldHarness runs a router whose tool "pay" is held open by its server while it asks people something. The key of a call that was
// ended is sent to ended.
func newHeldHarness(t *testing.T, store *conversation.Store) (a *approvalHarness, ended chan string) {
	t.Helper()
	ended = make(chan string, 1)
	pay := tools.Tool{Name: "pay", Parameters: json.RawMessage(`{"type":"object"}`), Forget: func(key string) { ended <- key },
		Call: tools.Text(func(ctx context.Context, _ json.RawMessage) (string, error) {
			if _, answered := tools.InputOf(ctx); answered {
				return "paid", nil
			}
			return "", &tools.NeedsInput{Held: true, Forms: []approvals.Form{{Server: "shop", Message: "Really?", Request: "1"}}}
		})}
	registry, err := tools.NewRegistry(pay)
	if err != nil {
		t.Fatal(err)
	}
	return newApprovalHarness(t, store, func(d *Deps) { d.Tools = registry }, nil), ended
}

// The server of a tool holds a call open on one node while it asks people something, so that this node keeps the session. Whoever archives the
// conversation on another node ends the call there, and does not wait until the question expires.
func TestConversationIsEndedWhileAnotherNodeHoldsACall(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t) // a store on PostgreSQL has a node of its own
	url, path := clustertest.Database(t), filepath.Join(t.TempDir(), "shared.db")
	storeA, a := openNode(t, path, url, "a")
	storeB, b := openNode(t, path, url, "b")
	until(t, "they know each other", func() bool { return len(a.Live()) == 2 && len(b.Live()) == 2 })
	other, _ := newHeldHarness(t, storeA)
	holding, ended := newHeldHarness(t, storeB)
	release := own(t, b, room)
	holding.accept(holding.from("ann", "pay the bill"))
	if got := holding.reply(room); !strings.Contains(got, "Really?") {
		t.Fatalf("the question: %q", got)
	}
	release()
	patient, cancel := context.WithTimeout(t.Context(), waittest.Patience)
	defer cancel()
	if err := other.router.ExclusivelyEnding(patient, room, func(ctx context.Context) error {
		_, err := storeA.Archive(ctx, room, "")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, ended, "the server's call is ended")
	if len(other.open()) > 0 || other.waits() {
		t.Error("the question is open, or the message waits")
	}
}
