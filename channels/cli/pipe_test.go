package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"parley/channels/cli"
	"parley/conversation"
	"parley/conversation/storetest"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
	"parley/plaintext"
)

// pipeHarness runs chats whose input and output are pipes, with the files of one gateway.
type pipeHarness struct {
	*gatewaytest.Gateway
	t *testing.T
}

// pipedChat is a chat of a pipeHarness.
type pipedChat struct {
	t             *testing.T
	in            *os.File // what the chat reads
	out, problems gatewaytest.Log
	ended         chan error
	interrupt     context.CancelFunc
}

func newPipeHarness(t *testing.T, answer func(question string) llmtest.Answer) pipeHarness {
	t.Helper()
	s := pipeHarness{gatewaytest.New(t, gatewaytest.Options{InProcess: true, Config: "[agent]\ndrain_timeout = \"10ms\"\n"}), t}
	storetest.Make(t, s.Database)
	s.Model.Reply(func(c llmtest.Call) llmtest.Answer { return answer(c.LastUser()) })
	return s
}

// opens starts a chat.
func (s pipeHarness) opens(terminal gateway.Terminal) *pipedChat {
	s.t.Helper()
	read, in, err := os.Pipe()
	s.must(err)
	p := &pipedChat{t: s.t, in: in, ended: make(chan error, 1)}
	terminal.In, terminal.Err = read, &p.problems
	printed := make(chan struct{})
	if terminal.Out == nil {
		out, write, err := os.Pipe()
		s.must(err)
		terminal.Out = write
		go func() { _, _ = io.Copy(&p.out, out); out.Close(); close(printed) }() // ends when write is closed
	} else {
		close(printed)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	p.interrupt = interrupt
	go func() {
		err := s.Chat(ctx, terminal)
		read.Close()
		terminal.Out.Close()
		<-printed
		p.ended <- err
	}()
	return p
}

// pipes runs a chat with an input, to its end.
func (s pipeHarness) pipes(input string, terminal gateway.Terminal) (out, problems string, err error) {
	s.t.Helper()
	p := s.opens(terminal)
	p.writes(input)
	p.in.Close()
	return p.ends()
}

func (p *pipedChat) writes(input string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, input); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pipedChat) prints(want string) {
	p.t.Helper()
	gatewaytest.Await(p.t, fmt.Sprintf("%q", want), func() bool { return p.out.String() == want })
}

func (p *pipedChat) ends() (out, problems string, err error) {
	p.t.Helper()
	gatewaytest.Await(p.t, "the end of the chat", func() bool { return len(p.ended) > 0 })
	p.in.Close()
	p.interrupt()
	err = <-p.ended
	return p.out.String(), p.problems.String(), err
}

func (s pipeHarness) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// asked returns the stored user messages of a session.
func (s pipeHarness) asked(session string) (asked []string) {
	s.t.Helper()
	store := s.Store()
	active, err := store.Active(s.t.Context(), cli.Key(session))
	if errors.Is(err, conversation.ErrNotFound) {
		return nil
	}
	s.must(err)
	page, err := store.Messages(s.t.Context(), conversation.MessageQuery{Conversation: active.ID})
	s.must(err)
	for _, m := range page.Messages {
		if m.Role == conversation.RoleUser {
			asked = append(asked, m.Content)
		}
	}
	return asked
}

// Piped input is one message; with --lines, each line is one. Answers are printed as the model wrote
// them, but without control characters, since the output mostly ends up in a terminal.
func TestPipedInput(t *testing.T) {
	t.Parallel()
	const answer = "\x1b[2J**a**\u202eb\u009b31m\u2066c\u0085\x7f\u05d0\n"
	const printed = "[2J**a**b31mc\u05d0\n"
	s := newPipeHarness(t, func(string) llmtest.Answer { return llmtest.Answer{Text: answer} })
	long := strings.Repeat("long ", 3<<20/5) + "end"
	for session, test := range map[string]struct {
		input    string
		terminal gateway.Terminal
		asked    []string
	}{
		"piped":        {"\nfirst line\r\n\n  second\n\n", gateway.Terminal{}, []string{"first line\n\n  second"}},
		"lines":        {"one\n\n  \r\n\u2067\u05d0\u2069 \xff\x1b[2J\x00\r\nlast, without an end", gateway.Terminal{Lines: true}, []string{"one", "\u2067\u05d0\u2069 \uFFFD[2J", "last, without an end"}},
		"long":         {long + "\nnext\n", gateway.Terminal{Lines: true}, []string{long, "next"}},
		"as-an-option": {"", gateway.Terminal{Message: "what is it?"}, []string{"what is it?"}},
		"nothing":      {" \n", gateway.Terminal{}, nil},
	} {
		test.terminal.Session = session
		out, _, err := s.pipes(test.input, test.terminal)
		if want := strings.Repeat(printed, len(test.asked)); err != nil || out != want {
			t.Errorf("%s: printed %q, %v; want %q", session, out, err, want)
		}
		if asked := s.asked(session); !slices.Equal(asked, test.asked) {
			t.Errorf("%s: stored %.300q", session, asked)
		}
		if strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && plaintext.Steers(r) }) {
			t.Errorf("%s: printed %q", session, out)
		}
	}
}

// A failure is explained on standard error, and ends the chat with an error status.
func TestFailureOfThePipeIsAnError(t *testing.T) {
	t.Parallel()
	s := newPipeHarness(t, func(question string) llmtest.Answer {
		if strings.HasSuffix(question, "bad") {
			return llmtest.Answer{Status: http.StatusUnauthorized}
		}
		return llmtest.Answer{Text: "fine"}
	})
	out, problems, err := s.pipes("good\nbad\ngood\n", gateway.Terminal{Lines: true})
	if !errors.Is(err, cli.ErrFailed) || out != "fine\nfine\n" || !strings.Contains(problems, "check api_key in [llm] ("+s.Config+":") || strings.Contains(problems, "fine") {
		t.Errorf("%v; printed %q, problems %q", err, out, problems)
	}
}

// Standard error says that the model is busy. Standard output has the answer alone.
func TestPipeSaysThatTheModelIsBusy(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	s := newPipeHarness(t, func(string) llmtest.Answer {
		if tries.Add(1) == 1 {
			return llmtest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}}
		}
		return llmtest.Answer{Text: "fine"}
	})
	out, problems, err := s.pipes("", gateway.Terminal{Message: "hello?"})
	if err != nil || out != "fine\n" || !strings.HasPrefix(problems, "⏳ The model is busy. Trying again in ") || strings.Count(problems, "\n") != 1 {
		t.Errorf("%v; printed %q, problems %q", err, out, problems)
	}
}

// An answer that comes after the end of its chat, or can't be printed, is shown in the next chat of the
// same session, and in no other.
func TestReplyWaitsForTheNextChatOfItsSession(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	s := newPipeHarness(t, func(question string) llmtest.Answer {
		select {
		case <-hung:
			return llmtest.Answer{Text: "re " + question[strings.LastIndexByte(question, '\n')+1:]}
		default:
			return llmtest.Answer{Text: "void", Silence: true}
		}
	})
	left := s.opens(gateway.Terminal{Session: "mine", Lines: true})
	left.writes("first\n")
	gatewaytest.Await(t, "the model's call", func() bool { return s.Model.Served() > 0 })
	left.interrupt()
	if out, problems, err := left.ends(); !errors.Is(err, cli.ErrFailed) || out != "" || !strings.Contains(problems, "awaited for up to 10ms") ||
		!strings.Contains(problems, "The message is kept: its answer comes with the next message") {
		t.Errorf("the chat that was left printed %q, problems %q, %v", out, problems, err)
	}
	close(hung)
	if out, _, err := s.pipes("alone", gateway.Terminal{Session: "other"}); err != nil || out != "re alone\n" {
		t.Errorf("another session printed %q, %v", out, err)
	}
	next := s.opens(gateway.Terminal{Session: "mine", Lines: true})
	next.prints("(from before)\nre first\n")
	next.writes("second\n")
	next.prints("(from before)\nre first\nre second\n")
	next.in.Close()
	if _, _, err := next.ends(); err != nil {
		t.Error(err)
	}

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	s.must(err)
	if _, _, err := s.pipes("third", gateway.Terminal{Session: "mine", Out: full}); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "waits for the next chat") {
		t.Errorf("the chat that can't print ended with %v", err)
	}
	if out, _, err := s.pipes("/status", gateway.Terminal{Session: "mine"}); err != nil || !strings.HasPrefix(out, "(from before)\nre third\n") {
		t.Errorf("the next chat printed %q, %v", out, err)
	}
}

// A message whose input has not ended when the gateway is told to stop is not sent, which the person is told.
func TestPipeReportsAMessageThatWasNotComplete(t *testing.T) {
	t.Parallel()
	s := newPipeHarness(t, func(string) llmtest.Answer { return llmtest.Answer{Text: "fine"} })
	left := s.opens(gateway.Terminal{})
	left.writes("half of it\n")
	gatewaytest.Await(t, "the start", func() bool { return strings.HasPrefix(left.problems.String(), "Model: ") })
	left.interrupt()
	if out, _, err := left.ends(); err == nil || !strings.Contains(err.Error(), "nothing was sent") || out != "" {
		t.Errorf("the chat printed %q, %v", out, err)
	}
}

func TestPipeReportsAMessageThatIsNotStored(t *testing.T) {
	t.Parallel()
	s := newPipeHarness(t, func(string) llmtest.Answer { return llmtest.Answer{Text: "fine"} })
	storetest.Exec(t, s.Store(), diskFull)
	_, _, err := s.pipes("hello\n", gateway.Terminal{})
	if err == nil || !strings.Contains(err.Error(), `"hello" was not stored`) || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("the chat ended with %v", err)
	}
}

// diskFull makes the database refuse messages.
const diskFull = `CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`

// Files of replies are saved in the folder, and overwrite nothing there.
func TestFilesOfReplies(t *testing.T) {
	t.Parallel()
	s := newPipeHarness(t, func(string) llmtest.Answer { return llmtest.Answer{Text: "fine"} })
	folder := t.TempDir()
	export := gateway.Terminal{Folder: folder, Lines: true}
	out, _, err := s.pipes("hello\n/title ../../talk\n/export md\n/export md\n", export)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %q, %v; printed\n%s", files, err, out)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "hello") || !strings.Contains(out, "The file is `"+path+"`") {
			t.Errorf("%s: %q, %v; printed\n%s", path, data, err, out)
		}
	}
	export.Folder = filepath.Join(folder, "missing")
	if out, _, err := s.pipes("/export md\n", export); err != nil || !strings.Contains(out, "can't be written") {
		t.Errorf("printed %q, %v", out, err)
	}
}
