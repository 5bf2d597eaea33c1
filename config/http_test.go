package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// auth = "none" is allowed only on addresses of the machine itself. The problem is reported together with
// all others.
func TestServerWithoutATokenIsForItsOwnMachine(t *testing.T) {
	const needsToken = `, which other machines reach, and auth = "none", allowed: with auth = "none" an address of this machine alone such as "127.0.0.1:8787"`
	const instead = `, and auth = "none", allowed: auth = "token", without which whoever reaches the proxy may do everything`
	for _, c := range []struct{ doc, want string }{
		{"[log]\nlevel = \"x\"\n[http]\nauth = \"none\"\nlisten = \"0.0.0.0:8787\"", `config.toml:2: log.level: found "x" (string), allowed: "debug", "info", "warn" or "error"
config.toml:5: http.listen: found "0.0.0.0:8787" (string)` + needsToken},
		{"http.auth = \"none\"\nhttp.listen = \":8787\"", `config.toml:2: http.listen: found ":8787" (string)` + needsToken},
		{"http.auth = \"none\"\nhttp.listen = \"chat.example.com:8787\"", `config.toml:2: http.listen: found "chat.example.com:8787" (string)` + needsToken},
		{"http.auth = \"none\"\nhttp.hosts = [\"chat.example.com\"]", `config.toml:2: http.hosts: found "chat.example.com" (string), which may be another machine's` + instead},
		{"http.auth = \"none\"\nhttp.trust_proxy = true", `config.toml:2: http.trust_proxy: found true (boolean)` + instead},
		{"http.auth = \"none\"\nhttp.token = \"sixteen-letters!\"", `config.toml:1: http.auth: found "none" (string), and a token, allowed: "token", or no token (token, token_file, HTTP_TOKEN)`},
		{`http.auth = "never"`, `config.toml:1: http.auth: found "never" (string), allowed: "token" or "none"`},
		{"http.auth = \"none\"\nhttp.listen = \"localhost:8787\"\nhttp.hosts = [\"parley.localhost\", \"127.0.0.2\"]", ""},
		{"http.auth = \"none\"\nhttp.listen = \"\"", ""},
		{`http.listen = "0.0.0.0:8787"`, ""}, // with the token that the gateway makes
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

// withoutFolders returns problems with file names instead of paths.
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
