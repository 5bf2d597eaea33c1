package gateway

import (
	"context"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/config"
	"parley/conversation"
	"parley/conversation/retention"
	"parley/conversation/storetest"
	"parley/internal/waittest"
)

// Settled messages are kept at least as long as the gateway reads missed messages from Discord, so that none is
// stored twice.
func TestRowsAreKeptForAsLongAsDiscordIsReadBack(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	if got := RetentionRules(cfg).Redelivery; got != 24*time.Hour {
		t.Errorf("by default %v", got)
	}
	cfg.Discord.CatchUp = 1000 * time.Hour
	if got := RetentionRules(cfg).Redelivery; got != cfg.Discord.CatchUp {
		t.Errorf("with a long catch_up %v", got)
	}
}

// A running gateway deletes old rows regularly, and stops when its context ends.
func TestGatewayDeletesOldRowsByItself(t *testing.T) {
	t.Parallel()
	daemon := storetest.OldChats(t, filepath.Join(t.TempDir(), "old.db"))
	cfg := config.Default()
	cfg.Conversation.Retention, cfg.Conversation.CleanupInterval = 8640*time.Hour, time.Millisecond
	var log lockedLog
	g := &Gateway{cfg: cfg, store: daemon, log: slog.New(slog.NewTextHandler(&log, nil))}
	ended := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { defer close(ended); g.runCleanup(ctx, 0) }()
	for deadline := time.Now().Add(waittest.Patience); !strings.Contains(log.String(), "conversations=2 messages=4 inbound=3 deliveries=3"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("logged: %s", log.String())
		}
	}
	if left, err := retention.New(daemon).Preview(t.Context(), RetentionRules(cfg), func(retention.Outdated) {}); err != nil || left != (retention.Cleaned{}) {
		t.Errorf("left are %+v, %v", left, err)
	}
	stop()
	select {
	case <-ended:
	case <-time.After(waittest.Patience):
		t.Error("the cleanup does not end")
	}
}

// lockedLog is a log that several goroutines write.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A jump of the clock is logged, and once what it holds back, and for how long.
func TestLogReportsAClockThatJumps(t *testing.T) {
	t.Parallel()
	wall, up := time.Now(), time.Duration(0)
	store := storetest.New(t, conversation.Config{Now: func() time.Time { return wall }})
	var log strings.Builder
	kept := retention.New(store, retention.WithUptime(func() time.Duration { return up }))
	clock := clockLog{retention: kept, log: slog.New(slog.NewTextHandler(&log, nil))}
	pass := func(d time.Duration) {
		for ; d > 0; d -= clockInterval {
			wall, up = wall.Add(clockInterval), up+clockInterval
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
