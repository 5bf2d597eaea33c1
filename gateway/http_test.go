package gateway_test

import (
	"regexp"
	"testing"

	"parley/gateway/gatewaytest"
)

// The log says who reaches the server: where it listens on all addresses of the machine, that
// is more than "localhost".
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
