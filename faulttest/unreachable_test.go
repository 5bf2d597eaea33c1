package faulttest

import (
	"strings"
	"syscall"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
)

const waitsForDatabase = "database can't be reached, the gateway starts when it can"

// A gateway that is started before its database waits, says so once, and serves when the database is there. Commands end
// with the error. SIGHUP changes nothing, neither while it waits nor later.
func TestGatewayWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, postgrestest.Database(t))
	proxy.Interrupt()
	w := newWorld(t, settings{database: proxy.URL()})
	p := w.start()
	w.awaitLog(waitsForDatabase)
	list := w.run(nil, "sessions", "list")
	list.MustExit(1)
	if said := list.Stderr.String(); !strings.Contains(said, "the server can't be reached: check the host and the port") {
		t.Errorf("the command says %s", said)
	}
	p.Signal(syscall.SIGHUP)
	w.awaitLog("signal ignored")
	proxy.Resume()
	w.awaitLog("database opened")
	w.say(1, "m1")
	w.awaitAnswer(1, "m1")
	if n := strings.Count(p.Stderr.String(), waitsForDatabase); n != 1 {
		t.Errorf("the wait is logged %d times", n)
	}
	p.Signal(syscall.SIGHUP)
	w.say(1, "m2")
	w.awaitAnswer(1, "m2")
	gatewaytest.Await(t, "the second line about the signal", func() bool { return strings.Count(p.Stderr.String(), "signal ignored") == 2 })
	p.Stop()
}

// SIGTERM ends a gateway that waits for its database.
func TestWaitForADatabaseEndsWithSIGTERM(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, postgrestest.Database(t))
	proxy.Interrupt()
	w := newWorld(t, settings{database: proxy.URL()})
	p := w.start()
	w.awaitLog(waitsForDatabase)
	p.Signal(syscall.SIGTERM)
	gatewaytest.Await(t, "the end of the gateway", p.HasEnded)
}
