package faulttest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"parley/internal/waittest"
)

// A program that runs under a watcher waits before each system call that changes files, until the watcher lets it go on. The
// kernel does this with a seccomp filter that notifies the watcher (seccomp_unotify(2)). Unlike a library under the program, it
// sees the calls of SQLite and those of Go, which does not use the C library.

// runWatchedCommand is the first argument of a test binary that installs the filter, and then becomes another program. It is
// followed by the socket of the watcher, and by the program with its arguments.
const runWatchedCommand = "run-watched-for-tests"

// runWatched does that, if the test binary was started for it. It does not return then.
func runWatched() {
	if len(os.Args) < 4 || os.Args[1] != runWatchedCommand {
		return
	}
	runtime.LockOSThread() // the filter is that of this thread, and stays when it executes the program
	err := installFilter(os.Args[2])
	if err == nil {
		err = syscall.Exec(os.Args[3], os.Args[3:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "run watched:", err)
	os.Exit(1)
}

// installFilter installs the filter, and sends its listener to the watcher's socket.
func installFilter(socket string) error {
	watcher, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(watcher, &unix.SockaddrUnix{Name: socket}); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := callFilter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	listener, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, filterFlags, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return failed
	}
	return unix.Sendmsg(watcher, []byte{0}, unix.UnixRights(int(listener)), nil, 0)
}

// With the second flag, a signal does not interrupt a call that the watcher has received: it would begin again, and be counted twice.
const filterFlags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// needsWatcher skips the test if the kernel can't run programs under a watcher. Linux can since 5.19.
func needsWatcher(t *testing.T) {
	t.Helper()
	// The kernel looks at the flags before it finds that there is no filter: seccomp(2).
	if _, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, filterFlags, 0); err != unix.EFAULT {
		t.Skipf("skipped: this kernel does not let a program watch the system calls of another one: %v", err)
	}
}

// watchedCalls are the system calls that the watcher is asked about, beside those that open a file to create or empty it.
var watchedCalls = []uint32{
	unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC,
	unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINK, unix.SYS_LINKAT, unix.SYS_UNLINK, unix.SYS_UNLINKAT,
	unix.SYS_MKDIR, unix.SYS_MKDIRAT, unix.SYS_RMDIR,
	// The watcher refuses these for files in its folder. Go then uses others where it can.
	unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_FALLOCATE,
}

// callFilter returns the filter's program: bpf(4) of BSD, for struct seccomp_data.
func callFilter() (program []unix.SockFilter) {
	const number, arch, flagsOfOpen, flagsOfOpenat = 0, 4, 16 + 1*8, 16 + 2*8 // offsets of the fields
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	unless := func(test uint16, value uint32, skipped uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: value, Jf: skipped}
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	notify := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF}
	program = append(program, load(arch), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AUDIT_ARCH_X86_64, Jt: 1}, allow, load(number))
	for _, call := range watchedCalls {
		program = append(program, unless(unix.BPF_JEQ, call, 1), notify)
	}
	for call, flags := range map[uint32]uint32{unix.SYS_OPEN: flagsOfOpen, unix.SYS_OPENAT: flagsOfOpenat} {
		program = append(program, unless(unix.BPF_JEQ, call, 4),
			load(flags), unless(unix.BPF_JSET, unix.O_CREAT|unix.O_TRUNC, 1), notify, allow)
	}
	return append(program, allow)
}

// systemCall is a call that a thread of a watched program makes.
type systemCall struct { // struct seccomp_notif of linux/seccomp.h
	id          uint64
	thread      uint32
	_           uint32
	number      int32
	arch        uint32
	instruction uint64
	arguments   [6]uint64
}

// verdictOnCall is what a watcher does with a system call.
type verdictOnCall int

const (
	allowCall  verdictOnCall = iota
	refuseCall               // it fails as one that the kernel does not have
	holdCall                 // it waits until its process is dead
)

// watch decides about the system calls of a program that the test starts as runWatchedCommand, with the returned socket as its
// first argument. It ends with the last process that the program has started.
func watch(t *testing.T, decide func(*systemCall) verdictOnCall) (socket string) {
	t.Helper()
	socket = "@parley-" + rand.Text()
	server, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serveCalls(server, decide) }()
	t.Cleanup(func() {
		server.Close() // a program that was not started never connects
		if err := waittest.Receive(t, ended, "the end of the watched processes"); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("watch the gateway: %v", err)
		}
	})
	return socket
}

func serveCalls(server *net.UnixListener, decide func(*systemCall) verdictOnCall) error {
	listener, err := receiveListener(server)
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	for {
		waiting := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(waiting, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return err
		}
		if waiting[0].Revents&unix.POLLIN == 0 { // all watched processes are dead
			return nil
		}
		var call systemCall
		if err := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&call)); err == unix.ENOENT || err == unix.EINTR {
			continue // the thread is dead
		} else if err != 0 {
			return err
		}
		answer := struct { // struct seccomp_notif_resp
			id    uint64
			value int64
			err   int32
			flags uint32
		}{id: call.id}
		switch decide(&call) {
		case allowCall:
			answer.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
		case refuseCall:
			answer.err = -int32(unix.ENOSYS)
		case holdCall:
			continue
		}
		if err := control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer)); err != 0 && err != unix.ENOENT {
			return err
		}
	}
}

func receiveListener(server *net.UnixListener) (int, error) {
	connection, err := server.AcceptUnix()
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	text, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := connection.ReadMsgUnix(text, rights)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return 0, err
	}
	if len(messages) != 1 {
		return 0, errors.New("the program has sent no listener")
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return files[0], nil
}

func control(fd int, request uintptr, argument unsafe.Pointer) unix.Errno {
	_, _, err := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
	return err
}

// memory reads bytes of the program.
func (c *systemCall) memory(at, size uint64) []byte {
	bytes := make([]byte, size)
	for done := uint64(0); done < size; {
		local := []unix.Iovec{{Base: &bytes[done]}}
		local[0].SetLen(int(size - done))
		n, err := unix.ProcessVMReadv(int(c.thread), local, []unix.RemoteIovec{{Base: uintptr(at + done), Len: int(size - done)}}, 0)
		if err != nil || n == 0 {
			return bytes[:done] // it was killed meanwhile
		}
		done += uint64(n)
	}
	return bytes
}
