package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
)

func (o *operator) bots(args ...string) (out string, err error) {
	var printed strings.Builder
	command := botsCommand(&o.config)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetOut(&printed)
	command.SetArgs(args)
	err = command.ExecuteContext(o.t.Context())
	return printed.String(), err
}

func (o *operator) mustBots(args ...string) (out string) {
	o.t.Helper()
	out, err := o.bots(args...)
	if err != nil {
		o.t.Fatalf("bots %q: %v", args, err)
	}
	return out
}

func TestBotsShowsAndReleasesWhatWaitsForAFormerBot(t *testing.T) {
	o := newOperator(t)
	if out := o.mustBots("list"); !strings.HasPrefix(out, "No bot has served") {
		t.Errorf("an empty list: %s", out)
	}
	former, now := conversation.Account{Channel: "telegram", ID: "7000001"}, conversation.Account{Channel: "telegram", ID: "7000002"}
	for _, bot := range []conversation.Account{former, now} {
		if err := o.daemon.SetHealth(t.Context(), bot, conversation.HealthServing, ""); err != nil {
			t.Fatal(err)
		}
	}
	in := conversation.Inbound{Key: "telegram:chat:42", Account: former.ID, SourceID: "42:1", Address: "{}", Text: "hello", At: time.Now()}
	if _, err := o.daemon.Accept(t.Context(), nil, in); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.config, append(text, "[telegram]\ntoken = \"7000002:secret\"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(o.mustBots("list"), "\n")
	var got []string
	for _, line := range lines[:len(lines)-1] {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"CHANNEL BOT TOKEN STATE SINCE LET IN WAITING UNSENT",
		"telegram 7000001 none - <1m 0 1 0",
		"telegram 7000002 configured serving <1m 0 0 0",
	}
	if len(got) == 3 && strings.Contains(got[1], now.ID) { // both began within a millisecond, or not
		got[1], got[2] = got[2], got[1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if out := o.mustBots("release", "telegram:7000001"); !strings.HasPrefix(out, "telegram:7000001: released 1 message and 0 replies. ") {
		t.Errorf("released: %s", out)
	}
	if turn, err := o.daemon.Begin(t.Context(), in.Key, 1000, now); err != nil || len(turn.Waiting) != 1 {
		t.Errorf("the bot of now finds %+v, %v", turn.Waiting, err)
	}
	for _, tt := range []struct{ arg, want string }{
		{"7000001", "allowed: CHANNEL:BOT"},
		{"telegram:", "allowed: CHANNEL:BOT"},
		{"telegram:7", "no such bot: telegram:7; `gateway bots list`"},
	} {
		if out, err := o.bots("release", tt.arg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("release %q: %q, %v; want %s", tt.arg, out, err, tt.want)
		}
	}
}

func TestStartSaysThatTheTokenIsOfAnotherBot(t *testing.T) {
	store, err := conversation.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var log strings.Builder
	g := &gateway{store: store, log: slog.New(slog.NewTextHandler(&log, nil))}
	start := func(id string) (said string) {
		t.Helper()
		log.Reset()
		bot := conversation.Account{Channel: "telegram", ID: id}
		g.beginService(t.Context(), bot)
		g.health(bot)(conversation.HealthConnecting, "")
		return log.String()
	}
	if said := start("7000001") + start("7000001"); said != "" {
		t.Errorf("the only bot: %s", said)
	}
	in := conversation.Inbound{Key: "telegram:chat:42", Account: "7000001", SourceID: "42:1", Address: "{}", Text: "hello", At: time.Now()}
	if _, err := store.Accept(t.Context(), nil, in); err != nil {
		t.Fatal(err)
	}
	said := start("7000002")
	for _, want := range []string{"is of another bot than before", "bot_id=7000002", "former_bot_id=7000001", "waits_for_bot_id=7000001", "inbox_waiting=1"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log lacks %q:\n%s", want, said)
		}
	}
	if strings.Count(said, "level=WARN") != 2 {
		t.Errorf("said:\n%s", said)
	}
	if said := start("7000002"); strings.Contains(said, "another bot than before") || !strings.Contains(said, "waits_for_bot_id=7000001") {
		t.Errorf("the start after that:\n%s", said)
	}
}
