package mcp

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// ownGroup has a program run in a process group of its own, and be killed when the thread
// that has started it ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killMarked ends all processes that have the mark of a server in their environment.
func killMarked(mark string) {
	const times = 10 // repeated, since a process may start another one just before it is killed
	for range times {
		if !killMarkedNow([]byte(markName + "=" + mark)) {
			return
		}
	}
}

// killMarkedNow kills the processes that have an entry in their environment now. It reports
// whether there were any.
func killMarkedNow(entry []byte) (found bool) {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, folder := range folders {
		id, err := strconv.Atoi(folder.Name())
		if err != nil {
			continue
		}
		process, err := os.FindProcess(id) // before its environment is read: no other process gets its signal, should it end
		if err != nil {
			continue
		}
		environ, err := os.ReadFile("/proc/" + folder.Name() + "/environ")
		if err == nil && slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(e []byte) bool { return bytes.Equal(e, entry) }) {
			found = process.Kill() == nil || found
		}
		_ = process.Release()
	}
	return found
}
