package db

import (
	"context"
	"time"

	"parley/conversation/internal/postgres"
	"parley/internal/clock"
)

// analyzeEvery is how often a node looks for tables without statistics.
const analyzeEvery = 5 * time.Second

// unknownTables are those of which the server knows too little to plan reads: it has never analyzed them, or they have since
// grown to many times their size. Pages have 8 KiB. The server's autovacuum also finds them, but only within a minute or more,
// and not at all where it is switched off.
const unknownTables = `
	SELECT c.relname FROM pg_class c
	WHERE c.relkind = 'r' AND c.relnamespace = CAST(current_schema() AS regnamespace)
		AND pg_relation_size(c.oid) / 8192 > 8 * greatest(CASE WHEN c.reltuples < 0 THEN 1 ELSE c.relpages END, 1)`

// analyze has the server make statistics of the tables that need them. Without statistics it expects, for example, one message
// where there are a hundred thousand, and sorts them to find the newest.
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

// startAnalyzing calls analyze again and again until the returned function is called.
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
