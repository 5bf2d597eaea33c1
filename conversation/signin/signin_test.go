package signin

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/storetest"
)

func TestSignOutHoldsInAllProcesses(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	signIns, until := New(s), time.Now().Add(time.Hour)
	for _, id := range []string{"one", "two"} {
		if err := signIns.Add(t.Context(), id, until); err != nil {
			t.Fatal(err)
		}
	}
	if err := signIns.End(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	another := New(storetest.Open(t, s.Path())) // as in another process, and after a restart
	for id, want := range map[string]bool{"one": false, "two": true, "three": false} {
		if has, err := another.Has(t.Context(), id); err != nil || has != want {
			t.Errorf("%s is signed in: %t, %v", id, has, err)
		}
	}
}

func TestSignInsAreBoundedInTimeAndNumber(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	signIns := New(s)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(signIns.Add(t.Context(), "short", clock.Add(time.Minute)))
	for i := range maxSignIns + 10 {
		must(signIns.Add(t.Context(), fmt.Sprint(i), clock.Add(time.Hour)))
		must(signIns.AddCode(t.Context(), fmt.Sprint(i), time.Hour))
	}
	count := func(table string) (n int) {
		t.Helper()
		must(signIns.db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
		return n
	}
	if n, codes := count("signins"), count("signin_codes"); n != maxSignIns || codes != maxCodes {
		t.Errorf("%d sign-ins and %d codes are kept", n, codes)
	}
	if has, err := signIns.Has(t.Context(), fmt.Sprint(maxSignIns+9)); !has || err != nil {
		t.Errorf("the newest is signed in: %t, %v", has, err)
	}
	clock.Time = clock.Add(2 * time.Hour)
	if has, err := signIns.Has(t.Context(), fmt.Sprint(maxSignIns+9)); has || err != nil {
		t.Errorf("after its time it is signed in: %t, %v", has, err)
	}
	must(signIns.Add(t.Context(), "new", clock.Add(time.Hour)))
	if n := count("signins"); n != 1 {
		t.Errorf("%d sign-ins are kept, all but one of them over", n)
	}
}

func TestSignInCodeIsValidOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	another := storetest.Open(t, s.Path())
	if err := New(s).AddCode(t.Context(), "code", time.Minute); err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			from := New([]*conversation.Store{s, another}[i%2])
			good, err := from.Redeem(t.Context(), "code", fmt.Sprint("browser ", i), time.Now().Add(time.Hour))
			if err != nil {
				t.Error(err)
			}
			if has, err := from.Has(t.Context(), fmt.Sprint("browser ", i)); err != nil || has != good {
				t.Errorf("the code was valid: %t, but its browser is signed in: %t, %v", good, has, err)
			}
			if good {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if taken.Load() != 1 {
		t.Errorf("the code was valid %d times", taken.Load())
	}
}

func TestSignInCodeExpiresWithItsTimeAndItsProcess(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	signIns := New(s)
	redeem := func(code string) bool {
		t.Helper()
		good, err := signIns.Redeem(t.Context(), code, "browser of "+code, clock.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return good
	}
	if _, err := signIns.Server(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("before the first start: %v", err)
	}
	for _, code := range []string{"late", "early", "of the process before"} {
		if err := signIns.AddCode(t.Context(), code, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	clock.Time = clock.Add(9 * time.Minute)
	if !redeem("early") || redeem("early") {
		t.Error("a code is not valid within its time")
	}
	clock.Time = clock.Add(2 * time.Minute)
	if redeem("late") {
		t.Error("a code is valid after its time")
	}
	clock.Time = clock.Add(-2 * time.Minute)
	for _, url := range []string{"http://127.0.0.1:1/", "http://127.0.0.1:2/"} {
		if err := signIns.SetServer(t.Context(), Server{URLs: []string{url}, Token: TokenMade}); err != nil {
			t.Fatal(err)
		}
		if got, err := signIns.Server(t.Context()); err != nil || len(got.URLs) != 1 || got.URLs[0] != url || got.Token != TokenMade {
			t.Errorf("the server is %+v, %v", got, err)
		}
	}
	if redeem("of the process before") != storetest.OnPostgres() { // where another process takes it
		t.Error("a code is valid after the end of its process, or the end of one process has voided another's codes")
	}
}
