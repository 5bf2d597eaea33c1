package budgets

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// clock is a time that tests set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func open(t *testing.T, store *conversation.Store, c Config) *Budgets {
	t.Helper()
	b, err := Open(t.Context(), store, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newBudgets(t *testing.T, c Config, at time.Time) (*Budgets, *clock) {
	t.Helper()
	if c.Timezone == "" {
		c.Timezone = "UTC"
	}
	now := &clock{at: at}
	store := storetest.New(t, conversation.Config{Now: now.now})
	return open(t, store, c), now
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func ann(estimate int64) Call {
	return Call{Person: "telegram:42", Session: "telegram:chat:42", Estimate: Amount{Tokens: estimate}}
}

// spend reserves a call and reports what it has used.
func spend(t *testing.T, b *Budgets, call Call, used Amount) []Use {
	t.Helper()
	r, err := b.Reserve(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	warnings, err := b.End(t.Context(), r, used)
	if err != nil {
		t.Fatal(err)
	}
	return warnings
}

// refusal returns why a call is refused.
func refusal(t *testing.T, b *Budgets, call Call) *Refused {
	t.Helper()
	_, err := b.Reserve(t.Context(), call)
	var refused *Refused
	if !errors.As(err, &refused) {
		t.Fatalf("the call was not refused: %v", err)
	}
	return refused
}

func TestNoCapKeepsNoBudget(t *testing.T) {
	t.Parallel()
	if b := open(t, storetest.New(t), Config{Unlimited: []string{"telegram:42"}}); b != nil {
		t.Error("budgets were opened without a cap")
	}
}

func TestReachedCapExplainsTheRefusal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		config Config
		used   Amount
		want   string
	}{
		{Config{PersonTokens: 50_000}, Amount{Tokens: 50_000}, "You have used today's 50,000 tokens; more from 00:00 (in 5 h)."},
		{Config{SessionTokens: 900}, Amount{Tokens: 901}, "This chat has used today's 900 tokens; more from 00:00 (in 5 h)."},
		{Config{TotalCost: 2.5}, Amount{Cost: Money(2.5)}, "Today's 2.50 EUR for everybody are used; more from 00:00 (in 5 h)."},
	} {
		b, _ := newBudgets(t, test.config, noon.Add(7*time.Hour))
		spend(t, b, ann(10), test.used)
		if got := refusal(t, b, ann(10)).Words("EUR"); got != test.want {
			t.Errorf("refused with\n%s\nwant\n%s", got, test.want)
		}
		if _, err := b.Reserve(t.Context(), Call{Session: "cli:other", Person: "cli:me", Unlimited: true}); err != nil {
			t.Errorf("a call without limit was refused: %v", err)
		}
	}
}

func TestEachPersonAndSessionHasItsOwnCap(t *testing.T) {
	t.Parallel()
	b, _ := newBudgets(t, Config{PersonTokens: 100}, noon)
	spend(t, b, ann(10), Amount{Tokens: 100})
	spend(t, b, Call{Person: "telegram:43", Session: "telegram:chat:42"}, Amount{Tokens: 10})
	spend(t, b, Call{Session: "api:task"}, Amount{Tokens: 1000})
	if got := refusal(t, b, Call{Person: "telegram:42", Session: "telegram:chat:9"}).Scope; got != Person {
		t.Errorf("refused by the cap of %s", got)
	}
}

func TestConcurrentCallsExceedACapByOneAtMost(t *testing.T) {
	t.Parallel()
	const most, one = 1000, 90
	b, _ := newBudgets(t, Config{TotalTokens: most}, noon)
	var all sync.WaitGroup
	var mu sync.Mutex
	made, refused := 0, 0
	for range 50 {
		all.Go(func() {
			r, err := b.Reserve(t.Context(), ann(30)) // less than it uses
			if err == nil {
				_, err = b.End(t.Context(), r, Amount{Tokens: one})
			}
			mu.Lock()
			defer mu.Unlock()
			var no *Refused
			switch {
			case err == nil:
				made++
			case errors.As(err, &no):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := b.Of(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if used := list[0].Used; used != int64(made)*one || used < most || made+refused != 50 {
		t.Errorf("%d calls were made, %d refused; %d tokens are used", made, refused, used)
	}
}

func TestReservedCallsLeaveNoRoomForOthers(t *testing.T) {
	t.Parallel()
	b, _ := newBudgets(t, Config{TotalTokens: 100}, noon)
	first, err := b.Reserve(t.Context(), ann(60))
	if err != nil {
		t.Fatal(err)
	}
	if second, err := b.try(t.Context(), []Call{ann(60)}); second != nil || err != nil {
		t.Fatalf("a second call was let through: %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := b.Reserve(t.Context(), ann(60))
		waited <- err
	}()
	if _, err := b.End(t.Context(), first, Amount{Tokens: 20}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waited:
		if err != nil {
			t.Errorf("the second call failed: %v", err)
		}
	case <-time.After(90 * time.Second):
		t.Fatal("the second call waits on")
	}
}

// wantUsed checks how many tokens are used of the first cap.
func wantUsed(t *testing.T, b *Budgets, want int64) {
	t.Helper()
	if list, err := b.Of(t.Context(), "telegram:42", "telegram:chat:42"); err != nil || list[0].Used != want {
		t.Errorf("used are %+v, want %d: %v", list, want, err)
	}
}

// The call of a killed process is counted, since the model's server may have made it.
func TestReservationOfADeadProcessIsCounted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	store := storetest.Open(t, path, conversation.Config{})
	config := Config{TotalTokens: 100, Timezone: "UTC"}
	if _, err := open(t, store, config).Reserve(t.Context(), ann(70)); err != nil {
		t.Fatal(err)
	}
	store.Close()
	again := open(t, storetest.Open(t, path, conversation.Config{}), config)
	wantUsed(t, again, 70)
	spend(t, again, ann(60), Amount{Tokens: 60})
	wantUsed(t, again, 130)
}

// When a gateway dies during a call, the other gateways do not wait for that call, and it is counted.
func TestCallOfADeadNodeDelaysNobody(t *testing.T) {
	t.Parallel()
	config := Config{TotalTokens: 100, Timezone: "UTC"}
	nodes := openNodes(t, config, 2)
	if _, err := nodes[0].Reserve(t.Context(), ann(60)); err != nil {
		t.Fatal(err)
	}
	if second, err := nodes[1].try(t.Context(), []Call{ann(60)}); second != nil || err != nil {
		t.Fatalf("a second call was let through: %v", err)
	}
	nodes[0].Close() // releases its lock, as the death of its node does
	spend(t, nodes[1], ann(60), Amount{Tokens: 60})
	wantUsed(t, nodes[1], 120)
}

// When gateways on several machines make calls of one person at the same time, they exceed a cap by one call at most.
func TestCallsOfSeveralNodesExceedACapByOneAtMost(t *testing.T) {
	t.Parallel()
	const most, one = 1000, 90
	nodes := openNodes(t, Config{TotalTokens: most, Timezone: "UTC"}, 3)
	var all sync.WaitGroup
	for i := range 48 {
		all.Go(func() {
			b := nodes[i%len(nodes)]
			r, err := b.Reserve(t.Context(), ann(one))
			if err == nil {
				_, err = b.End(t.Context(), r, Amount{Tokens: one})
			}
			if no := (*Refused)(nil); err != nil && !errors.As(err, &no) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := nodes[0].Of(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if used := list[0].Used; used < most || used >= most+one {
		t.Errorf("%d tokens are used", used)
	}
}

// A gateway was declared dead, for example since its machine was paused, and has joined again. A call that it has reserved since is
// under way, and others wait for its end: nobody is told that the budget is used up because of what the call may use.
func TestCallOfANodeThatHasJoinedAgainIsUnderWay(t *testing.T) {
	t.Parallel()
	nodes := openNodes(t, Config{TotalTokens: 100, Timezone: "UTC"}, 2)
	node := nodes[0].db.Node()
	former := node.ID()
	err := nodes[1].db.Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE nodes SET dead_at = 1 WHERE id = ?`, former)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM lanes WHERE node_id = ?`, former)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes[1].countDead(t.Context()); err != nil { // takes the name of the first one's reservations
		t.Fatal(err)
	}
	for deadline := time.Now().Add(waittest.Patience); node.ID() == former || !node.Valid(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the node does not join again")
		}
	}
	first, err := nodes[0].Reserve(t.Context(), ann(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes[1].countDead(t.Context()); err != nil {
		t.Fatal(err)
	}
	if second, err := nodes[1].try(t.Context(), []Call{ann(60)}); second != nil || err != nil {
		t.Errorf("a second call was let through or refused: %v", err)
	}
	if _, err := nodes[0].End(t.Context(), first, Amount{Tokens: 10}); err != nil {
		t.Fatal(err)
	}
	spend(t, nodes[1], ann(60), Amount{Tokens: 60})
	wantUsed(t, nodes[1], 70)
}

// openNodes opens budgets of several nodes on one PostgreSQL database.
func openNodes(t *testing.T, config Config, count int) (nodes []*Budgets) {
	t.Helper()
	url := postgrestest.Database(t)
	for range count {
		store, err := conversation.Open(t.Context(), conversation.Config{Path: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		nodes = append(nodes, open(t, store, config))
	}
	return nodes
}

// The reservation of a call that takes longer than any call should is released, and its use is counted
// once when it ends.
func TestOldReservationIsReleased(t *testing.T) {
	t.Parallel()
	b, now := newBudgets(t, Config{TotalTokens: 100}, noon)
	long, err := b.Reserve(t.Context(), ann(70))
	if err != nil {
		t.Fatal(err)
	}
	now.set(noon.Add(maxCall))
	spend(t, b, ann(60), Amount{Tokens: 10})
	wantUsed(t, b, 80)
	if _, err := b.End(t.Context(), long, Amount{Tokens: 50}); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, b, 60)
}

func TestDayEndsAtMidnightOfItsZone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ zone, at, reset string }{
		{"UTC", "2026-05-01T12:00:00Z", "2026-05-02T00:00:00Z"},
		{"Europe/Berlin", "2026-03-28T23:30:00Z", "2026-03-29T22:00:00Z"}, // a day of 23 hours
		{"Europe/Berlin", "2026-10-24T22:30:00Z", "2026-10-25T23:00:00Z"}, // a day of 25 hours
		{"Africa/Cairo", "2026-04-23T10:00:00Z", "2026-04-23T22:00:00Z"},  // has no midnight: 01:00 is the first moment
		{"Asia/Kathmandu", "2026-05-01T18:14:00Z", "2026-05-01T18:15:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, test.at)
		if err != nil {
			t.Fatal(err)
		}
		b, now := newBudgets(t, Config{PersonTokens: 100, Timezone: test.zone}, at)
		spend(t, b, ann(10), Amount{Tokens: 100})
		reset := refusal(t, b, ann(10)).Reset
		if got := reset.UTC().Format(time.RFC3339); got != test.reset {
			t.Errorf("%s in %s: the day ends at %s, want %s", test.at, test.zone, got, test.reset)
		}
		now.set(reset.Add(-time.Millisecond))
		refusal(t, b, ann(10))
		now.set(reset)
		spend(t, b, ann(10), Amount{Tokens: 1})
	}
}

func TestResetIsToldInThePersonsTimeZone(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":              "more from 00:00 (in 12 h).",
		"UTC":           "more from 00:00 (in 12 h).",
		"Africa/Dakar":  "more from 00:00 (in 12 h).", // its clock shows the same
		"Asia/Kolkata":  "more from 05:30 Asia/Kolkata time (in 12 h).",
		"Europe/Berlin": "more from 02:00 Europe/Berlin time (in 12 h).",
	} {
		var zone *time.Location
		if name != "" {
			var err error
			if zone, err = time.LoadLocation(name); err != nil {
				t.Fatal(err)
			}
		}
		b, _ := newBudgets(t, Config{PersonTokens: 1000, Timezone: "UTC"}, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
		warned := spend(t, b, ann(10), Amount{Tokens: 1000})[0].In(zone).In(zone)
		refused := refusal(t, b, ann(10))
		refused.Use = refused.In(zone)
		for _, got := range []string{warned.Warning("EUR", refused.At), refused.Words("EUR"), warned.More(refused.At)} {
			if !strings.HasSuffix(got, want[1:]) { // a sentence may begin with it
				t.Errorf("%q is told %q, want %q", name, got, want)
			}
		}
	}
}

func TestWarningComesOnceADay(t *testing.T) {
	t.Parallel()
	b, now := newBudgets(t, Config{PersonTokens: 1000}, noon)
	if w := spend(t, b, ann(10), Amount{Tokens: 799}); w != nil {
		t.Errorf("warned at 79 %%: %v", w)
	}
	unseen := ann(10)
	unseen.Unseen = true
	if w := spend(t, b, unseen, Amount{Tokens: 1}); w != nil {
		t.Errorf("warned where nobody sees it: %v", w)
	}
	w := spend(t, b, ann(10), Amount{Tokens: 20})
	if len(w) != 1 || w[0].Warning("USD", noon) != "You have used 82 % of today's 1,000 tokens; more from 00:00 (in 12 h)." {
		t.Errorf("warned with %v", w)
	}
	if w := spend(t, b, ann(10), Amount{Tokens: 20}); w != nil {
		t.Errorf("warned again: %v", w)
	}
	now.set(noon.AddDate(0, 0, 1))
	if w := spend(t, b, ann(10), Amount{Tokens: 900}); len(w) != 1 {
		t.Errorf("the next day: %v", w)
	}
}

// sums holds the use of each owner by scope.
type sums map[Scope]map[string]Amount

func (s sums) add(scope Scope, owner string, used Amount) {
	if s[scope] == nil {
		s[scope] = map[string]Amount{}
	}
	sum := s[scope][owner]
	sum.Add(used)
	s[scope][owner] = sum
}

// The sums of ten thousand concurrent calls of several chats are exact.
func TestSumsAreExact(t *testing.T) {
	t.Parallel()
	b, _ := newBudgets(t, Config{PersonTokens: 1 << 50, SessionCost: 1e6, TotalTokens: 1 << 50, TotalCost: 1e6}, noon)
	const atOnce = 50 // so many share transactions
	runs := 10_000
	if testing.Short() {
		runs = 1000
	}
	people := []string{"", "telegram:1", "discord:2", "user:ann"}
	sessions := []conversation.Key{"", "telegram:chat:1", "api:x"}
	want := sums{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for worker := range atOnce {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for range runs / atOnce {
				call := Call{Person: people[random.IntN(len(people))], Session: sessions[random.IntN(len(sessions))], Estimate: Amount{Tokens: 10}}
				used := Amount{Tokens: random.Int64N(100_000), Cost: random.Int64N(1_000_000_000)}
				r, err := b.Reserve(t.Context(), call)
				if err == nil {
					_, err = b.End(t.Context(), r, used)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				want.add(Person, call.Person, used)
				want.add(Session, string(call.Session), used)
				want.add(Total, "", used)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, person := range people {
		for _, session := range sessions {
			list, err := b.Of(t.Context(), person, session)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range list {
				owner := map[Scope]string{Person: person, Session: string(session)}[u.Scope]
				if sum := want[u.Scope][owner]; u.Used != sum.of(u.Unit) {
					t.Errorf("%s of %s %q: %d, want %d", u.Unit, u.Scope, owner, u.Used, sum.of(u.Unit))
				}
			}
		}
	}
}
