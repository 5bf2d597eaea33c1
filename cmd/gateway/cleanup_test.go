package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/cmd/gateway/config"
	"parley/conversation"
)

// oldDatabase has two chats that fell silent 400 days ago, with an archived
// conversation in the first, and one chat of today. A gateway has it open.
func oldDatabase(t *testing.T, section string) (configPath string, daemon *conversation.Store) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "old.db")
	configPath = filepath.Join(dir, "config.toml")
	text := fmt.Sprintf("database = %q\n[conversation]\n%s\n", path, section)
	if err := os.WriteFile(configPath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	day := 0
	clock := func() time.Time { return time.Now().AddDate(0, 0, day) }
	daemon, err := conversation.Open(t.Context(), path, conversation.WithClock(clock))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { daemon.Close() })
	for i, talk := range []struct {
		day int
		key conversation.Key
		say string
	}{
		{-400, "telegram:chat:1", "Trip to Rome"},
		{-300, "telegram:chat:1", "Trip to Oslo"},
		{-400, "telegram:chat:2", "Bread \x1b[2J"},
		{0, "telegram:chat:3", "Today"},
	} {
		day = talk.day
		answerOne(t, daemon, talk.key, i, talk.say, clock())
	}
	return configPath, daemon
}

// answerOne takes a message through to its reply, which is sent.
func answerOne(t *testing.T, s *conversation.Store, key conversation.Key, id int, text string, at time.Time) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Accept(t.Context(), nil, conversation.Inbound{Key: key, SourceID: fmt.Sprint(id), Text: text, At: at})
	must(err)
	turn, err := s.Begin(t.Context(), key, 1000)
	must(err)
	turn = s.Expire(turn, 30*24*time.Hour)
	done, err := s.Commit(t.Context(), conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting,
		Conversation: turn.Conversation, Title: text,
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: text}, {Role: conversation.RoleAssistant, Content: "So be it."}},
		Replies:  []conversation.Delivery{{Address: "there", Text: "So be it."}},
	})
	must(err)
	must(s.MarkSent(t.Context(), done.Replies[0]))
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
		all, err := s.Conversations(t.Context(), conversation.Key(fmt.Sprintf("telegram:chat:%d", i+1)), 0, 9)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			list = append(list, c.Title)
		}
	}
	return list
}

// The operator sees what would go before it goes, and then exactly that is gone,
// while the gateway runs.
func TestCleanupSaysWhatWouldGoAndThenDeletesIt(t *testing.T) {
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
	answerOne(t, daemon, "telegram:chat:2", 99, "hello again", time.Now())
	const nothing = "Deleted: 0 conversations, about 0 bytes; 0 settled inbound messages, 0 ended deliveries, 0 expired pairing codes.\n"
	if got := cleanupWith(t, configPath); got != nothing {
		t.Errorf("once more: %s", got)
	}
}

func TestByDefaultConversationsAreKeptForEver(t *testing.T) {
	configPath, daemon := oldDatabase(t, "")
	got := cleanupWith(t, configPath)
	if !strings.HasPrefix(got, "Deleted: 0 conversations (conversation.retention is 0: they are kept for ever)") {
		t.Errorf("it says %s", got)
	}
	if got := titles(t, daemon); len(got) != 4 {
		t.Errorf("left: %q", got)
	}
}

// Messages that Discord is asked for after a long absence must still be known.
func TestRowsAreKeptForAsLongAsDiscordIsReadBack(t *testing.T) {
	cfg := config.Default()
	if got := rules(cfg).Redelivery; got != 24*time.Hour {
		t.Errorf("by default %v", got)
	}
	cfg.Discord.CatchUp = 1000 * time.Hour
	if got := rules(cfg).Redelivery; got != cfg.Discord.CatchUp {
		t.Errorf("with a long catch_up %v", got)
	}
}

// A running gateway deletes by itself, again and again, and ends when it is told.
func TestTheGatewayTidiesByItself(t *testing.T) {
	configPath, daemon := oldDatabase(t, `retention = "8640h"`)
	cfg, err := config.Load(configPath, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Conversation.CleanupInterval = time.Millisecond
	var log strings.Builder
	g := &gateway{cfg: cfg, store: daemon, log: slog.New(slog.NewTextHandler(&log, nil))}
	ended := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { defer close(ended); g.tidy(ctx, 0) }()
	for left := (conversation.Cleaned{Inbound: 1}); left != (conversation.Cleaned{}); {
		if left, err = daemon.WouldClean(t.Context(), rules(cfg), func(conversation.Outdated) {}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-ended
	if !strings.Contains(log.String(), "conversations=2 messages=4 inbound=3 deliveries=3") {
		t.Errorf("logged: %s", log.String())
	}
}

// A clock that is wrong must not cost anybody a conversation, by whatever command.
func TestCleanupGoesByTheTimeThatWasSeenToPass(t *testing.T) {
	configPath, daemon := oldDatabase(t, `retention = "8640h"`)
	if _, err := daemon.LookAtClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ahead := func() time.Time { return time.Now().AddDate(2, 0, 0) } // the daemon's machine, a moment later
	beside, err := conversation.Open(t.Context(), daemon.Path(), conversation.WithClock(ahead))
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
		rules := rules(cfg)
		rules.TrustClock = len(args) > 1
		say := cleanUp
		if args[0] == "--dry-run" {
			say = sayWhatWouldGo
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

// The operator reads of a jump, and once of what it holds back and for how long.
func TestTheLogTellsOfAClockThatJumps(t *testing.T) {
	wall, up := time.Now(), time.Duration(0)
	store, err := conversation.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"),
		conversation.WithClock(func() time.Time { return wall }), conversation.WithUptime(func() time.Duration { return up }))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var log strings.Builder
	clock := clockLog{g: &gateway{store: store, log: slog.New(slog.NewTextHandler(&log, nil))}}
	pass := func(d time.Duration) {
		for ; d > 0; d -= lookEvery {
			wall, up = wall.Add(lookEvery), up+lookEvery
			clock.look(t.Context())
		}
	}
	pass(time.Hour)
	wall = wall.Add(time.Second) // as clocks are set all the time
	pass(time.Hour)
	if log.Len() > 0 {
		t.Errorf("a clock that is right is logged: %s", log.String())
	}
	wall = wall.AddDate(1, 0, 0)
	pass(26 * time.Hour)
	wall = wall.AddDate(-1, 0, 0)
	pass(time.Hour)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	want := []string{`clock jumped.*by=8760h`, `deletion held back until a gateway has run for a day.*held=8760h`, `deletion goes by the clock again`, `clock jumped.*by=-8760h`}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %s", len(lines), len(want), log.String())
	}
	for i, line := range lines {
		if !regexp.MustCompile(want[i]).MatchString(line) {
			t.Errorf("line %d is %s, want %s", i, line, want[i])
		}
	}
}
