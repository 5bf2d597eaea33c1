package conversation_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"parley/conversation"
)

// The environment variables of a process that only opens a database.
const (
	otherDatabase = "PARLEY_TEST_OTHER_DATABASE"
	otherLock     = "PARLEY_TEST_OTHER_LOCK"
)

// otherProcess is a process that startOther runs.
type otherProcess struct {
	database string
	lock     string // session that it locks, "" for none
	user     uint32 // user id that it runs as; 0 is that of the test

	cmd    *exec.Cmd
	stdin  io.WriteCloser // closing it ends the process
	stdout *bufio.Reader
	t      *testing.T
}

// TestOtherProcess is not a test: startOther runs it in another process. It prints a line that the database
// is open, or why it can't be opened.
func TestOtherProcess(t *testing.T) {
	t.Parallel()
	path := os.Getenv(otherDatabase)
	if path == "" {
		t.Skip("runs as a process of another test")
	}
	s, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err == nil {
		defer s.Close()
		if key := os.Getenv(otherLock); key != "" {
			_, err = s.Lock(conversation.Key(key))
		}
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
}

func startOther(t *testing.T, p otherProcess) *otherProcess {
	t.Helper()
	p.t = t
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestOtherProcess$")
	if p.user != 0 {
		p.cmd.Path = copyForEveryone(t, os.Args[0])
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.user, Gid: p.user}}
		p.cmd.Dir = "/"
	}
	p.cmd.Env = append(os.Environ(), otherDatabase+"="+p.database, otherLock+"="+p.lock)
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it may have ended
	return &p
}

// copyForEveryone copies this test's binary to where any user may run it.
func copyForEveryone(t *testing.T, binary string) string {
	t.Helper()
	bytes, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folderForEveryone(t), "test")
	syscall.ForkLock.RLock() // a process that another test starts meanwhile would inherit the open file, which then can't be run
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, bytes, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// folderForEveryone is a temporary folder that any user may enter.
func folderForEveryone(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "parley-conversation")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// expect reads the line that the process prints, and checks that it contains these words.
func (p *otherProcess) expect(words ...string) {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the other process says nothing: %v", err)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			p.t.Errorf("the other process does not say %q: %s", word, line)
		}
	}
}

// end makes the process close the database, and waits for its end.
func (p *otherProcess) end() {
	p.t.Helper()
	if err := p.stdin.Close(); err != nil {
		p.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, p.stdout) // until it has ended
	_ = p.cmd.Wait()                     // its output was read
}
