package db

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// FuzzTimes checks that any time, and any number in the database, can be written as JSON in every time
// zone, and is read as it was stored.
func FuzzTimes(f *testing.F) {
	for _, seconds := range []int64{0, 1, -1, math.MinInt64, math.MaxInt64, -62135596800, -62135596801, -62167219201, 253402300799, 253402300800} {
		f.Add(seconds)
	}
	random := rand.New(rand.NewPCG(1, 9))
	for range 1000 {
		f.Add(int64(random.Uint64()) >> random.IntN(64))
	}
	zones := []*time.Location{time.UTC, time.FixedZone("", -12*3600), time.FixedZone("", 14*3600)}
	f.Fuzz(func(t *testing.T, n int64) {
		given := time.Unix(n, 0)
		stored := Millis(given)
		if read := FromMillis(stored); Millis(read) != stored {
			t.Errorf("%d is stored as %d, read as %s and stored as %d", n, stored, read, Millis(read))
		}
		if !given.Before(firstTime) && given.Before(lastTime) && n < 1<<40 && n > -1<<40 && n != 0 && !FromMillis(stored).Equal(given) {
			t.Errorf("%s is stored as %s", given, FromMillis(stored))
		}
		for _, zone := range zones {
			for _, at := range []time.Time{FromMillis(stored), FromMillis(n)} {
				if _, err := json.Marshal(at.In(zone)); err != nil {
					t.Errorf("%d: %v", n, err)
				}
			}
		}
	})
}
