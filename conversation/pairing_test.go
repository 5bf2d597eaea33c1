package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/conversation/internal/db"
)

// openAt opens a store whose time is what the clock points to.
func openAt(t *testing.T, clock *time.Time) *Store {
	t.Helper()
	return mustOpen(t, WithClock(func() time.Time { return *clock }))
}

func mustAsk(t *testing.T, s *Store, channel, user string) (p Pairing, fresh bool) {
	t.Helper()
	p, fresh, err := s.AskPairing(t.Context(), Account{Channel: channel}, user, "Name of "+user)
	if err != nil {
		t.Fatal(err)
	}
	return p, fresh
}

func mustApprove(t *testing.T, s *Store, code string) Pairing {
	t.Helper()
	p, err := s.ApprovePairing(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantPaired(t *testing.T, s *Store, channel, user string, want bool) {
	t.Helper()
	if got, err := s.IsPaired(t.Context(), Account{Channel: channel}, user); err != nil || got != want {
		t.Fatalf("%s:%s is paired: %v, %v; want %v", channel, user, got, err, want)
	}
}

// listed is who Pairings shows, such as "telegram:42 asks".
func listed(t *testing.T, s *Store) string {
	t.Helper()
	list, err := s.Pairings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range list {
		state := "asks"
		if !p.ApprovedAt.IsZero() {
			state = "is in"
		}
		if (p.Code == "") != (state == "is in") {
			t.Errorf("%s %s with the code %q", p.UserID, state, p.Code)
		}
		lines = append(lines, fmt.Sprintf("%s:%s %s", p.Channel, p.UserID, state))
	}
	return strings.Join(lines, ", ")
}

func TestACodeLetsOnePersonIn(t *testing.T) {
	s := mustOpen(t)
	p, fresh := mustAsk(t, s, "telegram", "42")
	if !fresh || !regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}$`).MatchString(p.Code) {
		t.Fatalf("the first code: %+v, fresh %v", p, fresh)
	}
	wantPaired(t, s, "telegram", "42", false)
	if got := mustApprove(t, s, p.Code); got.UserID != "42" || got.Name != "Name of 42" || got.ApprovedAt.IsZero() || got.Code != "" {
		t.Fatalf("approved: %+v", got)
	}
	wantPaired(t, s, "telegram", "42", true)
	wantPaired(t, s, "telegram", "43", false)
	if _, err := s.ApprovePairing(t.Context(), p.Code); !errors.Is(err, ErrNoPairing) {
		t.Fatalf("the code is good for a second time: %v", err)
	}
	if again, fresh := mustAsk(t, s, "telegram", "42"); fresh || again.ApprovedAt.IsZero() {
		t.Fatalf("who is in was given a new code: %+v", again)
	}
}

func TestOneCodeIsKeptWhileItIsGood(t *testing.T) {
	clock := time.UnixMilli(1_700_000_000_000)
	s := openAt(t, &clock)
	first, _ := mustAsk(t, s, "telegram", "42")
	clock = first.ExpiresAt.Add(-time.Second)
	if p, fresh := mustAsk(t, s, "telegram", "42"); fresh || p != first {
		t.Fatalf("another code while the first is good: %+v, %+v", first, p)
	}
	clock = first.ExpiresAt
	if _, err := s.ApprovePairing(t.Context(), first.Code); !errors.Is(err, ErrNoPairing) {
		t.Fatalf("the expired code: %v", err)
	}
	if got := listed(t, s); got != "" {
		t.Fatalf("the expired code is listed: %s", got)
	}
	second, fresh := mustAsk(t, s, "telegram", "42")
	if !fresh || second.Code == first.Code {
		t.Fatalf("no new code after the first expired: %+v, fresh %v", second, fresh)
	}
	mustApprove(t, s, second.Code)
	clock = clock.Add(1000 * time.Hour)
	wantPaired(t, s, "telegram", "42", true)
}

// Beyond the limit the oldest code makes room, and never one that was approved.
func TestOpenCodesAreLimited(t *testing.T) {
	clock := time.UnixMilli(1_700_000_000_000)
	s := openAt(t, &clock)
	friend, _ := mustAsk(t, s, "telegram", "friend")
	mustApprove(t, s, friend.Code)
	elsewhere, _ := mustAsk(t, s, "discord", "0")
	oldest, _ := mustAsk(t, s, "telegram", "0")
	second, _ := mustAsk(t, s, "telegram", "1")
	err := s.db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < ? - 1)
			INSERT INTO pairings (channel, user_id, name, code, asked_at, expires_at)
			SELECT 'telegram', n, '', 'code ' || n, ?, ? FROM n`, maxAsking, db.Millis(oldest.AskedAt), db.Millis(oldest.ExpiresAt))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, fresh := mustAsk(t, s, "telegram", "0"); fresh {
		t.Fatal("a code within the limit is void")
	}
	late, _ := mustAsk(t, s, "telegram", "late")
	if _, err := s.ApprovePairing(t.Context(), oldest.Code); !errors.Is(err, ErrNoPairing) {
		t.Fatalf("the oldest code beyond the limit: %v", err)
	}
	for _, p := range []Pairing{second, late, elsewhere} {
		mustApprove(t, s, p.Code)
	}
	wantPaired(t, s, "telegram", "friend", true)
	clock = clock.Add(pairingLife)
	mustAsk(t, s, "telegram", "tomorrow")
	var open int
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pairings WHERE code IS NOT NULL`).Scan(&open); err != nil || open != 1 {
		t.Fatalf("%d codes are open, %v", open, err)
	}
}

// People copy codes from a telephone to a terminal by hand.
func TestCodesMayBeTypedLoosely(t *testing.T) {
	s := mustOpen(t)
	for i, mistype := range []func(string) string{
		strings.ToLower,
		func(code string) string { return strings.ReplaceAll(code, "-", "") },
		func(code string) string { return strings.ReplaceAll(code, "-", " ") },
		func(code string) string { return " " + code + " " },
		strings.NewReplacer("0", "o", "1", "l").Replace,
		strings.NewReplacer("0", "O", "1", "I").Replace,
	} {
		p, _ := mustAsk(t, s, "telegram", fmt.Sprint(i))
		if got := mustApprove(t, s, mistype(p.Code)); got.UserID != p.UserID {
			t.Fatalf("%q let %s in, want %s", mistype(p.Code), got.UserID, p.UserID)
		}
	}
	p, _ := mustAsk(t, s, "telegram", "42")
	for _, wrong := range []string{"", "-", p.Code[:8], p.Code + "0", "%", "****-****"} {
		if _, err := s.ApprovePairing(t.Context(), wrong); !errors.Is(err, ErrNoPairing) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestRevokingClosesTheDoor(t *testing.T) {
	s := mustOpen(t)
	p, _ := mustAsk(t, s, "telegram", "42")
	mustApprove(t, s, p.Code)
	asking, _ := mustAsk(t, s, "telegram", "43")
	if got := listed(t, s); got != "telegram:43 asks, telegram:42 is in" {
		t.Fatalf("listed: %s", got)
	}
	for _, user := range []string{"42", "43"} {
		if got, err := s.RevokePairing(t.Context(), Account{Channel: "telegram"}, user); err != nil || len(got) != 1 || got[0].UserID != user {
			t.Fatalf("revoke %s: %+v, %v", user, got, err)
		}
		if _, err := s.RevokePairing(t.Context(), Account{Channel: "telegram"}, user); !errors.Is(err, ErrNoPairing) {
			t.Fatalf("revoke %s twice: %v", user, err)
		}
	}
	wantPaired(t, s, "telegram", "42", false)
	if _, err := s.ApprovePairing(t.Context(), asking.Code); !errors.Is(err, ErrNoPairing) {
		t.Fatalf("the revoked code: %v", err)
	}
	if got := listed(t, s); got != "" {
		t.Fatalf("listed: %s", got)
	}
	if p, fresh := mustAsk(t, s, "telegram", "42"); !fresh || !p.ApprovedAt.IsZero() {
		t.Fatalf("asking afresh: %+v", p)
	}
}

// The same number may be one person here and another there.
func TestChannelsDoNotShareTheirPeople(t *testing.T) {
	s := mustOpen(t)
	here, _ := mustAsk(t, s, "telegram", "42")
	there, _ := mustAsk(t, s, "discord", "42")
	mustApprove(t, s, here.Code)
	wantPaired(t, s, "discord", "42", false)
	mustApprove(t, s, there.Code)
	if _, err := s.RevokePairing(t.Context(), Account{Channel: "telegram"}, "42"); err != nil {
		t.Fatal(err)
	}
	wantPaired(t, s, "discord", "42", true)
}

// The operator's command is another process than the daemon.
func TestAnApprovalCountsInEveryProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	daemon, operator := mustOpenAt(t, path), mustOpenAt(t, path)
	p, _ := mustAsk(t, daemon, "telegram", "42")
	mustApprove(t, operator, p.Code)
	wantPaired(t, daemon, "telegram", "42", true)
	if _, err := operator.RevokePairing(context.Background(), Account{Channel: "telegram"}, "42"); err != nil {
		t.Fatal(err)
	}
	wantPaired(t, daemon, "telegram", "42", false)
}

func TestNothingIsKeptOfStrangersWhoseCodesExpired(t *testing.T) {
	clock := time.UnixMilli(1_700_000_000_000)
	s := openAt(t, &clock)
	mustAsk(t, s, "telegram", "42")
	clock = clock.Add(pairingLife)
	mustAsk(t, s, "telegram", "43")
	var rows int
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pairings`).Scan(&rows); err != nil || rows != 1 {
		t.Fatalf("%d rows, %v", rows, err)
	}
}
