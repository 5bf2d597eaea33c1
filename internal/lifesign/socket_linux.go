package lifesign

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"syscall"
)

// address returns a name in Linux' abstract namespace: it is gone with its process, and
// needs no room in a path, no file system that knows sockets, and no clearing away.
// unix(7).
func address(of database, slot int) string {
	return fmt.Sprintf("@parley-%x-%d", of.id, slot)
}

// addresses returns the names on which daemons listen, of all users: proc_net(5).
func addresses() ([]string, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	return slices.Compact(slices.Sorted(slices.Values(names.FindAllString(string(table), -1)))), nil
}

// names finds what address returns. A connection that is accepted has the name, too.
var names = regexp.MustCompile(`@parley-[0-9a-f]+-[0-9]+`)

func listen(of database, slot int) (net.Listener, error) {
	return net.Listen("unix", address(of, slot))
}

// peer returns the process and the user at the other end.
func peer(conn net.Conn, _ uint32) (pid int, uid uint32, err error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *syscall.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); controlErr != nil {
		return 0, 0, controlErr
	}
	if err != nil {
		return 0, 0, err
	}
	return int(cred.Pid), cred.Uid, nil
}
