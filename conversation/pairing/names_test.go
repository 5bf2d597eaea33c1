package pairing

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"parley/conversation/storetest"
)

func TestBindNameHoldsInEveryProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	stores := []*Pairings{New(storetest.Open(t, path)), New(storetest.Open(t, path))}
	bound := make([]string, 8)
	var binding sync.WaitGroup
	for i := range bound {
		binding.Go(func() {
			var err error
			if bound[i], err = stores[i%2].BindName(t.Context(), "telegram", "@Ada", fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	binding.Wait()
	for _, holder := range bound {
		if holder == "" || holder != bound[0] {
			t.Fatalf("bound to %q", bound)
		}
	}
	if list, err := stores[1].BoundNames(t.Context()); err != nil || len(list) != 1 || list[0].Name != "@ada" || list[0].Holder != bound[0] || list[0].BoundAt.IsZero() {
		t.Fatalf("listed %+v, %v", list, err)
	}
}

func TestReleaseNameMakesItFree(t *testing.T) {
	t.Parallel()
	s := New(storetest.New(t))
	if _, err := s.ReleaseName(t.Context(), "telegram", "@ada"); !errors.Is(err, ErrNotBound) {
		t.Fatalf("a name that is free: %v", err)
	}
	for _, holder := range []string{"42", "99"} {
		if bound, err := s.BindName(t.Context(), "telegram", "@ada", holder); err != nil || bound != holder {
			t.Fatalf("%s: bound to %q, %v", holder, bound, err)
		}
		if released, err := s.ReleaseName(t.Context(), "telegram", "@ADA"); err != nil || released.Holder != holder {
			t.Fatalf("released %+v, %v", released, err)
		}
	}
}
