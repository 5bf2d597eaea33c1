package cli

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"parley/conversation"
)

// `gateway chat | head -1` must not wait for a model whose answer nobody reads.
func TestPipeWithoutAReaderIsToldWhileAnAnswerIsMade(t *testing.T) {
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, typed := io.Pipe()
	defer typed.Close()
	abandoned := make(chan struct{})
	c, err := New(Options{In: in, Out: out, Abandoned: func() { close(abandoned) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.Run(ctx, func(context.Context, []conversation.Cursor, ...conversation.Inbound) error {
			return reader.Close() // and the answer never comes
		})
	}()
	if _, err := io.WriteString(typed, "hello\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-abandoned:
	case <-time.After(time.Minute):
		t.Error("the chat goes on although nobody reads its output")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run ended with %v", err)
	}
}

// What is read, or can be read later, is no reason to end a chat.
func TestOutputsWithReadersAreKept(t *testing.T) {
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer out.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, kept := range []*os.File{out, file, null} {
		if readerGone(kept) {
			t.Errorf("%s is taken for a pipe without a reader", kept.Name())
		}
	}
	if _, err := out.Write(make([]byte, 1<<16)); err != nil { // what a pipe holds: pipe(7)
		t.Fatal(err)
	}
	if readerGone(out) {
		t.Error("a full pipe is taken for one without a reader")
	}
}
