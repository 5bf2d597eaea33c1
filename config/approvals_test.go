package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProblemsOfApprovalsNameTheirLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	text := "[tools]\napprove = \"sometimes\"\napprove_timeout = \"0s\"\n[mcp.a]\ncommand = \"true\"\napprove = \"yes\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path, func(string) string { return "" })
	for _, want := range []string{":2:", "tools.approve", `"never", "destructive", "changes" or "ask"`, ":3:", "tools.approve_timeout", ":6:", "mcp.a.approve"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	text = "[tools]\napprovers = [\"asker\", \"slack:7\"]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), `:2: tools.approvers`) || !strings.Contains(err.Error(), `"slack:7"`) {
		t.Errorf("%v", err)
	}
}
