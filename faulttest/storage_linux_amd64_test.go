package faulttest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"parley/gateway/gatewaytest"
)

// storage watches all that processes write into a folder. It kills them before a given write or sync, and knows what of the folder
// is left after a power failure: what was synced, and by chance some of the rest.
type storage struct {
	w            *world
	folder       string
	ignoresSyncs bool

	mu    sync.Mutex
	root  *inode
	calls int // writes and syncs since the latest call of strikeAt
	at    int // the one before which the process is killed; 0: none
}

// inode is a file or a folder.
type inode struct {
	names []map[string]*inode // of a folder: what it held when it was synced, and after each change since

	synced  []byte   // of a file: what it held when it was synced
	changes []change // of a file, since then
	size    int64
	path    string // of a file that nobody has changed: synced is not read yet, and is what the file holds
}

// change is a change of a file that is not synced: bytes at an offset, or another size.
type change struct {
	at    int64
	bytes []byte // nil: the file ends at the offset
}

// watchStorage makes the world's gateways run with their database in a folder that is watched. The world must not be running yet.
func (w *world) watchStorage() *storage {
	w.t.Helper()
	needsWatcher(w.t)
	folder, err := filepath.EvalSymlinks(filepath.Dir(w.gw.Database))
	w.must(err)
	s := &storage{w: w, folder: folder}
	s.load()
	w.launch = func(stdin io.Reader, args ...string) *gatewaytest.Process {
		program, err := os.Executable()
		w.must(err)
		return w.gw.RunBinary(program, stdin, append([]string{runWatchedCommand, watch(w.t, s.decide), gatewaytest.Binary(w.t)}, args...)...)
	}
	return s
}

// load takes what is in the folder for synced.
func (s *storage) load() {
	s.w.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := loadInode(s.folder)
	s.w.must(err)
	s.root = root
}

func loadInode(path string) (*inode, error) {
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	names := map[string]*inode{}
	for _, entry := range list {
		at := filepath.Join(path, entry.Name())
		if entry.IsDir() {
			if names[entry.Name()], err = loadInode(at); err != nil {
				return nil, err
			}
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		names[entry.Name()] = &inode{size: info.Size(), path: at}
	}
	return &inode{names: []map[string]*inode{names}}, nil
}

// read reads the contents of files before they change, or get other names.
func (n *inode) read() {
	if n.names != nil {
		for _, of := range n.names[len(n.names)-1] {
			of.read()
		}
	}
	if n.path != "" {
		n.synced, _ = os.ReadFile(n.path) // a test that misses it fails
		n.path = ""
	}
}

// strikeAt has the process killed before its n-th write or sync from now on; 0: not at all.
func (s *storage) strikeAt(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.at = 0, n
}

// spare lets all processes live from now on, and reports whether one was killed before.
func (s *storage) spare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	struck := s.at > 0 && s.calls >= s.at
	s.at = 0
	return struck
}

// decide is called before each system call of the processes.
func (s *storage) decide(c *systemCall) verdictOnCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	what, apply, known := s.operation(c)
	switch {
	case what == "":
		return allowCall
	case !known:
		return refuseCall
	}
	if s.calls++; s.calls == s.at {
		fmt.Fprintf(s.w.gw.Log, "--- killed before: %s\n", what)
		if err := killProcessOf(c.thread); err != nil {
			s.w.t.Errorf("kill the gateway before %s: %v", what, err)
		}
	}
	if s.at > 0 && s.calls >= s.at {
		return holdCall
	}
	apply()
	return allowCall
}

// killProcessOf kills the process of a thread.
func killProcessOf(thread uint32) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "\nTgid:")
	line, _, _ := strings.Cut(rest, "\n")
	id, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	return unix.Kill(id, unix.SIGKILL)
}

// operation returns what a system call does in the folder, and what applies it to the inodes. what is "" for a call that changes
// nothing there. known is false for a call that storage does not know how to apply.
func (s *storage) operation(c *systemCall) (what string, apply func(), known bool) {
	a := c.arguments
	switch c.number {
	case unix.SYS_WRITE:
		return s.ofFile(c, a[0], "write", func(file *inode) {
			at, appends := c.position(a[0])
			if appends {
				at = file.size
			}
			file.write(at, c.memory(a[1], a[2]))
		})
	case unix.SYS_PWRITE64:
		return s.ofFile(c, a[0], "write", func(file *inode) { file.write(int64(a[3]), c.memory(a[1], a[2])) })
	case unix.SYS_FTRUNCATE:
		return s.ofFile(c, a[0], "truncate", func(file *inode) { file.truncate(int64(a[1])) })
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		return s.ofFile(c, a[0], "sync", func(file *inode) {
			if !s.ignoresSyncs {
				file.sync()
			}
		})
	case unix.SYS_OPEN, unix.SYS_OPENAT:
		if c.number == unix.SYS_OPEN {
			a = [6]uint64{cwd, a[0], a[1]}
		}
		return s.ofOpen(c.path(a[0], a[1]), a[2])
	case unix.SYS_MKDIR:
		return s.ofName("make folder", c.path(cwd, a[0]), s.makeFolder)
	case unix.SYS_MKDIRAT:
		return s.ofName("make folder", c.path(a[0], a[1]), s.makeFolder)
	case unix.SYS_UNLINK, unix.SYS_RMDIR:
		return s.ofName("delete", c.path(cwd, a[0]), s.remove)
	case unix.SYS_UNLINKAT:
		return s.ofName("delete", c.path(a[0], a[1]), s.remove)
	case unix.SYS_RENAME:
		return s.ofNames("rename", c.path(cwd, a[0]), c.path(cwd, a[1]), s.rename)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return s.ofNames("rename", c.path(a[0], a[1]), c.path(a[2], a[3]), s.rename)
	case unix.SYS_LINK:
		return s.ofNames("link", c.path(cwd, a[0]), c.path(cwd, a[1]), s.link)
	case unix.SYS_LINKAT:
		return s.ofNames("link", c.path(a[0], a[1]), c.path(a[2], a[3]), s.link)
	case unix.SYS_COPY_FILE_RANGE, unix.SYS_SPLICE:
		a[0] = a[2]
	}
	path, in := s.within(c.file(a[0]))
	if !in {
		return "", nil, true
	}
	return "another call on " + path, nil, false
}

// cwd is AT_FDCWD: a path begins at the process' folder.
const cwd = uint64(1<<64 - 100)

// within returns the path below the folder, "." for the folder itself.
func (s *storage) within(path string) (string, bool) {
	below, err := filepath.Rel(s.folder, path)
	return below, err == nil && path != "" && below != ".." && !strings.HasPrefix(below, "../")
}

func (s *storage) ofFile(c *systemCall, fd uint64, verb string, change func(*inode)) (string, func(), bool) {
	path, in := s.within(c.file(fd))
	if !in {
		return "", nil, true
	}
	return verb + " " + path, func() {
		if file := s.find(path); file != nil { // not deleted
			change(file)
		}
	}, true
}

func (s *storage) ofName(verb, path string, apply func(path string)) (string, func(), bool) {
	path, in := s.within(path)
	if !in {
		return "", nil, true
	}
	return verb + " " + path, func() { apply(path) }, true
}

func (s *storage) ofNames(verb, from, to string, apply func(from, to string)) (string, func(), bool) {
	from, in := s.within(from)
	to, into := s.within(to)
	if !in && !into {
		return "", nil, true
	}
	return verb + " " + from + " to " + to, func() { apply(from, to) }, in && into
}

func (s *storage) ofOpen(path string, flags uint64) (string, func(), bool) {
	path, in := s.within(path)
	if !in {
		return "", nil, true
	}
	file := s.find(path)
	switch {
	case file == nil && flags&unix.O_CREAT != 0:
		return "create " + path, func() { s.name(path, &inode{}) }, true
	case file != nil && flags&unix.O_TRUNC != 0 && file.size > 0:
		return "empty " + path, func() { file.truncate(0) }, true
	}
	return "", nil, true
}

// find returns what has a path now, nil if nothing has.
func (s *storage) find(path string) *inode {
	if path == "." {
		return s.root
	}
	folder := s.find(filepath.Dir(path))
	if folder == nil || folder.names == nil {
		return nil
	}
	return folder.names[len(folder.names)-1][filepath.Base(path)]
}

// name gives a path to an inode, nil: to none. It does nothing if the path's folder does not exist.
func (s *storage) name(path string, n *inode) {
	folder := s.find(filepath.Dir(path))
	if folder == nil || folder.names == nil {
		return
	}
	names := maps.Clone(folder.names[len(folder.names)-1])
	if names[filepath.Base(path)] = n; n == nil {
		delete(names, filepath.Base(path))
	}
	folder.names = append(folder.names, names)
}

func (s *storage) makeFolder(path string) {
	if s.find(path) == nil {
		s.name(path, &inode{names: []map[string]*inode{{}}})
	}
}

func (s *storage) remove(path string) {
	if file := s.find(path); file != nil {
		file.read()
		s.name(path, nil)
	}
}

func (s *storage) link(from, to string) {
	if file := s.find(from); file != nil && s.find(to) == nil {
		file.read()
		s.name(to, file)
	}
}

// rename changes a folder once if both names are in it, since file systems do so, too.
func (s *storage) rename(from, to string) {
	file := s.find(from)
	if file == nil || from == to {
		return
	}
	file.read()
	if replaced := s.find(to); replaced != nil {
		replaced.read()
	}
	s.name(to, file)
	s.name(from, nil)
	if folder := s.find(filepath.Dir(from)); folder == s.find(filepath.Dir(to)) {
		last := len(folder.names) - 1
		folder.names = append(folder.names[:last-1], folder.names[last])
	}
}

func (n *inode) write(at int64, bytes []byte) {
	n.read()
	n.changes = append(n.changes, change{at, bytes})
	n.size = max(n.size, at+int64(len(bytes)))
}

func (n *inode) truncate(size int64) {
	n.read()
	n.changes = append(n.changes, change{at: size})
	n.size = size
}

func (n *inode) sync() {
	if n.names != nil {
		n.names = n.names[len(n.names)-1:]
		return
	}
	if len(n.changes) > 0 {
		n.synced = n.after(func() bool { return true })
		n.changes = nil
	}
}

const sector = 512 // bytes, which a disk writes completely or not at all

// after returns the contents of a file on which those changes were stored for which stored returns true. It is asked for each
// sector of a change.
func (n *inode) after(stored func() bool) []byte {
	contents := n.synced
	for _, c := range n.changes {
		if c.bytes == nil {
			if stored() {
				contents = resized(contents, c.at)
			}
			continue
		}
		for from, end := c.at, c.at+int64(len(c.bytes)); from < end; {
			to := min(from/sector*sector+sector, end)
			if stored() {
				contents = resized(contents, max(to, int64(len(contents))))
				copy(contents[from:to], c.bytes[from-c.at:to-c.at])
			}
			from = to
		}
	}
	return contents
}

// resized returns the bytes with another size, behind which they are 0.
func resized(contents []byte, size int64) []byte {
	if missing := size - int64(len(contents)); missing > 0 {
		return append(contents, make([]byte, missing)...)
	}
	return contents[:size]
}

// failPower leaves in the folder what a power failure would have left at the moment when the process was killed. If torn is not
// nil, it decides which further changes of names, and which sectors, have come onto the disk without a sync.
func (s *storage) failPower(torn *rand.Rand) {
	s.w.t.Helper()
	s.mu.Lock()
	stored := func() bool { return false }
	if torn != nil {
		share := torn.Float64()
		stored = func() bool { return torn.Float64() < share }
	}
	index, _ := os.ReadFile(s.w.gw.Database + "-shm") // it is not synced, and a process that opens the database alone makes it anew
	keptIndex := torn != nil && torn.IntN(2) == 0
	s.w.must(s.root.leave(s.folder, torn, stored))
	s.mu.Unlock()
	if keptIndex {
		index = index[:min(len(index), torn.IntN(len(index)+1)/sector*sector)]
		s.w.must(os.WriteFile(s.w.gw.Database+"-shm", index, 0o600))
	} else {
		_ = os.Remove(s.w.gw.Database + "-shm") // it may not exist
	}
	s.w.must(changeBoot(s.w.gw.Database + ".lock"))
	s.load()
}

// leave makes a file or folder what is left of it.
func (n *inode) leave(path string, torn *rand.Rand, stored func() bool) error {
	if n.path != "" {
		return nil
	}
	if n.names == nil {
		return os.WriteFile(path, n.after(stored), 0o600)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	names := n.names[0]
	if torn != nil {
		names = n.names[torn.IntN(len(n.names))]
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range list {
		if names[entry.Name()] == nil {
			if err := os.RemoveAll(filepath.Join(path, entry.Name())); err != nil {
				return err
			}
		}
	}
	for name, of := range names {
		if err := of.leave(filepath.Join(path, name), torn, stored); err != nil {
			return err
		}
	}
	return nil
}

// changeBoot replaces the ID of the machine's boot in the database's lock file, since the machine boots after a power failure.
func changeBoot(path string) error {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, boot) {
		return nil // the file, or its contents, were not left
	}
	text[0] = 'x'
	return os.WriteFile(path, text, 0o600)
}

// position returns the offset of an open file, and whether writes go to the end of the file instead.
func (c *systemCall) position(fd uint64) (at int64, appends bool) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", c.thread, int32(fd)))
	if err != nil {
		return 0, false
	}
	var flags int64
	_, _ = fmt.Sscanf(string(info), "pos: %d\nflags: %o", &at, &flags) // proc_pid_fdinfo(5)
	return at, flags&unix.O_APPEND != 0
}

// file returns the path of an open file. It ends with " (deleted)" if the file has none any more.
func (c *systemCall) file(fd uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.thread, int32(fd)))
	if err != nil {
		return ""
	}
	return path
}

// path returns an absolute path without symbolic links in its folder. at is the folder in which a relative one begins.
func (c *systemCall) path(at, name uint64) string {
	const longest = 4096
	text := c.memory(name, longest-name%longest) // to the end of the page, and once more if that does not do
	if !bytes.Contains(text, []byte{0}) {
		text = append(text, c.memory(name+uint64(len(text)), longest)...)
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	path := string(text)
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		folder := c.file(at)
		if at == cwd || int32(at) == unix.AT_FDCWD {
			folder, _ = os.Readlink(fmt.Sprintf("/proc/%d/cwd", c.thread))
		}
		path = filepath.Join(folder, path)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path
	}
	return filepath.Join(folder, filepath.Base(path))
}

// awaitStrike waits until the process was killed before the call that strikeAt has named.
func (s *storage) awaitStrike(p *gatewaytest.Process) {
	s.w.t.Helper()
	gatewaytest.Await(s.w.t, "the end of the gateway before one of its writes", p.HasEnded)
	if !s.spare() {
		s.w.t.Fatalf("the gateway ended by itself: %s", p.Stderr)
	}
}

// written returns how many writes and syncs there were since the latest call of strikeAt.
func (s *storage) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}
