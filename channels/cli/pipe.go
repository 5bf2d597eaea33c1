package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"parley/conversation"
	"parley/plaintext"
)

// pipe is the frontend without a terminal: a line in, its reply out.
type pipe struct {
	in     io.Reader
	errOut io.Writer

	mu      sync.Mutex // guards out and waiting
	out     io.Writer
	waiting string        // the message whose reply is due
	replied chan struct{} // closed when it was printed

	broken chan error // why replies can't be written

	abandoned func() // called when nobody reads the replies any more; may be nil
}

func newPipe(o Options) *pipe {
	return &pipe{broken: make(chan error, 1), in: o.In, out: o.Out, errOut: o.Err, abandoned: o.Abandoned}
}

func (p *pipe) run(ctx context.Context, post postFunc, ready func()) error {
	ready()
	watch, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { p.watchReader(watch) })
	defer watcher.Wait()
	defer stopWatching()
	lines := readLines(ctx, p.in)
	for {
		var l inputLine
		select {
		case <-ctx.Done():
			return nil
		case l = <-lines:
		}
		if text := entered(l.text); strings.TrimSpace(text) != "" {
			if err := p.ask(ctx, post, text); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
		switch {
		case errors.Is(l.err, io.EOF):
			return nil
		case l.err != nil:
			return fmt.Errorf("reading the input: %w", l.err)
		}
	}
}

// ask accepts one message and waits until its reply is printed.
func (p *pipe) ask(ctx context.Context, post postFunc, text string) error {
	id, err := newID()
	if err != nil {
		return err
	}
	replied := make(chan struct{})
	p.mu.Lock()
	p.waiting, p.replied = id, replied
	p.mu.Unlock()
	if err := post(ctx, id, text); err != nil {
		return fmt.Errorf("the message %q was not stored: %w", shorten(text, 1, 40), err)
	}
	select {
	case <-replied:
		return nil
	case err := <-p.broken:
		return fmt.Errorf("the reply can't be written, and waits for the next chat: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pipe) deliver(_ context.Context, d conversation.Delivery) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := d.Address == p.waiting
	text := strings.TrimRight(plaintext.ForTerminal(d.Text), "\n") + "\n"
	if !own {
		text = fromBefore + "\n" + text
	}
	if _, err := io.WriteString(p.out, text); err != nil {
		select {
		case p.broken <- err:
		default:
		}
		return err
	}
	if own {
		p.waiting = ""
		close(p.replied)
	}
	return nil
}

func (p *pipe) preview(string, string) {}

func (p *pipe) log(b []byte) { _, _ = p.errOut.Write(b) }

type inputLine struct {
	text string // without its line end
	err  error  // why it is the last
}

// readLines sends the lines of r, however long, until ctx ends. It abandons a
// read that is under way then, since it can't be interrupted.
func readLines(ctx context.Context, r io.Reader) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		br := bufio.NewReader(r)
		for {
			s, err := br.ReadString('\n')
			select {
			case lines <- inputLine{strings.TrimRight(s, "\r\n"), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// readerCheck is how often watchReader checks whether a pipe still has a reader.
const readerCheck = 200 * time.Millisecond

// watchReader waits until nobody can read the replies any more. A pipe tells a
// writer so only when it is written to, which may be a long answer later.
func (p *pipe) watchReader(ctx context.Context) {
	file, ok := p.out.(*os.File)
	if !ok || p.abandoned == nil {
		return
	}
	tick := time.NewTicker(readerCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if readerGone(file) {
			p.abandoned()
			return
		}
	}
}

// readerGone reports whether the other end of a pipe or a socket is closed:
// poll(2) tells of it unasked, as POLLERR and POLLHUP. Of files and terminals it
// never is.
func readerGone(file *os.File) bool {
	events := []unix.PollFd{{Fd: int32(file.Fd())}}
	for {
		n, err := unix.Poll(events, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n > 0 && events[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	}
}
