package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"parley/channels/discord/discordtest"
	"parley/config"
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
