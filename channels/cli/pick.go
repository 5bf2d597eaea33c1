package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/plaintext"
)

var (
	// ErrNothingPicked is returned by Pick when the user chose none.
	ErrNothingPicked = errors.New("no conversation was chosen")

	// ErrNotInteractive is returned by Pick without a terminal.
	ErrNotInteractive = errors.New("choosing a conversation needs a terminal: run `gateway chat --resume` without redirecting its input or output")

	// ErrNoConversations is returned by Pick when there is nothing to choose from.
	ErrNoConversations = errors.New("there is no conversation to resume yet")
)

// Picker asks on a terminal which conversation to go on with.
type Picker struct {
	In          io.Reader // a terminal in its ordinary mode; read up to the end of a line, never beyond
	Out         io.Writer
	Interactive bool // as in Options
}

// Pick lists the conversations in the given order, and returns the chosen one. It
// returns ErrNothingPicked for an empty line or the end of the input, and asks
// again for anything that is no number of the list. It returns when ctx ends, and
// abandons a read that is under way then.
func (p Picker) Pick(ctx context.Context, from []conversation.Conversation, now time.Time) (conversation.Conversation, error) {
	var none conversation.Conversation
	switch {
	case !p.Interactive:
		return none, ErrNotInteractive
	case len(from) == 0:
		return none, ErrNoConversations
	}
	if err := p.list(from, now); err != nil {
		return none, err
	}
	for {
		if _, err := fmt.Fprintf(p.Out, "\nResume which one? [1-%d, Enter cancels] ", len(from)); err != nil {
			return none, err
		}
		answer, err := p.line(ctx)
		if err != nil && !errors.Is(err, io.EOF) {
			return none, err
		}
		if answer = strings.TrimSpace(plaintext.ForTerminal(answer)); answer == "" {
			return none, ErrNothingPicked
		}
		if n, nerr := strconv.Atoi(answer); nerr == nil && n >= 1 && n <= len(from) {
			return from[n-1], nil
		}
		if err != nil {
			return none, ErrNothingPicked
		}
		if _, err := fmt.Fprintf(p.Out, "%q is not a number from 1 to %d.\n", shorten(answer, 1, 40), len(from)); err != nil {
			return none, err
		}
	}
}

func (p Picker) list(from []conversation.Conversation, now time.Time) error {
	pal := newPalette()
	var b strings.Builder
	for i, c := range from {
		title := strings.Join(strings.Fields(plaintext.ForTerminal(c.Title)), " ")
		if title == "" {
			title = "untitled"
		}
		mark := ""
		if c.Active {
			mark = " · open"
		}
		fmt.Fprintf(&b, "%3d  %s  %s\n", i+1, shorten(title, 1, 60),
			pal.dim(when(c.UpdatedAt, now)+" · "+count(c.Messages, "message")+mark))
	}
	_, err := io.WriteString(p.Out, b.String())
	return err
}

// line reads byte by byte, so that the chat gets what follows.
func (p Picker) line(ctx context.Context) (string, error) {
	type result struct {
		text string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		var text []byte
		for b := make([]byte, 1); ; {
			n, err := p.In.Read(b)
			if n == 1 && b[0] == '\n' {
				read <- result{string(text), nil}
				return
			}
			text = append(text, b[:n]...)
			if err != nil {
				read <- result{string(text), err}
				return
			}
		}
	}()
	select {
	case r := <-read:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
