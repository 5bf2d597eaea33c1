package db

import (
	"context"
	"time"

	"parley/conversation/internal/postgres"
	"parley/internal/clock"
)

// analyzeEvery is how often a node looks for tables without statistics.
const analyzeEvery = 5 * time.Second

// unknownTables selects tables of which the server knows too little to plan queries: they were never analyzed, or have grown to
// more than 8 times their size since. Pages have 8 KiB. The server's autovacuum also analyzes them, but only after a minute or
// more, and not at all if it is switched off.
const unknownTables = `
	SELECT c.relname FROM pg_class c
	WHERE c.relkind = 'r' AND c.relnamespace = CAST(current_schema() AS regnamespace)
		AND pg_relation_size(c.oid) / 8192 > 8 * greatest(CASE WHEN c.reltuples < 0 THEN 1 ELSE c.relpages END, 1)`

// analyze makes the server collect statistics of unknownTables. Without statistics the server expects, for example, one message
// where there are a hundred thousand, and sorts all of them to find the newest.
func (s *postgresServer) analyze(ctx context.Context) {
	tables, err := Column[string](s.readers.QueryContext(ctx, unknownTables))
	for _, table := range tables {
		if err == nil { // a table that another node analyzes is skipped
			_, err = s.readers.ExecContext(ctx, `ANALYZE (SKIP_LOCKED) "`+table+`"`)
		}
	}
	if err != nil && ctx.Err() == nil && !postgres.IsLost(err) {
		s.log.Warn("statistics for the database server's planner failed, searches may be slow", "database", s.url, "error", err)
	}
}

// startAnalyzing calls analyze at the interval analyzeEvery, in a goroutine, until stop is called. stop waits for its end.
func (s *postgresServer) startAnalyzing() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		clock.Every(ctx, analyzeEvery, func() { s.analyze(ctx) })
	}()
	return func() {
		cancel()
		<-ended
	}
}
