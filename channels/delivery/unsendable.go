package delivery

import (
	"cmp"
	"context"
	"errors"
	"time"

	"parley/activity"
	"parley/channels"
	"parley/conversation"
)

func isLocal(err error) bool {
	var local *channels.LocalError
	return errors.As(err, &local)
}

// unsendable is what the chat is told in place of a reply that can't be prepared.
const unsendable = "⚠️ A reply could not be prepared for this chat and is not sent. The details are in the gateway's log."

// giveUp ends a delivery that the gateway itself can't prepare: it tells the chat
// and marks the delivery as failed. It returns false when ctx or the gateway
// ended before that.
func (q *queue) giveUp(ctx context.Context, d conversation.Delivery, cause error) bool {
	words := unsendable
	var local *channels.LocalError
	if errors.As(cause, &local) {
		words = cmp.Or(local.Words, words)
	}
	if !q.sendNotice(ctx, d, words) {
		return false
	}
	d.Attempts++
	q.sender.log.Error("reply not delivered; its text stays in the history", "session", d.Key, "delivery", d.ID, "error", cause)
	q.sender.outage.Left(string(q.key))
	q.sender.report(activity.Failed, d)
	return q.markOver(ctx, d.ID, "mark a reply as failed", func(ctx context.Context) error {
		return q.sender.outbox.Mark(ctx, d, conversation.MarkFailed, cause.Error())
	})
}

// sendNotice sends words to the chat of a delivery, after the parts that the
// platform has taken. A notice that the platform refuses for good, or fails on
// while it takes everything else, is only logged. It returns false when ctx or
// the gateway ended first.
func (q *queue) sendNotice(ctx context.Context, d conversation.Delivery, words string) bool {
	notice := d
	notice.Text, notice.Actions, notice.Transcript, notice.Pictures = words, nil, nil, nil
	var failing time.Time
	for tries := 1; ; tries++ {
		err := recovered(func() error {
			for _, part := range q.sender.sink.Split(notice) {
				part.Index = len(d.Sent)
				if _, err := q.sender.sink.Send(ctx, notice, part); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if final(failing, err) != nil || stuckFor(failing, err) >= q.sender.patience {
			q.sender.log.Warn("notice not delivered", "session", d.Key, "delivery", d.ID, "error", err)
			return true
		}
		if !q.wait(ctx, pause(tries, err)) {
			return false
		}
	}
}
