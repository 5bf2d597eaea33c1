package postgres_test

import (
	"strings"
	"testing"

	"parley/conversation/internal/postgres"
)

func TestRedactLeavesNoSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://parley@db/parley":                                   "postgres://parley@db/parley",
		"postgres://parley:hush@db:5433/parley?sslmode=require":         "postgres://parley@db:5433/parley?sslmode=require",
		"postgres://db/parley?password=hush&user=parley":                "postgres://db/parley?user=parley",
		"postgresql://parley@/parley?host=%2Frun%2Fpg&sslpassword=hush": "postgresql://parley@/parley?host=%2Frun%2Fpg",
		"postgres://parley:hu sh@db/parley":                             "postgres://", // not a URL
		"postgres://parley:hush@one:5432,two:5432/parley":               "postgres://parley@one:5432,two:5432/parley",
	} {
		if got := postgres.Redact(text); got != want {
			t.Errorf("Redact(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	config, err := postgres.ParseURL("postgres://parley:hush@db.example:5433/chats?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "db.example" || config.Port != 5433 || config.Database != "chats" || config.User != "parley" || config.Password != "hush" ||
		config.ConnectTimeout == 0 || config.RuntimeParams["application_name"] != "parley" {
		t.Errorf("host %s, port %d, database %s, user %s, timeout %s, %v", config.Host, config.Port, config.Database, config.User, config.ConnectTimeout, config.RuntimeParams)
	}
	if config, err = postgres.ParseURL("postgres://db/chats?application_name=mine&connect_timeout=60"); err != nil ||
		config.RuntimeParams["application_name"] != "mine" || config.ConnectTimeout.Seconds() != 60 {
		t.Errorf("what the URL says is not kept: %+v, %v", config, err)
	}
	for _, text := range []string{"postgres://parley:hush@db:port/chats", "postgres://parley:hush@db/chats?sslmode=perhaps", "postgres://parley:hu sh@db/chats"} {
		if _, err := postgres.ParseURL(text); err == nil || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "hu sh") {
			t.Errorf("ParseURL(%q) fails with %v", text, err)
		}
	}
}
