package faulttest

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/channels/cli/clitest"
	"parley/gateway/gatewaytest"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// terminal is a gateway in a pseudo-terminal, in which a test types.
type terminal struct {
	*world
	cmd    *exec.Cmd
	keys   io.WriteCloser
	screen *clitest.Screen
	ended  chan struct{} // closed when the gateway has ended
}

// openTerminal starts `gateway run` in a terminal and waits for its prompt.
func (w *world) openTerminal() *terminal {
	w.t.Helper()
	return w.openTerminalWith("run")
}

// openTerminalWith is openTerminal for another subcommand.
func (w *world) openTerminalWith(subcommand string) *terminal {
	w.t.Helper()
	user, program := clitest.OpenPTY(w.t, 72, 30)
	cmd := exec.Command(gatewaytest.Binary(w.t), subcommand, "-c", w.gw.Config)
	s := &terminal{world: w, cmd: cmd, keys: user, screen: clitest.NewScreen(72, 30), ended: make(chan struct{})}
	cmd.Dir, cmd.Env = w.gw.Dir, append(w.gw.Environ(), "TERM=xterm", "NO_COLOR=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, w.gw.Log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	w.must(cmd.Start())
	go func() { _, _ = io.Copy(s.screen, user) }() // ends when the terminal is closed
	go func() {
		defer close(s.ended)
		_ = cmd.Wait() // any exit status is fine here
	}()
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-s.ended
	})
	s.awaitPrompt()
	return s
}

func (s *terminal) types(keys string) {
	s.t.Helper()
	_, err := io.WriteString(s.keys, keys)
	s.must(err)
}

// sees waits until the screen shows a text.
func (s *terminal) sees(want string) {
	s.t.Helper()
	s.awaitScreen(fmt.Sprintf("%q", want), func(text string) bool { return strings.Contains(text, want) })
}

// awaitPrompt waits for an empty prompt and the end of all work that is shown above it.
func (s *terminal) awaitPrompt() {
	s.t.Helper()
	s.awaitScreen("the prompt at rest", func(text string) bool {
		return strings.HasSuffix(text, "\n›") && !strings.Contains(text, "thinking …") && !strings.Contains(text, "stopping …")
	})
}

func (s *terminal) awaitScreen(what string, is func(text string) bool) {
	s.t.Helper()
	for deadline := time.Now().Add(waittest.Patience); !is(s.screen.Text()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain for %s on the screen:\n%s", what, s.screen.Text())
		}
	}
}

func (s *terminal) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// TestCtrlCEndsTheAnswerAndNothingElse stops an answer in the middle: its beginning is shown once, the
// prompt returns, and the next question is answered. Only Ctrl-C twice at an empty prompt ends the
// gateway.
func TestCtrlCEndsTheAnswerAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, begun := range map[string]string{"while it is written": "and so on", "before its first word": "thinking …"} {
		t.Run(name, func(t *testing.T) {
			delay := time.Duration(0)
			if begun != "and so on" {
				delay = waittest.Patience
			}
			w := newWorld(t, settings{})
			w.model.Reply(func(c llmtest.Call) llmtest.Answer {
				if strings.Contains(c.LastUser(), "endless") {
					return llmtest.Answer{Text: strings.Repeat("and so on ", 10_000), Pieces: 10_000, Delay: delay, ChunkDelay: 5 * time.Millisecond}
				}
				return answerTo(c)
			})
			s := w.openTerminal()
			s.types("endless please\r")
			s.sees(begun)
			s.types("\x03")
			s.sees("Stopped.")
			s.awaitPrompt()
			if text := s.screen.Text(); strings.Count(text, "Stopped.") != 1 || strings.Contains(text, "(the whole answer)") || strings.Contains(text, "(from before)") {
				t.Errorf("the stopped answer stands more than once, or as a stranger's:\n%s", text)
			}

			s.types("next\r")
			s.sees("next\n›") // the end of the answer, and the prompt
			s.awaitPrompt()
			// A preview of the answer looks like the answer.
			gatewaytest.Await(w.t, "the answer to be delivered", func() bool { return w.count(`SELECT count(*) FROM outbox WHERE state = 'sent'`) == 2 })
			s.types("\x03")
			s.sees("press Ctrl-C again to leave")
			if s.hasEnded() {
				t.Fatalf("one Ctrl-C at rest ended the gateway:\n%s", s.screen.Text())
			}
			s.types("\x03")
			select {
			case <-s.ended:
			case <-time.After(waittest.Patience):
				t.Fatalf("Ctrl-C twice at rest does not end the gateway:\n%s", s.screen.Text())
			}
		})
	}
}

// TestStopSettlesTheWaitingMessageToo stops an answer while another question waits: that question is
// kept and not answered, and is no longer marked as waiting.
func TestStopSettlesTheWaitingMessageToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	held := w.holdModel("first")
	s := w.openTerminal()
	s.types("first\r")
	w.awaitReached("the model call", held)
	s.types("second\r")
	s.sees("› second  (waits)")
	s.types("\x03")
	s.sees("Stopped.")
	s.awaitPrompt()
	if text := s.screen.Text(); strings.Count(text, "› second") != 1 || strings.Contains(text, "(waits)") {
		t.Errorf("the message that waited is not shown once, as said:\n%s", text)
	}
	held.Open()
	s.types("third\r")
	s.sees("third\n›")
}

// TestClosedTerminalEndsItsGatewayInOrder closes the terminal while an answer is written: the answer is finished and
// stored. A SIGHUP alone does not end a daemon, whose terminal is still there.
func TestClosedTerminalEndsItsGatewayInOrder(t *testing.T) {
	t.Parallel()
	for _, subcommand := range []string{"run", "chat"} {
		t.Run(subcommand, func(t *testing.T) {
			w := newWorld(t, settings{})
			held := w.holdModel("wait")
			s := w.openTerminalWith(subcommand)
			if subcommand == "run" {
				w.must(s.cmd.Process.Signal(syscall.SIGHUP))
				s.types("hello\r")
				s.sees("re hello")
				s.awaitPrompt()
			}
			s.types("wait\r")
			w.awaitReached("the model call", held)
			w.must(s.keys.Close())
			held.Open()
			waittest.Receive(t, s.ended, "the end of the gateway")
			if n := w.count(`SELECT count(*) FROM messages WHERE role = 'assistant' AND content LIKE '%re wait%'`); n != 1 || !s.cmd.ProcessState.Exited() {
				t.Errorf("%d answers are stored, and the gateway ended with %s", n, s.cmd.ProcessState)
			}
		})
	}
}

// TestTerminalShowsALinkThatSignsIn takes the link from the screen. It appears nowhere else.
func TestTerminalShowsALinkThatSignsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newTokenPrograms})
	g := w.platform.(tokenPrograms)
	s := w.openTerminal()
	s.sees("/signin/link#")
	var link string
	for line := range strings.Lines(s.screen.Text()) {
		if strings.Contains(line, "/signin/link#") {
			link = strings.TrimSpace(line)
		}
	}
	expectStatus(t, "the link's cookie", g.status(w, "Cookie", g.follow(w, link)), http.StatusOK)
	_, code, _ := strings.Cut(link, "#")
	if strings.Contains(w.gw.Log.String(), code) {
		t.Error("the log contains the code")
	}
}
