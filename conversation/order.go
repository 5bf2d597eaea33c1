package conversation

import (
	"encoding/base64"
	"fmt"
	"time"

	"parley/conversation/internal/db"
)

// Order is how a list is paged through.
type Order string

const (
	// ByUse begins with what was used last. What is used while somebody pages
	// moves to the front, so that the pages behind it may lack it.
	ByUse Order = ""
	// ByAge begins with what was made last. It gives everything once that was there
	// at the first page, whatever is used or made meanwhile.
	ByAge Order = "age"
)

// pagePlace is where a page begins: behind the row that was used then.
type pagePlace struct {
	used int64 // milliseconds; with ByAge nothing
	row  int64 // 0 = at the beginning
}

// by is how SQL orders by the order.
func (o Order) by(used, row string) string {
	if o == ByAge {
		return row + ` DESC`
	}
	return used + ` DESC, ` + row + ` DESC`
}

// follows is the condition that a row stands behind the place with the
// parameters :used and :row.
func (o Order) follows(used, row string) string {
	if o == ByAge {
		return `(:row = 0 OR ` + row + ` < :row)`
	}
	return `(:row = 0 OR (` + used + `, ` + row + `) < (:used, :row))`
}

// next is the place behind a row, as callers get it.
func (o Order) next(used time.Time, row int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s/%d/%d", o.name(), db.Millis(used), row))
}

// parse reads what next has given.
func (o Order) parse(from string) (p pagePlace, err error) {
	if from == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(from)
	if err == nil {
		_, err = fmt.Sscanf(string(text), o.name()+"/%d/%d", &p.used, &p.row)
	}
	if err == nil && p.row > 0 && o.next(db.FromMillis(p.used), p.row) == from {
		return p, nil
	}
	return pagePlace{}, fmt.Errorf("%w: no page of this list begins at %q", ErrInvalid, from)
}

func (o Order) name() string {
	if o == ByAge {
		return "age"
	}
	return "use"
}

// cutPage gives a page of what was read with oneMore, and where the one that
// follows begins: behind the page's last row, as next says of it. It is "" when
// none does.
func cutPage[T any](rows []T, limit int, next func(last T) string) (page []T, from string) {
	if limit <= 0 || len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], next(rows[limit-1])
}

// oneMore is the LIMIT that tells whether anything follows on a page.
func oneMore(limit int) int {
	if limit <= 0 {
		return -1 // SQLite's word for none
	}
	return limit + 1
}
