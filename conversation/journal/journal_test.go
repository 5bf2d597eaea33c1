package journal_test

import (
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/dbfile"
	"parley/conversation/files"
	"parley/conversation/journal"
	"parley/conversation/media"
	"parley/conversation/steps"
	"parley/conversation/storetest"
)

// journalHarness is a journal in a real store.
type journalHarness struct {
	*journal.Journal
	t     *testing.T
	store *conversation.Store
}

func newJournalHarness(t *testing.T) *journalHarness {
	store := storetest.New(t)
	return &journalHarness{journal.New(store), t, store}
}

func (d *journalHarness) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// begin stores a message to a bot, and returns the run that answers it.
func (d *journalHarness) begin(n int, account string) journal.Run {
	d.t.Helper()
	in := storetest.Say(storetest.Chat, n, "pay")
	in.Account = account
	_, err := d.store.Accept(d.t.Context(), nil, in)
	d.must(err)
	list, err := d.store.Inbox(d.t.Context(), storetest.Chat, 10)
	d.must(err)
	newest := list[len(list)-1]
	return journal.Run{ID: newest.ID, Key: storetest.Chat, Channel: "telegram", Account: account,
		Took: []journal.Message{{ID: newest.ID}}, StartedAt: time.UnixMilli(1_000_000)}
}

// mustJournal returns the journal of the session, and fails the test if there is none.
func (d *journalHarness) mustJournal(accounts ...conversation.Account) journal.Run {
	d.t.Helper()
	run, found, err := d.Of(d.t.Context(), storetest.Chat, accounts...)
	d.must(err)
	if !found {
		d.t.Fatal("there is no journal")
	}
	return run
}

func (d *journalHarness) addRound(run journal.Run, text string, begun ...string) conversation.Message {
	d.t.Helper()
	said := conversation.Message{Role: conversation.RoleAssistant, Content: text, ToolCalls: []conversation.ToolCall{{ID: "a", Name: "pay"}, {ID: "b", Name: "look"}}}
	stored, err := d.AddRound(d.t.Context(), run, journal.Round{
		Said: said, Totals: journal.Totals{Model: "fake", Calls: 1, Prompt: 10}, Steps: []steps.Step{{Kind: steps.Model, Name: "fake", At: run.StartedAt}},
	}, begun)
	d.must(err)
	return stored
}

func (d *journalHarness) addResult(run journal.Run, call, text string, images ...media.Image) conversation.Message {
	d.t.Helper()
	stored, err := d.AddResult(d.t.Context(), run, journal.Result{
		Message: conversation.Message{Role: conversation.RoleTool, ToolCallID: call, Content: text, Images: images},
		Step:    steps.Step{Kind: steps.Tool, Name: "pay", CallID: call, At: run.StartedAt},
	})
	d.must(err)
	return stored
}

// What a run has done is read as it was stored, round by round.
func TestJournalIsReadAsItWasStored(t *testing.T) {
	t.Parallel()
	d := newJournalHarness(t)
	run := d.begin(1, "")
	d.addRound(run, "first", "a")
	d.addResult(run, "a", "paid")
	d.must(d.AddBegun(t.Context(), run, "b"))
	d.addResult(run, "b", "looked")
	d.addRound(run, "second")
	d.must(d.AddBegun(t.Context(), run, "a"))

	got := d.mustJournal()
	if got.ID != run.ID || got.Channel != "telegram" || !got.StartedAt.Equal(run.StartedAt) || !got.Waits || !slices.Equal(got.Took, run.Took) || len(got.Rounds) != 2 {
		t.Fatalf("the run: %+v", got)
	}
	first, second := got.Rounds[0], got.Rounds[1]
	if first.Said.Content != "first" || first.Totals.Prompt != 10 || len(first.Steps) != 1 || len(first.Said.ToolCalls) != 2 {
		t.Errorf("the first round: %+v", first)
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b": true}, first.Begun); diff != "" {
		t.Error(diff)
	}
	if first.Results["a"].Message.Content != "paid" || first.Results["b"].Message.Content != "looked" || first.Results["a"].Step.CallID != "a" {
		t.Errorf("the results: %+v", first.Results)
	}
	if !second.Begun["a"] || second.Begun["b"] || len(second.Results) != 0 {
		t.Errorf("the second round: %+v", second)
	}
}

// Each process resumes runs of the bots that it serves, the oldest first.
func TestJournalIsChosenByAccount(t *testing.T) {
	t.Parallel()
	d := newJournalHarness(t)
	first, second := d.begin(1, "111"), d.begin(2, "222")
	d.addRound(second, "of the second bot")
	d.addRound(first, "of the first bot")
	bot := func(id string) conversation.Account { return conversation.Account{Channel: "telegram", ID: id} }
	for _, tt := range []struct {
		name     string
		accounts []conversation.Account
		want     int64
	}{
		{"any", nil, first.ID},
		{"the first", []conversation.Account{bot("111")}, first.ID},
		{"the second", []conversation.Account{bot("222")}, second.ID},
		{"both", []conversation.Account{bot("222"), bot("111")}, first.ID},
	} {
		if got := d.mustJournal(tt.accounts...); got.ID != tt.want {
			t.Errorf("%s: run %d, want %d", tt.name, got.ID, tt.want)
		}
	}
	for _, other := range []conversation.Account{bot("333"), {Channel: "discord", ID: "111"}} {
		if run, found, err := d.Of(t.Context(), storetest.Chat, other); found || err != nil {
			t.Errorf("%v gets %+v, %v", other, run, err)
		}
	}
	if _, found, err := d.Of(t.Context(), "telegram:chat:43"); found || err != nil {
		t.Errorf("another session has a journal, %v", err)
	}
}

// Processes that die in the same step are counted. The count begins anew with the next step, and after an
// orderly end.
func TestTriesAreCountedByStep(t *testing.T) {
	t.Parallel()
	d := newJournalHarness(t)
	run := d.begin(1, "")
	takeUp := func(want int) {
		t.Helper()
		if tries, err := d.TakeUp(t.Context(), run.ID); tries != want || err != nil {
			t.Errorf("%d tries, %v, want %d", tries, err, want)
		}
	}
	takeUp(0) // there is no journal yet
	d.addRound(run, "first", "a")
	takeUp(1)
	takeUp(2)
	d.addResult(run, "a", "paid")
	takeUp(1)
	takeUp(2)
	d.must(d.Suspend(t.Context(), run.ID))
	takeUp(1)
	if got := d.mustJournal(); got.Tries != 1 {
		t.Errorf("the journal says %d tries", got.Tries)
	}
}

// Pictures are kept with their entries, and read by the ids that the entries have.
func TestJournalKeepsPictures(t *testing.T) {
	t.Parallel()
	d := newJournalHarness(t)
	run := d.begin(1, "")
	d.addRound(run, "draw", "a")
	stored := d.addResult(run, "a", "drawn", media.Image{Name: "a.png", MediaType: "image/png", Size: 3, Data: []byte("png")})
	if image := stored.Images[0]; image.ID == 0 || image.Data != nil {
		t.Errorf("the result has %+v", image)
	}
	again := d.mustJournal().Rounds[0].Results["a"].Message.Images
	if len(again) != 1 || again[0].ID != stored.Images[0].ID || again[0].Name != "a.png" {
		t.Fatalf("the journal has %+v", again)
	}
	kept, err := files.New(d.store).File(t.Context(), storetest.Chat, again[0].ID)
	if err != nil || !kept.IsHere() || kept.Size != 3 {
		t.Errorf("the picture is %+v, %v", kept, err)
	}
}

// The commit of a run deletes its journal, and that of no other run.
func TestCommitDeletesTheJournal(t *testing.T) {
	t.Parallel()
	d := newJournalHarness(t)
	first, second := d.begin(1, "111"), d.begin(2, "222")
	d.addRound(first, "first")
	d.addRound(second, "second")
	snapshot, err := d.store.Begin(t.Context(), storetest.Chat, 1000)
	d.must(err)
	run := storetest.Replied(snapshot, conversation.KindAgent, conversation.StatusDone, "paid", conversation.Message{Role: conversation.RoleUser, Content: "pay"})
	run.Journal = first.ID
	_, err = d.store.Commit(t.Context(), run)
	d.must(err)
	if got := d.mustJournal(); got.ID != second.ID {
		t.Errorf("the journal of run %d is left, want that of %d", got.ID, second.ID)
	}
}

// A journal that can't be decoded is an error.
func TestDamagedJournalIsAnError(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	for name, statement := range map[string]string{
		"no JSON":        `UPDATE journal_entries SET entry = '{' WHERE n = 1`,
		"no first round": `DELETE FROM journal_entries WHERE n = 1`,
		"messages":       `UPDATE journals SET took = '['`,
	} {
		d := newJournalHarness(t)
		run := d.begin(1, "")
		d.addRound(run, "first", "a")
		d.addResult(run, "a", "paid")
		execute(t, d.store.Path(), statement)
		if got, _, err := d.Of(t.Context(), storetest.Chat); err == nil {
			t.Errorf("%s: it is read as %+v", name, got)
		}
	}
}

func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func(db *sql.DB) { _ = db.Close() }(db)
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}
