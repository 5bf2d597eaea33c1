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
