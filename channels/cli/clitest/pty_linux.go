package clitest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// OpenPTY returns the two ends of a new pseudo-terminal, which are closed when the
// test ends. It skips the test if the system has no pseudo-terminals.
func OpenPTY(t *testing.T, width, height uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { user.Close() })
	number := 0
	ask := func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}
	conn, cerr := user.SyscallConn() // user.Fd would have Close wait for the end of a read
	if cerr == nil {
		cerr = conn.Control(ask)
	}
	if cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	Resize(t, program, width, height)
	return user, program
}

// Resize sets the size of a terminal, as its window does.
func Resize(t *testing.T, program *os.File, width, height uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		t.Fatal(err)
	}
}
