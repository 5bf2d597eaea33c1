package agentloop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"parley/conversation"
)

// What people send in one go may come as several messages: an album, a comment and
// what it is about, lines that are typed fast. A run waits until such messages are
// complete, as their Quiet says, or begins again with one that comes right after its
// beginning, as its Joins says. They are stored before, each when it comes.

const (
	// restartQuiet is how long a run waits for more after messages from before the
	// start: the channel has to read its platform first.
	restartQuiet = 2 * time.Second
	// maxQuietTimes bounds the wait of a run to this many times its Quiet, for people
	// who write on and on.
	maxQuietTimes = 10
)

// burst is what a loop knows of the messages that may belong together.
type burst struct {
	posted int64     // ID of the newest inbound that the router has posted; older ones are from before the start
	newest int64     // ID of the newest inbound that was waited for
	old    bool      // that seemed to be from before the start
	first  time.Time // when the wait began; zero: there is none
	until  time.Time // when it ends, if nothing more comes
}

// post notes inbound that has come while the loop runs.
func (b *burst) post(inbound []conversation.Inbound) {
	for _, in := range inbound {
		b.posted = max(b.posted, in.ID)
	}
}

// wait returns how long a run must still wait for more messages before it answers
// those that wait; 0 = it may begin.
func (b *burst) wait(waiting []conversation.Inbound, now time.Time) time.Duration {
	texts := untilCommand(waiting)
	if len(texts) == 0 || len(texts) < len(waiting) { // a command ends what was said before it
		return 0
	}
	last := texts[len(texts)-1]
	if last.ID > b.newest || b.old && last.ID <= b.posted {
		if b.first.IsZero() {
			b.first = now
		}
		quiet := last.Quiet
		if b.old = last.ID > b.posted; b.old && quiet > 0 {
			quiet = max(quiet, restartQuiet)
		}
		b.newest, b.until = last.ID, now.Add(quiet)
		if most := b.first.Add(max(maxQuietTimes*last.Quiet, quiet)); b.until.After(most) {
			b.until = most
		}
	}
	return max(0, b.until.Sub(now))
}

// end ends the wait: a run takes the messages.
func (b *burst) end() { b.first = time.Time{} }

// awaitMore waits while more messages may follow those that wait. It returns true
// when the loop must look again at what waits.
func (l *loop) awaitMore(intake context.Context, waiting []conversation.Inbound) bool {
	wait := l.burst.wait(waiting, time.Now())
	if wait <= 0 {
		l.burst.end()
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.mail.ready:
	case <-intake.Done():
	}
	return true
}

// errJoined ends a run that begins again with a message that belongs to those that
// it took.
var errJoined = errors.New("another message belongs to the question")

// joining says whether a run may still begin again. The loop's goroutine calls
// start, the router's join.
type joining struct {
	began  time.Time
	took   conversation.Inbound // the last of those that the run took
	cancel context.CancelCauseFunc
	state  atomic.Int32
}

// States of a joining.
const (
	joinable  = iota
	hasBegun  // the run has something to show, or to lose
	begsAgain // it begins again
)

// start notes that the run has something to show, or is about to call a tool. It
// returns false when the run begins again instead.
func (j *joining) start() bool {
	return j.state.CompareAndSwap(joinable, hasBegun) || j.state.Load() == hasBegun
}

// join has the run begin again, where messages that have come belong to its question
// and it has not begun.
func (j *joining) join(inbound []conversation.Inbound, now time.Time) {
	belongs := len(inbound) > 0 && !slices.ContainsFunc(inbound, func(in conversation.Inbound) bool {
		_, command := in.Command()
		return command || now.Sub(j.began) >= in.Joins || !sameOrigin(in, j.took)
	})
	if belongs && j.state.CompareAndSwap(joinable, begsAgain) {
		j.cancel(errJoined)
	}
}

// asOne returns the messages with those of an album as one, which has the texts and
// the files of all. Each text and each file is taken once: what an album replies to
// stands above every one of its messages.
func asOne(took []conversation.Inbound) []conversation.Inbound {
	var list []conversation.Inbound
	for _, in := range took {
		n := len(list)
		if n == 0 || in.Album == "" || list[n-1].Album != in.Album || list[n-1].Sender.ID != in.Sender.ID {
			list = append(list, in)
			continue
		}
		one := &list[n-1]
		if text := strings.TrimSpace(in.Text); !strings.Contains(one.Text, text) {
			one.Text = join(one.Text, text)
		}
		one.Overheard = join(one.Overheard, in.Overheard)
		one.Attachments = slices.Clone(one.Attachments)
		for _, file := range in.Attachments {
			if !slices.ContainsFunc(one.Attachments, func(known conversation.Attachment) bool { return known.Ref == file.Ref }) {
				one.Attachments = append(one.Attachments, file)
			}
		}
	}
	return list
}
