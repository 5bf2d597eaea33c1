package gatewaytest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Address returns "127.0.0.1:PORT" with a port that is reserved until the test ends: servers of the
// test can listen there one after the other. The port is held by a socket that is bound and does not
// listen. Others can listen beside it with SO_REUSEADDR, which package net sets: socket(7).
func Address(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*unix.SockaddrInet4).Port)
}
