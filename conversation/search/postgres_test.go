package search

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
)

// PostgreSQL keeps new entries of an index in a list that each lookup reads completely. However many messages were just
// added, a rare word takes few pages.
func TestRareWordOnPostgreSQLReadsFewPages(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, err := conversation.Open(t.Context(), conversation.Config{Path: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for n := range 200 {
		var said []string
		for word := range 60 {
			said = append(said, fmt.Sprintf("word%dx%d", n, word))
		}
		storetest.Tell(t, s, "cli:ann", storetest.User(strings.Join(said, " ")), storetest.Assistant(strings.Join(said, " ")))
	}
	storetest.Chores(t, s)
	conn := postgrestest.Connect(t, url)
	for _, query := range []string{
		`SELECT id FROM message_words WHERE words @@ CAST('sword7x7' AS tsquery)`,
		`SELECT id FROM message_ranks WHERE ranks @@ CAST('sword7x7' AS tsquery)`,
	} {
		var plan []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if _, err := conn.Exec(t.Context(), `SET enable_seqscan = off`); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+query).Scan(&plan); err != nil {
			t.Fatal(err)
		}
		if pages := plan[0].Plan.Hit + plan[0].Plan.Read; pages < 1 || pages > 60 {
			t.Errorf("%s reads %d pages", query, pages)
		}
	}
}

// In a session with very many short conversations, the newest messages are looked up by id: the server does not compare each of them
// with each conversation, which takes seconds.
func TestRowsOfManyConversationsAreLookedUpOnPostgreSQL(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, err := conversation.Open(t.Context(), conversation.Config{Path: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	const most, newest = 2000, 100
	storetest.Exec(t, s, `INSERT INTO message_ranks (id, ranks) SELECT c << 24 | m, '' FROM generate_series(1, CAST(2 * ?1 AS bigint)) c, generate_series(1, 10) m`, most)
	storetest.Exec(t, s, `ANALYZE message_ranks`)
	var ids []int64
	for id := int64(most - newest); id < most; id++ {
		ids = append(ids, 2*id+1) // between those of other sessions
	}
	// As the server does when it has seen the statement a few times, it plans without the values.
	own := regexp.MustCompile(`(?s)/\*postgres (.*?) sqlite\*/.*?/\*both\*/`).ReplaceAllString(rowsOf(ranks), "$1")
	own = strings.NewReplacer(":conversations", "$1", ":first", "$2", ":last", "$3").Replace(own)
	conn := postgrestest.Connect(t, url)
	for _, statement := range []string{`SET plan_cache_mode = force_generic_plan`, `SET enable_seqscan = off`, `PREPARE own (text, bigint, bigint) AS SELECT count(*) FROM ` + own + ` AS m`} {
		if _, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	var text string
	err = conn.QueryRow(t.Context(), fmt.Sprintf(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE own ('%s', %d, %d)`,
		db.IDs(ids), wordindex.RowID(ids[0], 1), wordindex.LastPage(2*most)), pgx.QueryExecModeSimpleProtocol).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	if removed := plans[0].Plan.removed(); removed > 0 {
		t.Errorf("the server has read %v rows in vain:\n%s", removed, text)
	}
}

// plan is a node of an executed query plan of PostgreSQL.
type plan struct {
	ByFilter float64 `json:"Rows Removed by Filter"`
	ByJoin   float64 `json:"Rows Removed by Join Filter"`
	Loops    float64 `json:"Actual Loops"`
	Plans    []plan
}

// removed returns the number of rows that the node and those below it have read and filtered out.
func (p plan) removed() float64 {
	n := (p.ByFilter + p.ByJoin) * p.Loops
	for _, below := range p.Plans {
		n += below.removed()
	}
	return n
}
