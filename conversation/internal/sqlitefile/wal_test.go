package sqlitefile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"parley/conversation/internal/sqlite"
)

// logged returns the log of a database, and the number of its frames by SQLite. The rows after the last
// commit are not counted.
func logged(t testing.TB) (log []byte, frames int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := sqlite.Open(path, sqlite.Options{Journal: sqlite.WAL, CacheKiB: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)`)
	for i := range 20 {
		exec(`INSERT INTO t (text) VALUES (?)`, bytes.Repeat([]byte{byte(i)}, 3000))
	}
	var busy, done int
	if err := db.QueryRow(`PRAGMA wal_checkpoint(NOOP)`).Scan(&busy, &frames, &done); err != nil {
		t.Fatal(err)
	}
	exec(`BEGIN`)
	for i := range 50 { // more than the cache holds, so that SQLite writes what is not committed
		exec(`INSERT INTO t (text) VALUES (?)`, bytes.Repeat([]byte{byte(i)}, 3000))
	}
	if log, err = os.ReadFile(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	return log, frames
}

func TestReadWALFindsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	log, frames := logged(t)
	if size := walHeader + frames*(frameHeader+4096); len(log) <= size {
		t.Fatalf("the log has %d bytes, and its commits %d: nothing stands behind them", len(log), size)
	}
	wal, err := readWAL(bytes.NewReader(log))
	if err != nil || wal == nil || len(wal.Frames) != frames || wal.PageSize != 4096 {
		t.Fatalf("read %+v, %v, want %d frames", wal, err, frames)
	}
	last := wal.Frames[frames-1]
	if want := int64(walHeader + (frames-1)*(frameHeader+4096) + frameHeader); last.Offset != want {
		t.Errorf("the last page stands at %d, want %d", last.Offset, want)
	}

	broken := bytes.Clone(log)
	broken[wal.Frames[5].Offset+100]++
	if wal, err = readWAL(bytes.NewReader(broken)); err != nil || len(wal.Frames) > 5 {
		t.Errorf("behind a damaged frame: read %d frames, %v", len(wal.Frames), err)
	}
	for _, nothing := range [][]byte{nil, log[:10], log[:walHeader], log[:walHeader+frameHeader+100], make([]byte, 5000)} {
		if wal, err := readWAL(bytes.NewReader(nothing)); wal != nil || err != nil {
			t.Errorf("in %d bytes: read %v, %v", len(nothing), wal, err)
		}
	}
}

func FuzzReadWAL(f *testing.F) {
	log, _ := logged(f)
	f.Add(log[:3*(frameHeader+4096)])
	f.Fuzz(func(t *testing.T, log []byte) {
		wal, err := readWAL(bytes.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		if wal != nil && wal.Frames[len(wal.Frames)-1].Offset+int64(wal.PageSize) > int64(len(log)) {
			t.Fatal("a frame stands behind the end")
		}
	})
}

func TestParseEpoch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		`CREATE TABLE other (id INTEGER PRIMARY KEY, a TEXT, b TEXT)`,
		fmt.Sprintf(`INSERT INTO other VALUES (1, '%032x', '%032d')`, 1<<60, 5), // of another form only by its letters
		`UPDATE other SET b = 'Z' || substr(b, 2)`,
		`CREATE TABLE wal_epoch (id INTEGER PRIMARY KEY, epoch TEXT, previous TEXT)`,
		fmt.Sprintf(`INSERT INTO wal_epoch VALUES (1, '%032x', '%032d')`, 1<<61, 7),
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found []epoch
	for page := range len(file) / 4096 {
		if e, ok := parseEpoch(file[page*4096 : (page+1)*4096]); ok {
			found = append(found, e)
		}
	}
	if want := (epoch{fmt.Sprintf("%032x", 1<<61), fmt.Sprintf("%032d", 7)}); len(found) != 1 || found[0] != want {
		t.Errorf("found %v, want %v", found, want)
	}
}
