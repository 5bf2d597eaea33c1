package gateway

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/storetest"
)

func TestStartReportsTheTokenOfAnotherBot(t *testing.T) {
	t.Parallel()
	store := storetest.New(t)
	var log strings.Builder
	g := &Gateway{store: store, log: slog.New(slog.NewTextHandler(&log, nil))}
	start := func(id string) (said string) {
		t.Helper()
		log.Reset()
		bot := conversation.Account{Channel: "telegram", ID: id}
		g.announceBot(t.Context(), bot)
		g.health(bot)(bots.Connecting, "")
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
	for _, want := range []string{"bot token changed to another bot", "bot_id=7000002", "former_bot_id=7000001", "waits_for_bot_id=7000001", "inbox_waiting=1"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log lacks %q:\n%s", want, said)
		}
	}
	if strings.Count(said, "level=WARN") != 2 {
		t.Errorf("said:\n%s", said)
	}
	if said := start("7000002"); strings.Contains(said, "bot token changed to another bot") || !strings.Contains(said, "waits_for_bot_id=7000001") {
		t.Errorf("the start after that:\n%s", said)
	}
}
