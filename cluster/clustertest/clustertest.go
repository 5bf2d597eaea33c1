// Package clustertest makes clusters for tests.
package clustertest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/cluster"
	"parley/internal/postgrestest"
)

// Nodes of tests live a little longer without a renewal than those of a gateway, since a busy machine may be late.
const (
	Heartbeat = 500 * time.Millisecond
	TTL       = 8 * time.Second
)

// Database makes a database with the tables of the store, and returns its URL.
func Database(t testing.TB) string {
	t.Helper()
	url := postgrestest.Database(t)
	files, err := filepath.Glob(filepath.Join(moduleRoot(t), "conversation/internal/db/migrations/postgres/*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatal("no migrations for PostgreSQL", err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), string(text), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	return url
}

// moduleRoot returns the folder of go.mod, in or above which tests run.
func moduleRoot(t testing.TB) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if len(dir) > 60 {
			t.Fatal("go.mod not found")
		}
	}
}

// Join joins a node that serves. It leaves when the test ends.
func Join(t testing.TB, url, name string) *cluster.Node {
	t.Helper()
	to, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	node, err := cluster.Join(t.Context(), cluster.Config{Database: to, Name: name, Command: cluster.Serves, Heartbeat: Heartbeat, TTL: TTL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = node.Leave(ctx) // its database may be cut off
	})
	return node
}
