package gateway_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parley/gateway"
	"parley/gateway/gatewaytest"
)

// An address that is none of this machine is named with its place in the configuration.
func TestAddressThatCannotBeListenedOnIsNamedWithItsPlace(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{InProcess: true, Config: "[http]\nauth = \"token\"\nlisten = \"192.0.2.1:8787\""})
	daemon, err := gateway.New(t.Context(), gateway.Options{ConfigPath: g.Config, Daemon: true, Getenv: func(string) string { return "" }, LogTo: g.Log})
	if err == nil {
		daemon.Close()
	}
	want := regexp.MustCompile(`config\.toml:\d+: http\.listen: found 192\.0\.2\.1:8787, which the server can't listen on \(bind: cannot assign requested address\), allowed: an address of this machine with a free port$`)
	if err == nil || !want.MatchString(err.Error()) {
		t.Errorf("the error is %v", err)
	}
}

// The log names the addresses that are served, and says so if they are all of the machine's.
func TestLogNamesTheAddressesThatAreServed(t *testing.T) {
	t.Parallel()
	const token = "\ntoken = \"long-enough-for-a-token-0123456789\""
	for listen, want := range map[string]string{
		"0.0.0.0:0":   `http="http://localhost:(\d+)/ and every other address of this machine \(0\.0\.0\.0:(\d+)\)"`,
		":0":          `http="http://localhost:(\d+)/ and every other address of this machine \(:(\d+)\)"`,
		"127.0.0.1:0": `http=http://127\.0\.0\.1:(\d+)/( |\n|$)`,
	} {
		g := gatewaytest.Start(t, gatewaytest.Options{InProcess: true, Config: "[http]\nlisten = \"" + listen + "\"" + token})
		log := g.Log.String()
		found := regexp.MustCompile(`msg="gateway started" .*` + want).FindStringSubmatch(log)
		if found == nil || found[1] == "0" || listen != "127.0.0.1:0" && found[1] != found[2] {
			t.Errorf("with listen = %q the log says %q:\n%s", listen, found, log)
		}
	}
}

// Gateways on one PostgreSQL database need a common token in their configurations. A missing one is reported before the
// database is used, which can't be reached here.
func TestDatabaseOnAServerNeedsAConfiguredToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	text := "database = \"postgres://parley@127.0.0.1:1/parley\"\n[http]\nlisten = \"127.0.0.1:0\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(t.Context(), gateway.Options{ConfigPath: path, Daemon: true, Getenv: func(string) string { return "" }, LogTo: t.Output()})
	if err == nil {
		g.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "http.token") || !strings.Contains(err.Error(), "token_file") {
		t.Errorf("the error is %v", err)
	}
}
