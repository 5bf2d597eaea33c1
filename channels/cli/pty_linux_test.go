package cli

import (
	"context"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"parley/channels/cli/clitest"
)

func modes(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

func TestTerminalIsGivenBackAsItWas(t *testing.T) {
	t.Setenv("TERM", "xterm")
	user, program := clitest.OpenPTY(t, 60, 20)
	before := modes(t, program)
	c, err := New(Options{In: program, Out: program, Interactive: IsInteractive(program, program)})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, vt: clitest.NewScreen(60, 20), channel: c, ended: make(chan error, 1)}
	go func() { _, _ = io.Copy(d.vt, user) }()
	go func() { d.ended <- c.Run(context.Background(), d.accept) }()
	d.sees("›")
	if modes(t, program).Lflag&(unix.ECHO|unix.ISIG) != 0 {
		t.Error("the terminal still echoes, or makes signals of keys")
	}
	if _, err := io.WriteString(user, "hello\r"); err != nil {
		t.Fatal(err)
	}
	d.answers(d.inbound(0).Address, "line one\n\nline two")
	d.screenIs("› hello", "line one", "line two", "›")
	if _, err := io.WriteString(user, "\x04"); err != nil {
		t.Fatal(err)
	}
	d.leaves()
	if after := modes(t, program); after != before {
		t.Errorf("the terminal's modes are %+v, were %+v", after, before)
	}
}
