package gateway

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SignalRepeat is how long a signal of the same kind counts as the one before once more. GNU timeout sends SIGTERM to its command and
// at once to the process group, which the command belongs to; the two arrive within a few milliseconds. A person who presses Ctrl-C
// again has seen that the gateway still runs, which takes longer, and a key that is held is the same wish.
const SignalRepeat = 300 * time.Millisecond

// lastSignal is the latest signal that counted.
type lastSignal struct {
	kind os.Signal
	at   time.Time
}

// isRepeat reports whether a signal is the latest one once more.
func (l *lastSignal) isRepeat(kind os.Signal, at time.Time) bool {
	if kind == l.kind && at.Sub(l.at) < SignalRepeat {
		return true
	}
	l.kind, l.at = kind, at
	return false
}

// ignoreHangups logs each SIGHUP until stop is called, and does nothing else. A daemon outlives the terminal it was
// started from. A chat in that terminal ends with its input.
func (g *Gateway) ignoreHangups() (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			g.log.Info("signal ignored; SIGTERM ends the gateway", "signal", syscall.SIGHUP.String())
		}
	}()
	return func() {
		signal.Stop(hangups) // nothing is sent to hangups afterwards
		close(hangups)
	}
}

// onSignals calls first on the first SIGTERM or SIGINT and second on the next. A
// third one kills the process. Repeats do not count, see SignalRepeat. To a gateway that is only a chat, SIGHUP is
// such a signal, too: its terminal is gone.
func (g *Gateway) onSignals(first, second func()) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if g.stopHangups == nil {
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		var last lastSignal
		for _, step := range []struct {
			does string
			act  func()
		}{{"shutting down", first}, {"answers under way interrupted; the next start gives them", second}} {
			s := nextSignal(signals, done, &last)
			if s == nil {
				return
			}
			g.log.Info(step.does, "signal", s.String(), "drain_timeout", g.cfg.Agent.DrainTimeout)
			step.act()
		}
		select {
		case <-time.After(SignalRepeat): // else a repeat of the second one would kill the process
			signal.Stop(signals)
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// nextSignal waits for a signal that is no repeat. It returns nil when done is closed.
func nextSignal(signals <-chan os.Signal, done <-chan struct{}, last *lastSignal) os.Signal {
	for {
		select {
		case s := <-signals:
			if !last.isRepeat(s, time.Now()) {
				return s
			}
		case <-done:
			return nil
		}
	}
}
