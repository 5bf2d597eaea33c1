package db

import (
	"net/url"
	"strconv"
	"time"
)

// busyTimeout is how long a connection waits for a lock of another process.
const busyTimeout = 10 * time.Second

// dsn returns a data source name with all pragmas, so that each connection of a pool has
// them. extra are names and values that are added or replaced. By default the file must exist:
// otherwise SQLite would create an empty file in place of a database that was moved away.
func dsn(path string, extra ...string) string {
	q := url.Values{
		"mode":             {"rw"},
		"_journal_mode":    {"WAL"},
		"_synchronous":     {"FULL"},
		"_foreign_keys":    {"on"},
		"_busy_timeout":    {strconv.FormatInt(busyTimeout.Milliseconds(), 10)},
		"_txlock":          {"immediate"},
		"_secure_delete":   {"on"},
		"_cache_size":      {"-2000"},
		"_stmt_cache_size": {"64"},
	}
	for i := 0; i < len(extra); i += 2 {
		q.Set(extra[i], extra[i+1])
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}
