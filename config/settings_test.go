package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Settings show no secret of any key, wherever it was set: the test sets every secret.
func TestSettingsShowNoSecret(t *testing.T) {
	c := Default()
	n := 0
	for _, m := range leaves(reflect.ValueOf(&c).Elem(), "") {
		if m.isSecret() {
			n++
			m.value.SetString(fmt.Sprintf("do-not-show-%d", n))
		}
	}
	c.LLM.BaseURL, c.Telegram.APIURL = "https://me:do-not-show@host/v1", "http://me:do-not-show@host"
	if n < 4 {
		t.Fatalf("only %d secrets were found", n)
	}
	settings := c.Settings(Origins{})
	if shown := fmt.Sprintf("%+v", settings); strings.Contains(shown, "do-not-show") {
		t.Errorf("a secret is shown: %s", shown)
	}
	hidden := 0
	for _, s := range settings {
		if s.Secret {
			hidden++
			if s.Value != "set" {
				t.Errorf("%s.%s reads %q, want set", s.Section, s.Key, s.Value)
			}
		}
	}
	if hidden != n || len(c.Secrets()) != n+2 { // two addresses have passwords
		t.Errorf("%d of %d secrets are listed, %d known", hidden, n, len(c.Secrets()))
	}
}

// Every key is listed with its value and the value's source.
func TestSettingsSayWhereEachComesFrom(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "token.txt", "the-token-of-the-server\n")
	write(t, DefaultPath, `
[llm]
model = "gpt-5-mini"
[llm.prices]
"gpt-5-mini" = { input = 0.25, output = 2 }
[agent]
drain_timeout = "90s"
[identity]
alice = ["telegram:42", "discord:99"]
[telegram]
allow = [42]
[http]
token_file = "token.txt"
`)
	c, origins, err := LoadWithOrigins("", func(name string) string {
		return map[string]string{"DISCORD_TOKEN": "the-token-of-the-bot"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, s := range c.Settings(origins) {
		found[strings.TrimPrefix(s.Section+"."+s.Key, ".")] = s.Value + " | " + s.Origin
	}
	for key, want := range map[string]string{
		"database": `"conversations.db" | default`, "llm.model": `"gpt-5-mini" | file`, "agent.drain_timeout": "1m30s | file",
		"telegram.allow": `["42"] | file`, "http.token": "set | the file of token_file", "discord.token": "set | environment DISCORD_TOKEN",
		"telegram.token": "not set | default", "conversation.session_expiration": "720h | default", "log.level": "not set | default",
		"llm.prices.gpt-5-mini.input": "0.25 | file", "identity": `alice = ["telegram:42" "discord:99"] | file`,
	} {
		if diff := cmp.Diff(want, found[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	if listed, all := len(found), len(leaves(reflect.ValueOf(c), "")); listed < all {
		t.Errorf("%d of %d keys are listed", listed, all)
	}
}

// A variable of the environment that the file overrides is named, without its value.
func TestUnusedVariablesAreNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, DefaultPath, "database = 'x.db'\n[telegram]\ntoken = '123456:of-the-file'\n[http]\ntoken = 'the-same-in-both-places'\n")
	env := map[string]string{"TELEGRAM_TOKEN": "123456:of-the-environment", "HTTP_TOKEN": "the-same-in-both-places\n", "DATABASE_URL": "postgres://db/x", "DISCORD_TOKEN": "alone"}
	_, origins, err := LoadWithOrigins("", func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"DATABASE_URL of the environment is not used, since database is set (config.toml:1)",
		"TELEGRAM_TOKEN of the environment is not used, since telegram.token is set (config.toml:3)",
	}
	if diff := cmp.Diff(want, origins.Unused()); diff != "" {
		t.Error(diff)
	}
}
