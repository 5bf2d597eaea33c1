package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/config"
	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/retention"
	"parley/conversation/storetest"
	"parley/gateway"
)

// oldDatabase is storetest.OldChats with a configuration that names it. A gateway
// has it open.
func oldDatabase(t *testing.T, section string) (configPath string, daemon *conversation.Store) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "old.db")
	configPath = filepath.Join(dir, "config.toml")
	text := fmt.Sprintf("database = %q\n[conversation]\n%s\n", path, section)
	if err := os.WriteFile(configPath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return configPath, storetest.OldChats(t, path)
}

func cleanupWith(t *testing.T, configPath string, args ...string) string {
	t.Helper()
	var printed strings.Builder
	command := cleanupCommand(&configPath)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetOut(&printed)
	command.SetArgs(args)
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("cleanup %q: %v", args, err)
	}
	return regexp.MustCompile(`[0-9a-f-]{36}`).ReplaceAllString(printed.String(), "UUID")
}

func titles(t *testing.T, s *conversation.Store) (list []string) {
	t.Helper()
	for i := range 3 {
		all, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: conversation.Key(fmt.Sprintf("telegram:chat:%d", i+1)), Limit: 9})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			list = append(list, c.Title)
		}
	}
	return list
}

// A dry run lists exactly what the cleanup then deletes, while the gateway runs.
func TestCleanupListsWhatItThenDeletes(t *testing.T) {
	t.Parallel()
	configPath, daemon := oldDatabase(t, `retention = "8640h"`)
	const table = `SESSION           CONVERSATION                           TITLE          MESSAGES   SIZE       LAST USED
telegram:chat:1   UUID   Trip to Rome   2          21 bytes   400d ago
telegram:chat:2   UUID   Bread [2J      2          19 bytes   400d ago

`
	const sum = "2 conversations, about 40 bytes; 3 settled inbound messages, 3 ended deliveries, 0 expired pairing codes.\n"
	if diff := cmp.Diff(table+"To be deleted: "+sum, cleanupWith(t, configPath, "--dry-run")); diff != "" {
		t.Error(diff)
	}
	if got := titles(t, daemon); len(got) != 4 {
		t.Fatalf("the dry run left %q", got)
	}
	if diff := cmp.Diff(table+"Deleted: "+sum, cleanupWith(t, configPath)); diff != "" {
		t.Error(diff)
	}
	if got := titles(t, daemon); !cmp.Equal(got, []string{"Trip to Oslo", "Today"}) {
		t.Errorf("left: %q", got)
	}
	storetest.Answer(t, daemon, "telegram:chat:2", 99, "hello again", time.Now())
	const nothing = "Deleted: 0 conversations, about 0 bytes; 0 settled inbound messages, 0 ended deliveries, 0 expired pairing codes.\n"
	if got := cleanupWith(t, configPath); got != nothing {
		t.Errorf("once more: %s", got)
	}
}

func TestByDefaultConversationsAreKeptForEver(t *testing.T) {
	t.Parallel()
	configPath, daemon := oldDatabase(t, "")
	got := cleanupWith(t, configPath)
	if !strings.HasPrefix(got, "Deleted: 0 conversations (conversation.retention is 0: they are kept for ever)") {
		t.Errorf("it says %s", got)
	}
	if got := titles(t, daemon); len(got) != 4 {
		t.Errorf("left: %q", got)
	}
}

// A wrong clock must not cost anybody a conversation: no command trusts it further than gateways have seen time pass.
func TestCleanupTrustsTheClockOnlyAsFarAsTimeWasSeenToPass(t *testing.T) {
	t.Parallel()
	configPath, daemon := oldDatabase(t, `retention = "8640h"`)
	if _, err := retention.New(daemon).LookAtClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ahead := func() time.Time { return time.Now().AddDate(2, 0, 0) } // the daemon's machine, a moment later
	beside, err := conversation.Open(t.Context(), conversation.Config{Path: daemon.Path(), Now: ahead})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	cfg, err := config.Load(configPath, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		var printed strings.Builder
		command := cleanupCommand(&configPath)
		command.SetOut(&printed)
		command.SetContext(t.Context())
		rules := gateway.RetentionRules(cfg)
		rules.TrustClock = len(args) > 1
		say := cleanUp
		if args[0] == "--dry-run" {
			say = dryRun
		}
		if err := say(command, beside, cfg, rules); err != nil {
			t.Fatal(err)
		}
		return printed.String()
	}
	const words = "gateways have seen time pass only until"
	for _, tt := range []struct {
		args []string
		sum  string
		held bool
		left int
	}{
		{[]string{"--dry-run"}, "To be deleted: 2 conversations", true, 4},
		{[]string{"--dry-run", "--trust-clock"}, "To be deleted: 4 conversations", false, 4},
		{[]string{""}, "Deleted: 2 conversations", true, 2},
		{[]string{"", "--trust-clock"}, "Deleted: 2 conversations", false, 0},
	} {
		got := run(tt.args...)
		if !strings.Contains(got, tt.sum) || strings.Contains(got, words) != tt.held {
			t.Errorf("%q says %s", tt.args, got)
		}
		if left := titles(t, daemon); len(left) != tt.left {
			t.Errorf("%q left %q", tt.args, left)
		}
	}
}
