package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/channels"
	"parley/config"
	"parley/conversation"
)

func TestRoutesMatchPlacesAndPeople(t *testing.T) {
	t.Parallel()
	people := config.Identity{"anna": {"telegram:42", "discord:99"}}
	message := conversation.Inbound{Key: "user:anna", Origin: "telegram:chat:42", Sender: conversation.Sender{ID: "42"}}
	place := channels.Place{Server: "7", Chat: "42", Topic: "3"}
	for _, c := range []struct {
		route config.Route
		want  bool
	}{
		{config.Route{Channel: "telegram"}, true},
		{config.Route{Channel: "discord"}, false},
		{config.Route{Person: "anna"}, true},
		{config.Route{Person: "bert"}, false},
		{config.Route{Person: "telegram:42"}, true},
		{config.Route{Person: "telegram:4"}, false},
		{config.Route{Key: "user:*"}, true},
		{config.Route{Key: "telegram:chat:42"}, true},
		{config.Route{Key: "telegram"}, false},
		{config.Route{Server: "7", Chat: "42", Topic: "3"}, true},
		{config.Route{Server: "7", Chat: "43"}, false},
		{config.Route{Topic: "*"}, true},
		{config.Route{Thread: "9"}, false},
	} {
		if got := fits(c.route, people, message, place); got != c.want {
			t.Errorf("%+v: %v", c.route, got)
		}
	}
}

func TestAPromptFileIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prompt.md")
	write := func(text string, age time.Duration) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("first", time.Hour)
	f := promptFile{path: path, log: slog.New(slog.DiscardHandler)}
	if got := f.read(); got != "first" {
		t.Errorf("read %q", got)
	}
	write("again", time.Minute)
	if got := f.read(); got != "again" {
		t.Errorf("after a change: %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := f.read(); got != "again" {
		t.Errorf("without the file: %q", got)
	}
	for _, broken := range []string{"", " \n", "\xff\xfe", "a\x00b", strings.Repeat("x", maxPromptFile+1)} {
		write(broken, time.Second)
		if got := f.read(); got != "again" {
			t.Errorf("while the file holds %d bytes, %.9q: %q", len(broken), broken, got)
		}
	}
	write("whole", 0)
	if got := f.read(); got != "whole" {
		t.Errorf("after it was mended: %q", got)
	}
}
