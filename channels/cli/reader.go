package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readerCheck is how often a pipe is asked whether it still has a reader.
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
