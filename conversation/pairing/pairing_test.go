package pairing

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/storetest"
)

// openAt opens the pairings of a store whose time is read from clock.
func openAt(t *testing.T, clock *time.Time) *Pairings {
	t.Helper()
	return New(storetest.New(t, conversation.Config{Now: func() time.Time { return *clock }}))
}

func mustAsk(t *testing.T, s *Pairings, channel, user string) (p Pairing, fresh bool) {
	t.Helper()
	p, fresh, err := s.Ask(t.Context(), conversation.Account{Channel: channel}, user, "Name of "+user)
	if err != nil {
		t.Fatal(err)
	}
	return p, fresh
}

func mustApprove(t *testing.T, s *Pairings, code string) Pairing {
	t.Helper()
	p, err := s.Approve(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantPaired(t *testing.T, s *Pairings, channel, user string, want bool) {
	t.Helper()
	if got, err := s.Has(t.Context(), conversation.Account{Channel: channel}, user); err != nil || got != want {
		t.Fatalf("%s:%s is paired: %v, %v; want %v", channel, user, got, err, want)
	}
}

// listed returns the people of List, such as "telegram:42 asks".
func listed(t *testing.T, s *Pairings) string {
	t.Helper()
	list, err := s.List(t.Context())
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

func TestCodeAdmitsOnePerson(t *testing.T) {
	t.Parallel()
	s := New(storetest.New(t))
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
	if _, err := s.Approve(t.Context(), p.Code); !errors.Is(err, ErrNotFound) {
		t.Fatalf("the code is valid a second time: %v", err)
	}
	if again, fresh := mustAsk(t, s, "telegram", "42"); fresh || again.ApprovedAt.IsZero() {
		t.Fatalf("a person with access got a new code: %+v", again)
	}
}

func TestCodeIsKeptUntilItExpires(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(1_700_000_000_000)
	s := openAt(t, &clock)
	first, _ := mustAsk(t, s, "telegram", "42")
	clock = first.ExpiresAt.Add(-time.Second)
	if p, fresh := mustAsk(t, s, "telegram", "42"); fresh || p != first {
		t.Fatalf("another code while the first is good: %+v, %+v", first, p)
	}
	clock = first.ExpiresAt
	if _, err := s.Approve(t.Context(), first.Code); !errors.Is(err, ErrNotFound) {
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

// Beyond the limit, the oldest open code is dropped, and never an approved one.
func TestOpenCodesAreLimited(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(1_700_000_000_000)
	s := openAt(t, &clock)
	friend, _ := mustAsk(t, s, "telegram", "friend")
	mustApprove(t, s, friend.Code)
	elsewhere, _ := mustAsk(t, s, "discord", "0")
	oldest, _ := mustAsk(t, s, "telegram", "0")
	second, _ := mustAsk(t, s, "telegram", "1")
	err := s.db.Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < ? - 1)
			INSERT INTO pairings (channel, user_id, name, code, asked_at, expires_at)
			SELECT 'telegram', n, '', 'code ' || n, ?, ? FROM n`, maxCodes, db.Millis(oldest.AskedAt), db.Millis(oldest.ExpiresAt))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, fresh := mustAsk(t, s, "telegram", "0"); fresh {
		t.Fatal("a code within the limit is not valid any more")
	}
	late, _ := mustAsk(t, s, "telegram", "late")
	if _, err := s.Approve(t.Context(), oldest.Code); !errors.Is(err, ErrNotFound) {
		t.Fatalf("the oldest code beyond the limit: %v", err)
	}
	for _, p := range []Pairing{second, late, elsewhere} {
		mustApprove(t, s, p.Code)
	}
	wantPaired(t, s, "telegram", "friend", true)
	clock = clock.Add(codeLife)
	mustAsk(t, s, "telegram", "tomorrow")
	var open int
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pairings WHERE code IS NOT NULL`).Scan(&open); err != nil || open != 1 {
		t.Fatalf("%d codes are open, %v", open, err)
	}
}

// People copy codes from a telephone to a terminal by hand.
func TestCodesMayBeTypedLoosely(t *testing.T) {
	t.Parallel()
	s := New(storetest.New(t))
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
		if _, err := s.Approve(t.Context(), wrong); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestRevokedPersonNeedsAnotherCode(t *testing.T) {
	t.Parallel()
	s := New(storetest.New(t))
	p, _ := mustAsk(t, s, "telegram", "42")
	mustApprove(t, s, p.Code)
	asking, _ := mustAsk(t, s, "telegram", "43")
	if got := listed(t, s); got != "telegram:43 asks, telegram:42 is in" {
		t.Fatalf("listed: %s", got)
	}
	for _, user := range []string{"42", "43"} {
		if got, err := s.Revoke(t.Context(), conversation.Account{Channel: "telegram"}, user); err != nil || len(got) != 1 || got[0].UserID != user {
			t.Fatalf("revoke %s: %+v, %v", user, got, err)
		}
		if _, err := s.Revoke(t.Context(), conversation.Account{Channel: "telegram"}, user); !errors.Is(err, ErrNotFound) {
			t.Fatalf("revoke %s twice: %v", user, err)
		}
	}
	wantPaired(t, s, "telegram", "42", false)
	if _, err := s.Approve(t.Context(), asking.Code); !errors.Is(err, ErrNotFound) {
		t.Fatalf("the revoked code: %v", err)
	}
	if got := listed(t, s); got != "" {
		t.Fatalf("listed: %s", got)
	}
	if p, fresh := mustAsk(t, s, "telegram", "42"); !fresh || !p.ApprovedAt.IsZero() {
		t.Fatalf("asking afresh: %+v", p)
	}
}

// The same id may belong to different people on two channels.
func TestPairingHoldsForOneChannel(t *testing.T) {
	t.Parallel()
	s := New(storetest.New(t))
	here, _ := mustAsk(t, s, "telegram", "42")
	there, _ := mustAsk(t, s, "discord", "42")
	mustApprove(t, s, here.Code)
	wantPaired(t, s, "discord", "42", false)
	mustApprove(t, s, there.Code)
	if _, err := s.Revoke(t.Context(), conversation.Account{Channel: "telegram"}, "42"); err != nil {
		t.Fatal(err)
	}
	wantPaired(t, s, "discord", "42", true)
}

// An approval by the operator's command holds in the gateway, which is another process.
func TestAnApprovalCountsInEveryProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	daemon, operator := New(storetest.Open(t, path)), New(storetest.Open(t, path))
	p, _ := mustAsk(t, daemon, "telegram", "42")
	mustApprove(t, operator, p.Code)
	wantPaired(t, daemon, "telegram", "42", true)
	if _, err := operator.Revoke(context.Background(), conversation.Account{Channel: "telegram"}, "42"); err != nil {
		t.Fatal(err)
	}
	wantPaired(t, daemon, "telegram", "42", false)
}

func TestExpiredCodesAreDeletedWithTheirStrangers(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(1_700_000_000_000)
	s := openAt(t, &clock)
	mustAsk(t, s, "telegram", "42")
	clock = clock.Add(codeLife)
	mustAsk(t, s, "telegram", "43")
	var rows int
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pairings`).Scan(&rows); err != nil || rows != 1 {
		t.Fatalf("%d rows, %v", rows, err)
	}
}

func TestPairingHoldsForOneBot(t *testing.T) {
	t.Parallel()
	botA, botB := conversation.Account{Channel: "telegram", ID: "7000001"}, conversation.Account{Channel: "telegram", ID: "7000002"}
	s := New(storetest.New(t))
	ask := func(bot conversation.Account) Pairing {
		t.Helper()
		p, _, err := s.Ask(t.Context(), bot, "42", "Ada")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := func(bot conversation.Account, want bool) {
		t.Helper()
		if in, err := s.Has(t.Context(), bot, "42"); err != nil || in != want {
			t.Errorf("let in by %s: %v, %v; want %v", bot, in, err, want)
		}
	}
	if a, b := ask(botA), ask(botB); a.Code == b.Code || a.Account != botA.ID || b.Account != botB.ID {
		t.Fatalf("%+v, %+v", a, b)
	}
	mustApprove(t, s, ask(botA).Code)
	want(botA, true)
	want(botB, false)
	mustApprove(t, s, ask(botB).Code)
	if _, err := s.Revoke(t.Context(), botA, "42"); err != nil {
		t.Fatal(err)
	}
	want(botA, false)
	want(botB, true)
	mustApprove(t, s, ask(botA).Code)
	if gone, err := s.Revoke(t.Context(), conversation.Account{Channel: "telegram"}, "42"); err != nil || len(gone) != 2 {
		t.Errorf("put out: %+v, %v", gone, err)
	}
	want(botA, false)
	want(botB, false)
	if _, err := s.Revoke(t.Context(), botA, "42"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
