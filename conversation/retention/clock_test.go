package retention

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/internal/db"
	"parley/conversation/pairing"
	"parley/conversation/storetest"
)

const (
	year    = 365 * day
	lookGap = 20 * time.Minute // between the looks of a gateway
)

// fakeMachine is a computer with a clock that tests set, and the gateways that run on it.
type fakeMachine struct {
	t    testing.TB
	path string
	wall time.Time     // the time by its clock
	up   time.Duration // run time of the newest process
	true time.Time     // the true time
	gap  time.Duration // between the looks of its gateway
	s    store
}

func newMachine(t testing.TB) *fakeMachine {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := &fakeMachine{t: t, path: filepath.Join(t.TempDir(), "clock.db"), wall: start, true: start, gap: lookGap}
	m.s = m.open()
	return m
}

// open starts a process.
func (m *fakeMachine) open() store {
	m.t.Helper()
	began := m.up
	s := storetest.Open(m.t, m.path, conversation.Config{Now: func() time.Time { return m.wall }})
	return store{s, New(s, WithUptime(func() time.Duration { return m.up - began }))}
}

// off ends the gateway, and starts it again after d.
func (m *fakeMachine) off(d time.Duration) {
	m.t.Helper()
	if err := m.s.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.wall, m.true = m.wall.Add(d), m.true.Add(d)
	m.s = m.open()
	m.passOfTime()
}

// set changes the clock by d, while no time passes.
func (m *fakeMachine) set(d time.Duration) { m.wall = m.wall.Add(d) }

// run lets the gateway run.
func (m *fakeMachine) run(d time.Duration) {
	m.t.Helper()
	for step := min(d, m.gap); d > 0; step = min(d, m.gap) {
		m.wall, m.true, m.up, d = m.wall.Add(step), m.true.Add(step), m.up+step, d-step
		m.passOfTime()
	}
}

func (m *fakeMachine) passOfTime() Clock {
	m.t.Helper()
	c, err := m.s.LookAtClock(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}

// talk stores a conversation that is archived at once.
func (m *fakeMachine) talk(key conversation.Key, id int) {
	m.t.Helper()
	in := storetest.Say(key, id, "hello")
	in.At = m.true // as the platform knows it
	storetest.Accept(m.t, m.s.Store, in)
	turn := storetest.Begin(m.t, m.s.Store, key, 1000)
	run := storetest.Answered(key, turn, "hi")
	run.Messages[0].At = in.At
	storetest.Commit(m.t, m.s.Store, run)
	if _, err := m.s.Reset(m.t.Context(), key, false); err != nil {
		m.t.Fatal(err)
	}
}

// clean deletes conversations that are older than 30 days, and returns their number.
func (m *fakeMachine) clean() int64 {
	m.t.Helper()
	cleaned, err := m.s.Clean(m.t.Context(), Rules{Retention: month}, func(Outdated) {})
	if err != nil {
		m.t.Fatal(err)
	}
	return cleaned.Conversations
}

func TestRetentionIsHeldBackAfterTheClockJumped(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.talk(chat, 1)
	m.run(time.Hour)
	m.set(year)
	m.run(75 * time.Second)
	if n := m.clean(); n != 0 {
		t.Fatalf("%d conversations are deleted 75 s after the jump", n)
	}
	m.run(clockHold - 2*time.Hour)
	if n := m.clean(); n != 0 {
		t.Fatalf("%d conversations are deleted within a day of the jump", n)
	}
	m.set(-year) // the operator has noticed
	m.run(lookGap)
	if n, c := m.clean(), m.passOfTime(); n != 0 || c.Held() != 0 {
		t.Fatalf("%d conversations are deleted; %s held back", n, c.Held())
	}
	m.gap = 6 * time.Hour
	m.run(40 * day)
	if n := m.clean(); n != 1 {
		t.Errorf("%d conversations are deleted after their time, want 1", n)
	}
}

// A clock jump deletes no settled messages, codes and uploads either.
func TestClockJumpDeletesNothingElse(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.talk(chat, 1)
	m.talk(chat, 2)
	sendAll(t, m.s, chat)
	if _, _, err := files.New(m.s.Store).Put(t.Context(), files.Upload{Key: chat, Name: "a.txt", MediaType: "text/plain", Body: strings.NewReader("a"), Most: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.s.Append(t.Context(), chat, "once", conversation.Message{Role: conversation.RoleUser, Content: "kept", Tokens: 1}); err != nil {
		t.Fatal(err)
	}
	m.run(time.Hour)
	if _, _, err := pairing.New(m.s.Store).Ask(t.Context(), conversation.Account{Channel: "telegram"}, "7", "Name of 7"); err != nil {
		t.Fatal(err)
	}
	tables := []string{"inbox", "outbox", "appends", "uploads WHERE state = 'ready'", "pairings", "conversations WHERE deleted = 0"}
	before := map[string]int64{}
	for _, table := range tables {
		before[table] = count(t, m.s, table)
	}
	m.set(year)
	m.run(75 * time.Second)
	m.clean()
	m.off(time.Minute)
	m.clean()
	for _, table := range tables {
		if n := count(t, m.s, table); n != before[table] || n == 0 {
			t.Errorf("%s: %d rows, before the jump %d", table, n, before[table])
		}
	}
}

// A process that starts with a wrong clock sees no jump, and deletes nothing early either.
func TestRetentionIsHeldBackAfterAStartWithAWrongClock(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.talk(chat, 1)
	m.run(time.Hour)
	m.set(year)
	for range 100 { // it is started again and again
		m.off(time.Second)
		m.run(75 * time.Second)
		if n := m.clean(); n != 0 {
			t.Fatalf("%d conversations are deleted", n)
		}
	}
}

// A machine that was off for a year looks like one with a wrong clock. It catches up after a day, also if it
// runs only for a few hours a day.
func TestRetentionCatchesUpAfterTheGatewayWasOff(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.talk(chat, 1)
	m.run(time.Hour)
	m.off(year)
	m.run(clockHold - 2*time.Hour)
	if n := m.clean(); n != 0 {
		t.Fatalf("%d conversations are deleted within a day of the start", n)
	}
	m.run(4 * time.Hour)
	if n := m.clean(); n != 1 {
		t.Errorf("%d conversations are deleted after a day, want 1", n)
	}
	if c := m.passOfTime(); c.Held() != 0 {
		t.Errorf("%s are held back", c.Held())
	}
}

func TestRetentionGoesOnWhereTheGatewayRunsForHoursADay(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.talk(chat, 1)
	for range 29 {
		m.run(8 * time.Hour)
		m.off(16 * time.Hour)
		if n := m.clean(); n != 0 {
			t.Fatal("a conversation is deleted before its time")
		}
	}
	for range 5 {
		m.run(8 * time.Hour)
		m.off(16 * time.Hour)
	}
	if n := m.clean(); n != 1 {
		t.Errorf("%d conversations are deleted after 34 days, %s held back", n, m.passOfTime().Held())
	}
}

// A computer without a battery starts in 1970, and gets the time later. Conversations from before that do
// not count as old.
func TestConversationFromBeforeTheClockWasSetIsNotOld(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.run(time.Hour)
	behind := m.wall.Sub(time.Unix(1000, 0))
	m.set(-behind)
	m.off(time.Minute)
	m.talk(chat, 1)
	m.run(time.Hour)
	if n := m.clean(); n != 0 {
		t.Fatalf("%d conversations are deleted while the clock is behind", n)
	}
	m.set(behind)
	m.run(2 * clockHold)
	if n, c := m.clean(), m.passOfTime(); n != 0 || c.Held() != 0 {
		t.Fatalf("%d conversations are deleted; %s held back", n, c.Held())
	}
	m.gap = 6 * time.Hour
	m.run(month)
	if n := m.clean(); n != 1 {
		t.Errorf("%d conversations are deleted after their time, want 1", n)
	}
}

// A database of an earlier version has no stored clock, but rows with times.
func TestDatabaseWithoutAClockTrustsItsNewestRow(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.talk(chat, 1)
	m.wall, m.true = m.wall.Add(2*month), m.true.Add(2*month)
	m.talk("telegram:chat:7", 1)
	forget := func() {
		t.Helper()
		err := m.s.db.Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
			_, err := tx.ExecContext(ctx, `DELETE FROM clock`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		m.s.clock.last = storedReading{}
	}
	forget()
	m.wall = m.wall.Add(year)
	if n := m.clean(); n != 1 {
		t.Errorf("%d conversations are deleted, want the one that was old when the last record was made", n)
	}
	forget()
	m.off(0)
	if n := m.clean(); n != 0 {
		t.Errorf("%d conversations are deleted by a new process", n)
	}
}

func TestOneOfTwoProcessesCountsTheTime(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.talk(chat, 1)
	other := m.open()
	both := func(hours int) (ran int64) {
		t.Helper()
		for range hours * int(time.Hour/lookGap) {
			m.run(lookGap)
			if _, err := other.LookAtClock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.s.db.QueryRowContext(t.Context(), `SELECT max(ran) FROM clock`).Scan(&ran); err != nil {
			t.Fatal(err)
		}
		return ran
	}
	if ran := both(10); time.Duration(ran)*time.Millisecond != 10*time.Hour {
		t.Errorf("%s are counted of 10h", time.Duration(ran)*time.Millisecond)
	}
	m.s.Close()
	m.s = other // goes on when the one that counted has ended
	m.run(10 * time.Hour)
	if c := m.passOfTime(); c.Held() != 0 {
		t.Errorf("%s held back", c.Held())
	}
	var ran int64
	if err := m.s.db.QueryRowContext(t.Context(), `SELECT max(ran) FROM clock`).Scan(&ran); err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(ran) * time.Millisecond; got < 19*time.Hour || got > 20*time.Hour {
		t.Errorf("%s are counted of 20h", got)
	}
}

// The operator can tell the gateway to trust a clock that was held back.
func TestATrustedClockCountsAtOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.talk(chat, 1)
	m.run(time.Hour)
	m.off(year)
	rules := Rules{Retention: month, TrustClock: true}
	would, err := m.s.Retention.Preview(t.Context(), rules, func(Outdated) {})
	if err != nil || would.Conversations != 1 {
		t.Errorf("would delete %+v, %v", would, err)
	}
	if c := m.passOfTime(); c.Held() != year {
		t.Errorf("after a dry run %s are held back", c.Held())
	}
	process := m.open() // gateway cleanup beside the gateway
	if cleaned, err := process.Clean(t.Context(), rules, func(Outdated) {}); err != nil || cleaned.Conversations != 1 {
		t.Errorf("deleted %+v, %v", cleaned, err)
	}
	m.run(lookGap)
	m.run(lookGap)
	if c := m.passOfTime(); c.Held() != 0 {
		t.Errorf("the gateway still holds %s back", c.Held())
	}
}

// Each update of the clock returns how far it has jumped, for the log.
func TestClockReportsHowFarItJumped(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.run(time.Hour)
	for _, jump := range []time.Duration{year, -year, -time.Hour, time.Hour, 0} {
		m.set(jump)
		m.up += time.Minute
		m.wall = m.wall.Add(time.Minute)
		if c := m.passOfTime(); c.Jumped != jump {
			t.Errorf("a jump of %s is reported as %s", jump, c.Jumped)
		}
	}
}

// Whatever happens to clock and gateway, the trusted time is never ahead of the true time, if a wrong clock
// is corrected within the time that the operator has. It catches up with a right clock.
func TestTrustedTimeIsNeverAheadOfTheTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 9))
		m := newMachine(t)
		m.gap = time.Hour
		m.passOfTime()
		ahead := time.Duration(0) // how long it has run with a clock ahead
		for range 40 {
			right := m.wall.Sub(m.true)
			switch random.IntN(6) {
			case 0:
				m.set(time.Duration(random.Int64N(int64(2*year))) - right)
			case 1:
				m.set(-time.Duration(random.Int64N(int64(2*year))) - right)
			case 2:
				m.off(time.Duration(random.Int64N(int64(10 * day))))
			default:
				d := time.Duration(random.Int64N(int64(20 * time.Hour)))
				if m.wall.After(m.true) && ahead+d > clockHold-3*time.Hour {
					m.set(-right)
				}
				if m.run(d); m.wall.After(m.true) {
					ahead += d
				} else {
					ahead = 0
				}
			}
			if c := m.passOfTime(); c.Trusted.After(m.true) || c.Trusted.After(m.wall) {
				t.Fatalf("seed %d: at %s, by a clock that says %s, the database believes %s", seed, m.true, m.wall, c.Trusted)
			}
		}
		m.set(m.true.Sub(m.wall))
		m.run(clockHold + 2*time.Hour)
		if c := m.passOfTime(); c.Held() != 0 {
			t.Fatalf("seed %d: a right clock is held back by %s", seed, c.Held())
		}
		m.s.Close()
	}
}
