package agentloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/media"
)

// People may send what belongs together as several messages: an album, a comment and the
// message that it is about, lines that are typed fast. Each is stored when it arrives. A run
// waits until no further message has arrived for the time Inbound.Quiet, so that it answers
// them together. A message that arrives within Inbound.Joins of the beginning of a run makes
// the run begin again with it.

const (
	// restartQuiet is the least time that a run waits for more messages after one from
	// before the start of the process: the channel has to read its platform first.
	restartQuiet = 2 * time.Second
	// maxQuietTimes bounds the whole wait of a run to this multiple of Quiet, since some
	// people write without a pause.
	maxQuietTimes = 10
)

// burst is the state of a loop that waits for messages that belong together.
type burst struct {
	posted int64     // ID of the newest inbound that the router has posted; one with a higher ID is taken to be from before the start
	newest int64     // ID of the newest inbound that was waited for
	old    bool      // newest had a higher ID than posted when it was first seen
	first  time.Time // when the wait began; zero: the loop does not wait
	until  time.Time // when the wait ends, unless another message arrives
}

// post records inbound that has arrived while the loop runs.
func (b *burst) post(inbound []conversation.Inbound) {
	for _, in := range inbound {
		b.posted = max(b.posted, in.ID)
	}
}

// wait returns how long a run must still wait for further messages before it answers the
// waiting ones; 0 = it may begin.
func (b *burst) wait(waiting []conversation.Inbound, now time.Time) time.Duration {
	texts := untilCommand(waiting)
	if len(texts) == 0 || len(texts) < len(waiting) { // a command ends the burst
		return 0
	}
	last := texts[len(texts)-1]
	if !last.DeferredSince.IsZero() {
		return 0
	}
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

// end ends the wait, since a run takes the messages.
func (b *burst) end() { b.first = time.Time{} }

// awaitMore waits for messages that may follow the waiting ones. It returns true after a
// wait, when the loop must read the waiting messages again.
func (l *loop) awaitMore(intake context.Context, waiting []conversation.Inbound) bool {
	wait := l.burst.wait(waiting, time.Now())
	if wait <= 0 {
		l.burst.end()
		return false
	}
	l.awaitMail(intake, wait)
	return true
}

// awaitMail waits until something is in the mailbox, but no longer than wait and not beyond intake.
func (l *loop) awaitMail(intake context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.mail.ready:
	case <-intake.Done():
	}
}

// errJoined ends a run that begins again with a further message.
var errJoined = errors.New("another message belongs to the question")

// joining records whether a run may still begin again with a further message. The loop's
// goroutine calls start, the router's goroutine calls join.
type joining struct {
	began  time.Time
	took   conversation.Inbound // the last message that the run took
	cancel context.CancelCauseFunc
	state  atomic.Int32
}

// States of a joining.
const (
	joinable   = iota
	hasBegun   // the run has shown something or called a tool: too late to begin again
	beginAgain // the run begins again
)

// start records that the run is about to show text or to call a tool. It returns false if
// the run has to begin again instead.
func (j *joining) start() bool {
	return j.state.CompareAndSwap(joinable, hasBegun) || j.state.Load() == hasBegun
}

// join makes the run begin again if the messages belong to its question and it has shown
// nothing yet.
func (j *joining) join(inbound []conversation.Inbound, now time.Time) {
	belongs := len(inbound) > 0 && !slices.ContainsFunc(inbound, func(in conversation.Inbound) bool {
		_, command := in.Command()
		return command || now.Sub(j.began) >= in.Joins || !sameOrigin(in, j.took)
	})
	if belongs && j.state.CompareAndSwap(joinable, beginAgain) {
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
			one.Text = window.JoinLines(one.Text, text)
		}
		one.Overheard = window.JoinLines(one.Overheard, in.Overheard)
		one.Attachments = slices.Clone(one.Attachments)
		for _, file := range in.Attachments {
			if !slices.ContainsFunc(one.Attachments, func(known media.Attachment) bool { return known.Ref == file.Ref }) {
				one.Attachments = append(one.Attachments, file)
			}
		}
	}
	return list
}

const (
	longText  = 3000             // bytes of a text that may be a part of a longer one: apps cut texts at about 4,000 characters
	partsWait = 10 * time.Second // how much later the next part may be sent
)

// continues reports whether a message belongs to the one before it of the same person: both are of an album, or parts of a text that
// was too long for one message. They count as one.
func continues(before, in conversation.Inbound) bool {
	return before.Sender.ID == in.Sender.ID &&
		(in.Album != "" && in.Album == before.Album || len(before.Text) >= longText && in.At.Sub(before.At) <= partsWait)
}

// maxLines is how many messages of one person in a group the model is shown by one run: more than people write for one answer.
const maxLines = 20

// leaveOut marks the messages of a group that the model is not shown, since their sender wrote more than maxLines that a run
// answers: those in the middle. It returns what the chat is told of that. In a private chat nobody else is affected.
func leaveOut(asked []conversation.Inbound) (marked []conversation.Inbound, notices []string) {
	if len(asked) <= maxLines || !asked[0].Group {
		return asked, nil
	}
	wrote, number := map[string]int{}, make([]int, len(asked)) // messages of each sender so far, parts of one counted once
	last := map[string]conversation.Inbound{}
	for i, in := range asked {
		if before, is := last[in.Sender.ID]; !is || !continues(before, in) {
			wrote[in.Sender.ID]++
		}
		number[i], last[in.Sender.ID] = wrote[in.Sender.ID], in
	}
	marked = slices.Clone(asked)
	told := map[string]bool{}
	for i := range marked {
		in := &marked[i]
		n := wrote[in.Sender.ID]
		if in.LeftOut = number[i] > maxLines/2 && number[i] <= n-maxLines/2; in.LeftOut && !told[in.Sender.ID] {
			told[in.Sender.ID] = true
			notices = append(notices, fmt.Sprintf("✂ %s wrote %d messages at once. I have read the first and the last %d.", window.SenderName(in.Sender), n, maxLines/2))
		}
	}
	return marked, notices
}
