//go:build !linux

package lifesign

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// address returns the path of a socket in the folder of temporary files, whose path is short enough
// for one wherever the database lies.
func address(of database, slot int) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("parley-%x-%d.sock", of.id, slot))
}

// addresses returns the paths on which daemons listen.
func addresses() ([]string, error) {
	return filepath.Glob(filepath.Join(os.TempDir(), "parley-*.sock"))
}

// listen takes a socket over that a process has left which was killed.
func listen(of database, slot int) (net.Listener, error) {
	path := address(of, slot)
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if conn, dialErr := net.Dial("unix", path); dialErr == nil {
			conn.Close()
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// peer takes the other end for the owner's: the socket's mode keeps others out.
func peer(_ net.Conn, owner uint32) (pid int, uid uint32, err error) { return 0, owner, nil }
