package usage

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
	"parley/conversation/internal/sqlite"
	"parley/conversation/retention"
	"parley/conversation/storetest"

	"github.com/google/go-cmp/cmp"
)

const day = 24 * time.Hour

// askNow stores a run of a person that took a given time and ends now.
func askNow(t testing.TB, s *conversation.Store, clock *storetest.Clock, key conversation.Key, id int, who conversation.Sender, took time.Duration, change func(*conversation.Run)) {
	t.Helper()
	in := storetest.SayNow(clock, key, id, "question")
	in.Sender = who
	storetest.Accept(t, s, in)
	run := storetest.Answered(key, storetest.Begin(t, s, key, 1000), "answer")
	run.StartedAt, run.Model, run.Prompt, run.Completion = clock.Add(-took), "gpt", 100, 10
	if change != nil {
		change(&run)
	}
	storetest.Commit(t, s, run)
}

func mustStats(t testing.TB, s *conversation.Store, from, to time.Time, bucket time.Duration) Stats {
	t.Helper()
	stats, err := New(s).Stats(t.Context(), from, to, bucket)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

var ada, bob = conversation.Sender{ID: "1", Name: "Ada"}, conversation.Sender{ID: "2", Name: "Bob"}

func TestStatsShowWhatWasUsedWhenByWhomAndOfWhat(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	noon := clock.Time
	other := conversation.Key("discord:dm:7")
	askNow(t, s, clock, storetest.Chat, 1, ada, time.Second, nil)
	askNow(t, s, clock, storetest.Chat, 2, ada, 3*time.Second, func(r *conversation.Run) { r.Status = conversation.StatusFailed })
	clock.Pass(time.Hour)
	askNow(t, s, clock, other, 3, bob, time.Second, func(r *conversation.Run) { r.Model = "mini" })
	askNow(t, s, clock, other, 4, bob, time.Second, func(r *conversation.Run) { r.Kind = conversation.KindCommand })
	clock.Pass(2 * time.Hour)
	askNow(t, s, clock, storetest.Chat, 5, conversation.Sender{ID: "1", Name: "Ada L."}, time.Second, nil)

	stats := mustStats(t, s, noon, noon.Add(4*time.Hour), 2*time.Hour)
	var runs []int64
	for _, b := range stats.Buckets {
		runs = append(runs, b.Runs)
	}
	if diff := cmp.Diff([]int64{3, 1}, runs); diff != "" { // a command is no use of a model
		t.Fatal(diff)
	}
	first := stats.Buckets[0]
	want := Totals{Runs: 3, Failed: 1, Messages: 6, Prompt: 300, Completion: 30, Took: 5 * time.Second}
	if diff := cmp.Diff(want, first.Totals); diff != "" || !first.At.Equal(noon) {
		t.Errorf("%s at %s", diff, first.At)
	}
	if first.P50 < time.Second/2 || first.P50 > time.Second || first.P95 < 2*time.Second || first.P95 > 4*time.Second {
		t.Errorf("half took at most %s, 95 of 100 %s", first.P50, first.P95)
	}
	var usage []string
	for _, u := range append(stats.Models, stats.People...) {
		usage = append(usage, fmt.Sprint(u.Channel, " ", u.Person.Name, " ", u.Model, " ", u.Runs))
	}
	if diff := cmp.Diff([]string{"telegram  gpt 3", "discord  mini 1", "telegram Ada L. gpt 3", "discord Bob mini 1"}, usage); diff != "" {
		t.Error(diff)
	}
}

func TestStatsOfAQuietTimeAreEmptyBuckets(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	askNow(t, s, clock, storetest.Chat, 1, ada, time.Second, nil)
	stats := mustStats(t, s, clock.Add(-day), clock.Add(-time.Hour), time.Hour)
	if len(stats.Buckets) != 23 || stats.Buckets[0].Runs != 0 || len(stats.Models) != 0 {
		t.Errorf("%d buckets, %+v", len(stats.Buckets), stats.Models)
	}
	for _, bucket := range []time.Duration{0, -time.Hour} {
		if _, err := New(s).Stats(t.Context(), clock.Add(-day), clock.Time, bucket); err == nil {
			t.Errorf("buckets of %s are taken", bucket)
		}
	}
	for _, from := range []time.Time{{}, clock.Add(day)} {
		if _, err := New(s).Stats(t.Context(), from, clock.Time, time.Hour); err == nil {
			t.Errorf("from %s is taken", from)
		}
	}
}

// Buckets may have any size: one that is longer than the whole time gives one bucket, and none fills the
// memory.
func TestStatsAcceptBucketsOfAnySize(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if stats := mustStats(t, s, from, from.Add(48*time.Hour), math.MaxInt64); len(stats.Buckets) != 1 {
		t.Errorf("%d buckets", len(stats.Buckets))
	}
	if stats := mustStats(t, s, from, from.Add(3*time.Hour), 61*time.Minute); len(stats.Buckets) != 2 {
		t.Errorf("%d buckets of two hours", len(stats.Buckets))
	}
}

// A run is counted once, also if a crash comes between its commit and the count, if its replies are in two
// batches, and if it is deleted later.
func TestEveryRunIsCountedOnce(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	path, noon := s.Path(), clock.Time
	for id := range runtotals.Batch/2 + 10 {
		askNow(t, s, clock, storetest.Chat, id, ada, time.Second, func(r *conversation.Run) {
			r.Replies = append(r.Replies, r.Replies[0]) // a batch ends between the two of one run
			if id == 0 {
				r.Replies = r.Replies[:1]
			}
		})
	}
	mustStats(t, s, noon, noon.Add(time.Hour), time.Hour)
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range due {
		if err := s.Mark(t.Context(), d, conversation.MarkSent, ""); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = storetest.Open(t, path, conversation.Config{Now: clock.Now})
	kept := retention.New(s)
	askNow(t, s, clock, storetest.Chat, 9999, ada, time.Second, nil)
	clock.Pass(30 * day)
	if _, err := kept.Clean(t.Context(), retention.Rules{Retention: day}, func(retention.Outdated) {}); err != nil {
		t.Fatal(err)
	}
	if got := mustStats(t, s, noon, noon.Add(time.Hour), time.Hour).Buckets[0].Runs; got != runtotals.Batch/2+11 {
		t.Errorf("%d runs are counted", got)
	}
}

// After an upgrade, the statistics include earlier runs.
func TestUpgradeCountsEarlierRuns(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	s, clock := storetest.NewAged(t)
	path := s.Path()
	for id := range 5 {
		askNow(t, s, clock, storetest.Chat, id, ada, 3*time.Second, nil)
	}
	noon := clock.Time
	before := mustStats(t, s, noon, noon.Add(time.Hour), time.Hour)
	s.Close()
	upgradeRuns(t, path)
	s = storetest.Open(t, path, conversation.Config{Now: clock.Now})
	after := mustStats(t, s, noon, noon.Add(time.Hour), time.Hour)
	before.People[0].Person = conversation.Sender{} // it was not stored
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// upgradeRuns takes a database back to before 00006_runs.sql, and applies that.
func upgradeRuns(t *testing.T, path string) {
	t.Helper()
	db, err := sqlite.Open(path, sqlite.Options{ForeignKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	migration, err := os.ReadFile("../internal/db/migrations/sqlite/00006_runs.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`ALTER TABLE runs DROP COLUMN sender`, `ALTER TABLE runs DROP COLUMN messages`, `ALTER TABLE runs DROP COLUMN steps`,
		`DROP TABLE run_totals`, `DROP TABLE run_people`, `DROP TABLE run_durations`, `DELETE FROM cursors WHERE name = 'run_totals'`,
		string(migration),
		`ALTER TABLE run_totals ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0`, // of a later migration
		`ALTER TABLE run_people ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0`,
		`ALTER TABLE run_totals ADD COLUMN cost INTEGER`, `ALTER TABLE run_people ADD COLUMN cost INTEGER`,
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// BenchmarkStats reads a month in which a million messages were written, by a
// thousand people.
func BenchmarkStats(b *testing.B) {
	const runs, people, hours = 500_000, 1000, 30 * 24
	s := storetest.New(b)
	end := time.Now().Truncate(time.Hour)
	err := s.DB().Write(b.Context(), func(ctx context.Context, tx db.Tx) error {
		for _, statement := range []string{
			`WITH RECURSIVE run (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM run WHERE id < :runs)
			INSERT INTO run_totals
			SELECT :first + id * :hours / :runs, 'telegram', 'gpt', 1, 0, 0, 2, 1000, 100, 2000, 800, NULL FROM run WHERE true
			ON CONFLICT DO UPDATE SET runs = runs + 1, messages = messages + 2`,
			`WITH RECURSIVE run (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM run WHERE id < :runs)
			INSERT INTO run_people
			SELECT (:first + id * :hours / :runs) / 24, 'telegram', id * 7919 % :people, 'gpt', 'Ada', 1, 0, 0, 2, 1000, 100, 2000, 800, NULL FROM run WHERE true
			ON CONFLICT DO UPDATE SET runs = runs + 1, messages = messages + 2`,
			`WITH RECURSIVE run (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM run WHERE id < :runs)
			INSERT INTO run_durations SELECT :first + id * :hours / :runs, 125 << id % 10, 1 FROM run WHERE true
			ON CONFLICT DO UPDATE SET runs = runs + 1`,
		} {
			if _, err := tx.ExecContext(ctx, statement, sql.Named("runs", runs), sql.Named("people", people), sql.Named("hours", hours),
				sql.Named("first", hourOf(end)-hours)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if stats := mustStats(b, s, end.Add(-hours*time.Hour), end, 6*time.Hour); len(stats.People) != people {
			b.Fatal(len(stats.People))
		}
	}
}
