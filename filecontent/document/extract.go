package document

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/metrics"
	"slices"
	"strings"
	"time"
)

// What a process may take to read a document.
const (
	maxTime   = 30 * time.Second
	maxMemory = 512 << 20 // bytes
)

// Exit codes of Serve beside 0 and 1.
const (
	exitMemory = 3
	exitTime   = 4
)

// Extractor reads documents and web pages in processes of its own, which can be ended
// whatever a document does to them.
type Extractor struct {
	Command []string // runs Serve with a document on standard input, and ServeWebPage behind WebPageFlag
}

// WebPageFlag stands before the address of a web page in a command.
const WebPageFlag = "--web-page"

// Text returns the text of a document. A *Problem says why it has none.
func (e Extractor) Text(ctx context.Context, document io.Reader) (string, error) {
	return e.run(ctx, document)
}

// WebPage returns what a web page says, whose HTML is in UTF-8 and was at an address. A
// *Problem says why it says nothing.
func (e Extractor) WebPage(ctx context.Context, page io.Reader, address string) (WebPage, error) {
	text, err := e.run(ctx, page, WebPageFlag+"="+address)
	if err != nil {
		return WebPage{}, err
	}
	var read WebPage
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return WebPage{}, brokenPage
	}
	return read, nil
}

// run runs the command with further arguments and returns what it prints.
func (e Extractor) run(ctx context.Context, document io.Reader, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime+5*time.Second)
	defer cancel()
	var text, words bytes.Buffer
	command := exec.CommandContext(ctx, e.Command[0], slices.Concat(e.Command[1:], arguments)...)
	command.Env = []string{} // it needs none of the gateway's secrets
	command.Stdin = document
	command.Stdout, command.Stderr = &limited{&text, MaxText + 1<<10}, &limited{&words, 1 << 10}
	command.WaitDelay = time.Second
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return strings.ToValidUTF8(text.String(), "\uFFFD"), nil
	case ctx.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded:
		return "", ctx.Err()
	case !errors.As(err, &exit):
		return "", fmt.Errorf("read a document: %w", err)
	}
	switch line, isProblem := strings.CutPrefix(words.String(), problemMark); {
	case exit.ExitCode() == 1 && isProblem:
		return "", &Problem{strings.TrimSpace(line)}
	case exit.ExitCode() == exitMemory:
		return "", &Problem{"reading it takes too much memory"}
	case exit.ExitCode() == exitTime || ctx.Err() != nil:
		return "", &Problem{"reading it takes too long"}
	}
	return "", broken // it has ended the process
}

// problemMark stands before the words of a Problem, which Serve writes.
const problemMark = "problem: "

// limited writes up to a number of bytes, and drops the rest.
type limited struct {
	to   *bytes.Buffer
	room int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.room)
	l.room -= n
	l.to.Write(p[:n])
	return len(p), nil
}

// Serve reads a document from in and writes its text to out, or what is wrong with it
// to problems. It returns the exit code of the process, or ends the process when the
// document takes too much time or memory.
func Serve(in io.Reader, out, problems io.Writer) int {
	return serve(in, out, problems, Text)
}

func serve(in io.Reader, out, problems io.Writer, read func(data []byte) (string, error)) int {
	go watch(time.Now().Add(maxTime))
	data, err := io.ReadAll(in)
	if err != nil {
		return 2
	}
	text, err := read(data)
	if err != nil {
		fmt.Fprint(problems, problemMark, err)
		return 1
	}
	if _, err := io.WriteString(out, text); err != nil {
		return 2
	}
	return 0
}

// watch ends the process at a time, or when it takes too much memory.
func watch(end time.Time) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(20 * time.Millisecond) {
		metrics.Read(sample)
		if sample[0].Value.Uint64()-sample[1].Value.Uint64() > maxMemory {
			os.Exit(exitMemory)
		}
		if time.Now().After(end) {
			os.Exit(exitTime)
		}
	}
}
