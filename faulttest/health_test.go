package faulttest

import (
	"strings"
	"syscall"
	"testing"

	"parley/channels/telegram/telegramtest"
)

// health runs `gateway health`, checks its exit status, and returns its output.
func (w *world) health(status int) string {
	w.t.Helper()
	p := w.run(nil, "health")
	p.MustExit(status)
	return p.Stdout.String() + p.Stderr.String()
}

func (w *world) expectHealth(status int, words ...string) {
	w.t.Helper()
	said := w.health(status)
	for _, want := range words {
		if !strings.Contains(said, want) {
			w.t.Errorf("gateway health does not say %q: %s", want, said)
		}
	}
}

// A stopped process holds its locks, but serves nobody.
func TestHealthDistinguishesAStoppedProcessFromAServingOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.expectHealth(1, "no gateway serves", "gateway run")
	p := w.startServing()
	w.say(1, "m1")
	w.awaitAnswer(1, "m1")
	w.expectHealth(0, "serves "+w.gw.Database, "serving since")
	p.Signal(syscall.SIGSTOP)
	w.expectHealth(1, "gives no sign of life", "is stopped", "kill -CONT")
	p.Signal(syscall.SIGCONT)
	w.expectHealth(0, "serving since")
	p.Kill()
	w.expectHealth(1, "no gateway serves")
}

// When the token is revoked, the channel goes on trying, and health says what to do.
func TestHealthNamesARejectedToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.startServing()
	w.say(1, "m1")
	w.awaitAnswer(1, "m1")
	w.telegram.Fail("getMe", telegramtest.Verdict{Code: 401}, 1000)
	w.telegram.Fail("getUpdates", telegramtest.Verdict{Code: 401}, 1)
	w.say(1, "m2") // ends the poll under way
	w.awaitLog("Telegram rejects the bot token")
	w.expectHealth(1, "telegram (bot ", " is rejected since", "/config.toml:", "@BotFather")
	p.Stop()
}
