package gateway

import (
	"os"
	"os/signal"
	"syscall"
)

// onSignals calls first on the first SIGTERM or SIGINT and second on the next. A
// third one kills the process.
func (g *Gateway) onSignals(first, second func()) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for _, step := range []struct {
			does string
			act  func()
		}{{"shutting down", first}, {"answers under way interrupted; the next start gives them", second}} {
			select {
			case s := <-signals:
				g.log.Info(step.does, "signal", s.String(), "drain_timeout", g.cfg.Agent.DrainTimeout)
				step.act()
			case <-done:
				return
			}
		}
		signal.Stop(signals)
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
