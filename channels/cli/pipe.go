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

	"parley/plaintext"
)

// pipe is the frontend without a terminal: a message in, its reply out.
type pipe struct {
	in      io.Reader
	message string // the only message; "" = in is read
	lines   bool   // every line of in is a message
	errOut  io.Writer
	drain   time.Duration // how long the gateway waits for the answer when it is stopped

	mu      sync.Mutex // guards out and waiting
	out     io.Writer
	waiting string        // ID of the message whose reply is due
	asked   string        // ID of the message whose run waits for an answer of the user; "" = none
	failed  string        // ID of the message that got no answer, and whose reply says why
	failure bool          // a message got no answer
	replied chan struct{} // closed when the reply that is waited for was printed

	broken chan error // why replies can't be written

	abandoned func() // called when nobody reads the replies any more; may be nil
}

func newPipe(o Options) *pipe {
	return &pipe{broken: make(chan error, 1), in: o.In, message: o.Message, lines: o.Lines, out: o.Out, errOut: o.Err, drain: o.Drain, abandoned: o.Abandoned}
}

func (p *pipe) run(ctx context.Context, post postFunc, ready func()) error {
	ready()
	watch, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { p.watchReader(watch) })
	defer watcher.Wait()
	defer stopWatching()
	err := p.askAll(ctx, post)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		return err
	case p.failure:
		return ErrFailed
	}
	return nil
}

// ErrFailed says that a message got no answer. Why was written to Options.Err.
var ErrFailed = errors.New("no answer")

// errUnsent says that a message was not stored because the gateway was told to stop.
var errUnsent = errors.New("stopped before the message was complete; nothing was sent, so send it again")

// askAll asks everything that the input holds.
func (p *pipe) askAll(ctx context.Context, post postFunc) error {
	if p.message != "" {
		return p.ask(ctx, post, entered(p.message))
	}
	lines := readLines(ctx, p.in)
	var whole strings.Builder
	for {
		var l inputLine
		select {
		case <-ctx.Done():
			if !p.lines {
				return errUnsent
			}
			return ctx.Err()
		case l = <-lines:
		}
		whole.WriteString(l.text + "\n")
		if ended := l.err != nil; p.lines || ended {
			if text := entered(strings.Trim(whole.String(), "\n")); strings.TrimSpace(text) != "" {
				if err := p.ask(ctx, post, text); err != nil {
					return err
				}
			}
			whole.Reset()
		}
		switch {
		case errors.Is(l.err, io.EOF):
			return nil
		case l.err != nil:
			return fmt.Errorf("reading the input: %w", l.err)
		}
	}
}

// fail says that the reply to a message is no answer.
func (p *pipe) fail(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = id
}

// wait says why the reply to a message does not come yet.
func (p *pipe) wait(id, words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == p.waiting {
		_, _ = io.WriteString(p.errOut, plaintext.ForTerminal(words)+"\n") // nothing depends on it
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
		p.mu.Lock()
		p.waiting = ""
		p.mu.Unlock()
		return fmt.Errorf("the message %q was not stored: %w", shorten(text, 1, 40), err)
	}
	select {
	case <-replied:
		return nil
	case err := <-p.broken:
		p.mu.Lock()
		p.waiting = ""
		p.mu.Unlock()
		return fmt.Errorf("the reply can't be written, and waits for the next chat: %w", err)
	case <-ctx.Done():
		if p.drain > 0 {
			p.wait(id, fmt.Sprintf("Stopping: the answer is awaited for up to %s. Another signal, such as Ctrl-C, ends it at once.", p.drain))
		}
		return ctx.Err()
	}
}

// end returns ErrFailed if a message got no answer. If the answer is still to come, it says so.
func (p *pipe) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting != "" {
		p.waiting, p.failure = "", true
		_, _ = io.WriteString(p.errOut, stoppedEarly+"\n") // nothing depends on it
	}
	if p.failure {
		return ErrFailed
	}
	return nil
}

// stoppedEarly says that the gateway was stopped while it waited for an answer.
const stoppedEarly = "Stopped before the answer came. The message is kept: its answer comes with the next message of this session."

func (p *pipe) deliver(_ context.Context, next piece) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := next.address == p.waiting
	text := strings.TrimRight(plaintext.ForTerminal(next.text), "\n") + "\n"
	if own && next.address == p.failed {
		p.waiting, p.failure = "", true
		close(p.replied)
		_, err := io.WriteString(p.errOut, text)
		return err
	}
	if own && next.interim && !p.lines { // nobody answers here
		_, err := io.WriteString(p.errOut, text)
		return err
	}
	if !own && !next.continues && next.address != p.asked {
		text = fromBefore + "\n" + text
	}
	if next.interim {
		p.asked = next.address
	}
	if _, err := io.WriteString(p.out, text); err != nil {
		select {
		case p.broken <- err:
		default:
		}
		return err
	}
	if own && !next.more {
		p.waiting = ""
		close(p.replied)
	}
	return nil
}

func (p *pipe) preview(string, string) {}

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
