package gateway_test

import (
	"strings"
	"syscall"
	"testing"

	"parley/channels/cli"
	"parley/gateway/gatewaytest"
)

// A question that a signal ends while the gateway starts was not sent, which the person is told.
func TestAskReportsASignalWhileItStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the built gateway")
	}
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	if _, err := g.Store().Lock(cli.Key("ask")); err != nil {
		t.Fatal(err)
	}
	p := g.Run(nil, "ask", "hello")
	gatewaytest.Await(t, "the wait for the session", func() bool { return strings.Contains(p.Stderr.String(), "waiting until it is free") })
	p.Signal(syscall.SIGTERM)
	p.MustExit(-1)
	if said := p.Stderr.String(); !strings.Contains(said, "ended by a signal (terminated) while it started; nothing was sent") {
		t.Errorf("it said %q", said)
	}
}
