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

// databaseUser is a process that has a database open, like a gateway.
type databaseUser struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stored atomic.Int64 // messages that it has stored
	ended  chan struct{}
	more   chan struct{} // receives when a message was stored, if somebody waits
}

// TestUser is not a test: startDatabaseUser runs it in another process. It stores messages, and prints a
// line for each, until standard input is closed.
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
		addTurn(t, s, "cli:load", n, strings.Repeat("word ", 200))
		fmt.Println("stored", n)
	}
	<-ended
}

// startDatabaseUser starts a process that opens the database, and stores messages if writes is set.
func startDatabaseUser(t *testing.T, path string, writes bool) *databaseUser {
	t.Helper()
	u := &databaseUser{cmd: exec.Command(os.Args[0], "-test.run=^TestUser$"), ended: make(chan struct{}), more: make(chan struct{})}
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

// await waits until the process has stored a number of further messages.
func (u *databaseUser) await(t *testing.T, more int64) {
	t.Helper()
	for want := u.stored.Load() + more; u.stored.Load() < want; {
		select {
		case <-u.more:
		case <-u.ended:
			t.Fatal("the other process has ended")
		}
	}
}

// stop ends the process in an orderly way.
func (u *databaseUser) stop() {
	u.stdin.Close()
	<-u.ended
}

// kill is kill -9.
func (u *databaseUser) kill() {
	_ = u.cmd.Process.Kill() // it may have ended
	<-u.ended
}

// addTurn stores a question and its answer.
func addTurn(t testing.TB, s *conversation.Store, key conversation.Key, n int, text string) {
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

// newDatabase makes a closed database. Each session has the given number of turns, numbered from 1.
func newDatabase(t testing.TB, sessions ...int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "conversations.db")
	s := storetest.Open(t, path)
	defer s.Close()
	for i, exchanges := range sessions {
		for n := range exchanges {
			addTurn(t, s, sessionKey(i+1), n+1, fmt.Sprintf("question %d of session %d", n+1, i+1))
		}
	}
	if err := s.Sweep(t.Context()); err != nil { // the index has them all
		t.Fatal(err)
	}
	return path
}

func sessionKey(n int) conversation.Key { return conversation.Key(fmt.Sprintf("cli:s%d", n)) }
