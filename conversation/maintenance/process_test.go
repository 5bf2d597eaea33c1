package maintenance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
)

// The environment of a process that uses a database.
const (
	userDatabase = "PARLEY_TEST_USER_DATABASE"
	userWrites   = "PARLEY_TEST_USER_WRITES" // "" for one that only has it open
)

// user is a process that has a database open, as a gateway has.
type user struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stored atomic.Int64 // messages that it has stored
	ended  chan struct{}
	more   chan struct{} // gets something when a message was stored, if somebody waits
}

// TestUser is no test by itself: it is what use runs. It stores messages, and
// says so of each when it is done, until standard input is closed.
func TestUser(t *testing.T) {
	t.Parallel()
	path := os.Getenv(userDatabase)
	if path == "" {
		t.Skip("runs as a process of another test")
	}
	s, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fmt.Println("open")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	for n := 1; os.Getenv(userWrites) != ""; n++ {
		select {
		case <-ended:
			return
		default:
		}
		exchange(t, s, "cli:load", n, strings.Repeat("word ", 200))
		fmt.Println("stored", n)
	}
	<-ended
}

// use starts a process that has the database open, and writes if asked to.
func use(t *testing.T, path string, writes bool) *user {
	t.Helper()
	u := &user{cmd: exec.Command(os.Args[0], "-test.run=^TestUser$"), ended: make(chan struct{}), more: make(chan struct{})}
	u.cmd.Env = append(os.Environ(), userDatabase+"="+path)
	if writes {
		u.cmd.Env = append(u.cmd.Env, userWrites+"=1")
	}
	u.cmd.Stderr = os.Stderr
	stdout, err := u.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if u.stdin, err = u.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the other process says %q", lines.Text())
	}
	go func() {
		defer close(u.ended)
		for lines.Scan() {
			var n int64
			if _, err := fmt.Sscanf(lines.Text(), "stored %d", &n); err == nil {
				u.stored.Store(n)
				select {
				case u.more <- struct{}{}:
				default:
				}
			}
		}
		_ = u.cmd.Wait()
	}()
	t.Cleanup(u.kill)
	return u
}

// await waits until the process has stored so many messages more.
func (u *user) await(t *testing.T, more int64) {
	t.Helper()
	for want := u.stored.Load() + more; u.stored.Load() < want; {
		select {
		case <-u.more:
		case <-u.ended:
			t.Fatal("the other process has ended")
		}
	}
}

// stop ends the process in order.
func (u *user) stop() {
	u.stdin.Close()
	<-u.ended
}

// kill is kill -9.
func (u *user) kill() {
	_ = u.cmd.Process.Kill() // it may have ended
	<-u.ended
}

// exchange stores a question and its answer.
func exchange(t testing.TB, s *conversation.Store, key conversation.Key, n int, text string) {
	t.Helper()
	ctx := context.Background()
	in := conversation.Inbound{Key: key, SourceID: fmt.Sprintf("%s/%d/%d", key, os.Getpid(), n), Address: "x", Text: text}
	if _, err := s.Accept(ctx, nil, in); err != nil {
		t.Fatal(err)
	}
	turn, err := s.Begin(ctx, key, 1000)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Commit(ctx, conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Messages: []conversation.Message{
			{Role: conversation.RoleUser, Content: turn.Waiting[0].Text, Tokens: 5, SourceID: in.SourceID},
			{Role: conversation.RoleAssistant, Content: "answer to " + text, Tokens: 5},
		},
		Replies: []conversation.Delivery{{Address: "x", Text: "answer to " + text}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// newDatabase makes a closed database in which each session has so many
// exchanges, numbered from 1.
func newDatabase(t testing.TB, sessions ...int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "conversations.db")
	s := storetest.Open(t, path)
	defer s.Close()
	for i, exchanges := range sessions {
		for n := range exchanges {
			exchange(t, s, sessionKey(i+1), n+1, fmt.Sprintf("question %d of session %d", n+1, i+1))
		}
	}
	if err := s.Sweep(t.Context()); err != nil { // the index has them all
		t.Fatal(err)
	}
	return path
}

func sessionKey(n int) conversation.Key { return conversation.Key(fmt.Sprintf("cli:s%d", n)) }
