package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"parley/channels/discord/discordtest"
	"parley/config"
	"parley/conversation"
)

func TestDiscordInvitePrintsTheLink(t *testing.T) {
	t.Chdir(t.TempDir())
	srv := discordtest.New(t)
	write := fmt.Sprintf("[discord]\ntoken = %q\napi_url = %q\n", discordtest.Token, srv.URL)
	if err := os.WriteFile(config.DefaultPath, []byte(write), 0o600); err != nil {
		t.Fatal(err)
	}
	path := ""
	command := discordCommand(&path)
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"invite"})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "client_id=" + discordtest.ApplicationID; !strings.Contains(out.String(), want) {
		t.Errorf("printed %q", out.String())
	}
}

func TestHealthTellsHowChannelsFare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conversations.db")
	store, err := conversation.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	former, now := conversation.Account{Channel: "discord", ID: "55"}, conversation.Account{Channel: "discord", ID: "56"}
	for bot, detail := range map[conversation.Account]string{former: "the former bot's", now: "the connection was cut"} {
		if err := store.SetHealth(t.Context(), bot, conversation.HealthInterrupted, detail); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	command := &cobra.Command{}
	command.SetContext(t.Context())
	command.SetOut(&out)
	if err := showChannels(command, path, []conversation.Account{now}); err != nil {
		t.Fatal(err)
	}
	if said := out.String(); !strings.HasPrefix(said, "discord (bot 56): interrupted since") || !strings.HasSuffix(said, "(the connection was cut)\n") || strings.Count(said, "\n") != 1 {
		t.Errorf("printed %q", out.String())
	}
}
