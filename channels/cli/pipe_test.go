package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"parley/channels"
	"parley/conversation"
)

// talk runs the channel on a pipe with a gateway that answers as reply says.
func talk(t *testing.T, in io.Reader, reply func(text string) string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c, err := New(Options{In: in, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	inbox := make(chan conversation.Inbound, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range inbox {
			if out.Len() == 0 {
				sendText(t, c, "yesterday", "late")
			}
			sendText(t, c, m.Address, reply(m.Text))
		}
	}()
	err = c.Run(t.Context(), func(_ context.Context, _ []conversation.Cursor, batch ...conversation.Inbound) error {
		for _, m := range batch {
			inbox <- m
		}
		return nil
	})
	close(inbox)
	<-done
	return out.String(), err
}

func sendText(t *testing.T, c *Channel, address, text string) {
	d := conversation.Delivery{Key: c.Key(), Address: address, Text: text}
	if _, err := c.Send(t.Context(), d, c.Split(d)[0]); err != nil {
		t.Error(err)
	}
}

func TestPipeAnswersLineByLine(t *testing.T) {
	out, err := talk(t, strings.NewReader("hello\n\n  \r\nbye \xff\x1b[2J\x00\r\nlast, without an end"), func(text string) string {
		return "**" + text + "**\n"
	})
	want := "(from before)\nlate\n**hello**\n**bye \uFFFD[2J**\n**last, without an end**\n"
	if err != nil || out != want {
		t.Errorf("printed %q, %v; want %q", out, err, want)
	}
}

func TestPipeTakesVeryLongLines(t *testing.T) {
	line := strings.Repeat("long ", 3<<20/5) + "end"
	out, err := talk(t, strings.NewReader(line+"\nnext\n"), func(text string) string { return fmt.Sprint(len(text)) })
	if want := fmt.Sprintf("(from before)\nlate\n%d\n4\n", len(line)); err != nil || out != want {
		t.Errorf("printed %q, %v; want %q", out, err, want)
	}
}

func TestPipeEndsInWordsWhenAMessageIsNotStored(t *testing.T) {
	c, err := New(Options{In: strings.NewReader("hello\n"), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk is full")
	err = c.Run(t.Context(), func(context.Context, []conversation.Cursor, ...conversation.Inbound) error { return full })
	if !errors.Is(err, full) || !strings.Contains(err.Error(), `"hello" was not stored`) {
		t.Errorf("Run ended with %v", err)
	}
}

func TestPipeEndsWithItsContext(t *testing.T) {
	in, w := io.Pipe()
	defer w.Close()
	c, err := New(Options{In: in, Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	accepted := func(context.Context, []conversation.Cursor, ...conversation.Inbound) error { cancel(); return nil }
	go func() { _, _ = io.WriteString(w, "never answered\n") }()
	if err := c.Run(ctx, accepted); err != nil {
		t.Errorf("Run ended with %v", err)
	}
}

func TestReplyToAnotherSessionIsKept(t *testing.T) {
	c, err := New(Options{Session: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(t.Context(), conversation.Delivery{Key: "cli:other", Text: "secret"}, channels.Part{})
	var serr *channels.SendError
	if !errors.As(err, &serr) || serr.Permanent || serr.RetryAfter == 0 {
		t.Errorf("got %v", err)
	}
}

func TestSessionNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"default": true, "a.B-c_9": true, strings.Repeat("x", 64): true,
		strings.Repeat("x", 65): false, "a b": false, "a:b": false, "ü": false, "a\n": false,
	} {
		if _, err := New(Options{Session: name}); (err == nil) != ok {
			t.Errorf("session %q: %v", name, err)
		}
	}
}

// brokenPipe is an output that is gone or full.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestPipeThatCantBeWrittenEndsTheChat(t *testing.T) {
	c, err := New(Options{In: strings.NewReader("hello\n"), Out: brokenPipe{}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Run(t.Context(), func(_ context.Context, _ []conversation.Cursor, batch ...conversation.Inbound) error {
		for _, m := range batch {
			d := conversation.Delivery{Key: c.Key(), Address: m.Address, Text: "hi"}
			go c.Send(context.Background(), d, c.Split(d)[0])
		}
		return nil
	})
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("the chat ended with %v", err)
	}
}

// A pipe mostly ends on a terminal too. What was written into it is kept as it was.
func TestPipePrintsNothingThatSteersATerminal(t *testing.T) {
	const isolated = "\u2067\u05d0\u2069?"
	var asked string
	out, err := talk(t, strings.NewReader(isolated+"\n"), func(text string) string {
		asked = text
		return "\x1b[2Ja\u202eb\u009b31m\u2066c\u0085\x7f" + text
	})
	if err != nil || asked != isolated || strings.ContainsFunc(out, steers) || !strings.Contains(out, "[2Jab31mc\u05d0?") {
		t.Errorf("asked %q, printed %q, %v", asked, out, err)
	}
}
