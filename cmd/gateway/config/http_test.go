package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever opens the server to others must be told that it needs a token, along
// with whatever else is wrong.
func TestAnOpenAddressNeedsAToken(t *testing.T) {
	const needsToken = ", which other machines reach, and no token, allowed: a token of at least 16 characters beside it (token, token_file or HTTP_TOKEN), " +
		`or an address of this machine alone such as "127.0.0.1:8787"`
	for _, c := range []struct{ doc, want string }{
		{"[log]\nlevel = \"x\"\n[http]\nlisten = \"0.0.0.0:8787\"", `config.toml:2: log.level: found "x" (string), allowed: "debug", "info", "warn" or "error"
config.toml:4: http.listen: found "0.0.0.0:8787" (string)` + needsToken},
		{`http.listen = ":8787"`, `config.toml:1: http.listen: found ":8787" (string)` + needsToken},
		{`http.listen = "chat.example.com:8787"`, `config.toml:1: http.listen: found "chat.example.com:8787" (string)` + needsToken},
		{`http.listen = "8787"`, `config.toml:1: http.listen: found "8787" (string), allowed: "host:port" such as "127.0.0.1:8787", or "" for no server`},
		{`http.listen = "localhost:99999"`, `config.toml:1: http.listen: found "localhost:99999" (string), allowed: "host:port" such as "127.0.0.1:8787", or "" for no server`},
		{"[http]\ntoken = \"short\"", "config.toml:2: http.token: found a secret of 5 characters, allowed: at least 16 characters"},
		{`http.hosts = ["https://chat.example.com"]`, `config.toml:1: http.hosts: found "https://chat.example.com" (string), allowed: names without scheme, port and path, such as "chat.example.com"`},
		{`http.hosts = ["*"]`, `config.toml:1: http.hosts: found "*" (string), allowed: names without scheme, port and path, such as "chat.example.com"`},
		{`http.hosts = ["[]"]`, `config.toml:1: http.hosts: found "[]" (string), allowed: names without scheme, port and path, such as "chat.example.com"`},
		{`http.listen = ""`, ""},
		{`http.listen = "localhost:0"`, ""},
		{`http.listen = "[::1]:8787"`, ""},
		{"[http]\nlisten = \"0.0.0.0:8787\"\ntoken = \"sixteen-letters!\"\nhosts = [\"Chat.Example.com\", \"[2001:db8::1]\"]", ""},
	} {
		_, err := loadText(t, c.doc)
		got := ""
		if err != nil {
			got = withoutFolders(err)
		}
		if got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.doc, got, c.want)
		}
	}
}

// withoutFolders are the problems with the file's name alone.
func withoutFolders(err error) string {
	var lines []string
	for line := range strings.SplitSeq(fmt.Sprint(err), "\n") {
		lines = append(lines, line[strings.Index(line, DefaultPath):])
	}
	return strings.Join(lines, "\n")
}

func TestHTTPTokenFromTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), DefaultPath)
	write(t, path, `http.listen = ":0"`)
	for token, want := range map[string]string{"sixteen-letters!": "", "short": "a secret of 5 characters"} {
		c, err := Load(path, func(name string) string { return map[string]string{"HTTP_TOKEN": token}[name] })
		if c.HTTP.Token != token || (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: got %q, %v", token, c.HTTP.Token, err)
		}
	}
}
