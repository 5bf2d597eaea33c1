package delivery

import (
	"context"
	"time"

	"parley/activity"
	"parley/channels"
	"parley/conversation"
)

// deliver sends a delivery, gives it up, or sets it aside. It returns false when
// ctx or the gateway ended before.
func (q *queue) deliver(ctx context.Context, d conversation.Delivery) bool {
	if !q.sendParts(ctx, d) {
		return false
	}
	q.ended = max(q.ended, d.ID)
	return true
}

// sendParts tries a delivery until it is sent, given up, or set aside. Before
// each attempt it retries those that are set aside, which come first when the
// platform works again. A reply that the gateway itself can't prepare is given
// up, and the chat is told.
func (q *queue) sendParts(ctx context.Context, d conversation.Delivery) bool {
	var failing time.Time // when the first attempt failed
	for {
		if q.held.isDue(time.Now()) && !q.retryHeld(ctx, true) {
			return false
		}
		taken := len(d.Sent)
		done, err := q.try(ctx, &d, !failing.IsZero())
		if done || err == nil {
			return done
		}
		if isLocal(err) {
			return q.giveUp(ctx, d, err)
		}
		if failing.IsZero() || len(d.Sent) > taken {
			failing = time.Now()
		}
		again, ok := q.failed(ctx, &d, failing, err)
		if !again {
			return ok
		}
	}
}

// try sends the parts that the platform has not taken yet, and marks each of them, and then the
// delivery, as sent. troubled reports that the store records a failed attempt of the next part. The
// error says why a part was not taken. Without an error, done is false if ctx ended before the mark.
// A long reply whose file is refused goes as messages.
func (q *queue) try(ctx context.Context, d *conversation.Delivery, troubled bool) (done bool, err error) {
	parts, err := q.partsOf(*d)
	if err != nil {
		return false, err
	}
	for len(d.Sent) < len(parts) {
		if q.sender.outbox.Node().Confirm(ctx) != nil || ctx.Err() != nil {
			return false, nil
		}
		var ids []string
		err := recovered(func() (err error) {
			ids, err = q.sendNext(ctx, *d, parts[len(d.Sent):])
			return err
		})
		if isRefused(err) && isReplyFile(parts[len(d.Sent)]) && !d.NoFile {
			q.sender.log.Warn("file of a reply refused, sending messages", "session", d.Key, "delivery", d.ID, "error", err)
			d.NoFile = true
			parts, err = q.partsOf(*d)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return false, err
		}
		q.sender.noteTaken()
		d.Sent = append(d.Sent, ids...)
		if len(d.Sent) < len(parts) && !q.markParts(ctx, *d, troubled) {
			return false, nil
		}
		troubled = false
	}
	if !q.markTaken(ctx, *d, "mark a reply as sent", conversation.MarkSent) {
		return false, nil
	}
	q.sender.outage.Succeeded(string(q.key), "replies are taken again")
	q.sender.report(activity.Sent, *d)
	return true, nil
}

// partsOf returns the parts of a delivery. The error is a panic of the adapter.
func (q *queue) partsOf(d conversation.Delivery) (parts []channels.Part, err error) {
	err = recovered(func() error {
		parts = q.split(d)
		return nil
	})
	return parts, err
}
