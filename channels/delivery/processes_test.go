package delivery_test

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/channels/delivery"
	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/waittest"
)

// The environment variables of a process that only runs a sender.
const (
	senderDatabase = "PARLEY_TEST_SENDER_DATABASE"
	senderServer   = "PARLEY_TEST_SENDER_SERVER"
)

// TestSenderProcess is not a test: startProcess runs it in another process.
func TestSenderProcess(t *testing.T) {
	t.Parallel()
	path := os.Getenv(senderDatabase)
	if path == "" {
		t.Skip("runs as a process of another test")
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	store, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	channel, err := telegram.New(telegram.Deps{Config: telegram.Config{Token: telegramtest.Token, APIURL: os.Getenv(senderServer), Access: "open"}, Cursor: store.Cursor, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	flush := make(chan struct{})
	close(flush)
	if err := delivery.New(channel, store, log).Run(t.Context(), conversation.Scope{Channel: "telegram"}, flush); err != nil {
		t.Fatal(err)
	}
}

// startProcess runs a sender in another process, which ends when no reply is left to be sent.
func (p *outboxHarness) startProcess() (process *exec.Cmd, log *waittest.Buffer) {
	p.t.Helper()
	log = &waittest.Buffer{}
	process = exec.Command(os.Args[0], "-test.run=^TestSenderProcess$", "-test.timeout=5m")
	process.Env = append(os.Environ(), senderDatabase+"="+storetest.Database(p.t, p.path), senderServer+"="+p.server.URL)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = process.Process.Kill() }) // it may have ended
	return process, log
}

// The second process starts while the platform still takes the reply from the
// first: without the session's lock it would send it too.
func TestTwoProcessesSendAReplyOnce(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.reply(1, "once")
	reached, open := make(chan struct{}, 2), make(chan struct{})
	p.server.OnSend(func(telegramtest.Message) telegramtest.Verdict {
		reached <- struct{}{}
		<-open
		return telegramtest.Verdict{}
	}, nil)
	let := sync.OnceFunc(func() { close(open) })
	t.Cleanup(let) // or the platform would wait for ever for its handlers when the test has failed
	first, firstLog := p.startProcess()
	select {
	case <-reached:
	case <-time.After(waittest.Patience):
		t.Fatalf("the first process sends nothing:\n%s", firstLog)
	}
	second, secondLog := p.startProcess()
	ended := make(chan error, 1)
	go func() { ended <- second.Wait() }()
	if storetest.OnPostgres() { // a node leaves a session to the one that works it
		if err := waittest.Receive(t, ended, "the end of the second process"); err != nil || len(reached) > 0 {
			t.Fatalf("the second process sends the reply, %v:\n%s", err, secondLog)
		}
		ended <- nil
	}
	for deadline := time.Now().Add(waittest.Patience); !storetest.OnPostgres() && !strings.Contains(secondLog.String(), "worked elsewhere"); time.Sleep(5 * time.Millisecond) {
		if len(reached) > 0 || time.Now().After(deadline) {
			t.Fatalf("the second process does not wait for the first:\n%s", secondLog)
		}
	}
	let()
	if err := errors.Join(first.Wait(), waittest.Receive(t, ended, "the end of the second process")); err != nil {
		t.Errorf("%v\nfirst:\n%s\nsecond:\n%s", err, firstLog, secondLog)
	}
	if sent := p.server.Sent(); len(sent) != 1 {
		t.Fatalf("the chat got the reply %d times", len(sent))
	}
}
