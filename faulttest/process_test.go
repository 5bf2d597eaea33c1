package faulttest

import (
	"io"

	"parley/gateway/gatewaytest"
)

// start runs the daemon.
func (w *world) start() *gatewaytest.Process {
	w.t.Helper()
	return w.run(nil, "run")
}

// run starts a subcommand as the process with the next number.
func (w *world) run(stdin io.Reader, args ...string) *gatewaytest.Process {
	w.t.Helper()
	w.mu.Lock()
	w.process++
	w.mu.Unlock()
	if w.launch != nil {
		return w.launch(stdin, args...)
	}
	return w.gw.Run(stdin, args...)
}

// startServing runs the daemon until it is connected to the platform.
func (w *world) startServing() *gatewaytest.Process {
	w.t.Helper()
	before := w.platform.connections()
	p := w.start()
	gatewaytest.Await(w.t, "the connection", func() bool { return w.platform.connections() > before || p.HasEnded() })
	if p.HasEnded() {
		w.t.Fatalf("the gateway ended at its start: %s", p.Stderr)
	}
	return p
}
