package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/bots"
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

func TestBotsListsAndReleasesTheMessagesOfAFormerBot(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	if out := o.mustBots("list"); !strings.HasPrefix(out, "No bot has served") {
		t.Errorf("an empty list: %s", out)
	}
	former, now := conversation.Account{Channel: "telegram", ID: "7000001"}, conversation.Account{Channel: "telegram", ID: "7000002"}
	for _, bot := range []conversation.Account{former, now} {
		if err := bots.New(o.daemon).SetHealth(t.Context(), bot, bots.Serving, ""); err != nil {
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
