package discord

import (
	"context"
	"errors"
	"log/slog"

	"parley/channels"

	"github.com/gorilla/websocket"
)

// Close codes: https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes
const (
	closeBadToken     = 4004
	closeBadSequence  = 4007
	closeTimedOut     = 4009
	closeBadShard     = 4010
	closeMoreShards   = 4011
	closeBadIntents   = 4014
	closedWithoutCode = 0
)

// link keeps one shard connected, through the library's session. That begins a
// session of the gateway, resumes it, and beats its heart; when to connect
// again is decided here, since the library would go on for ever with a token
// that was rejected.
type link struct {
	*Channel
	shard  shard
	events *queue
	gate   *identifyGate
	status *status
	log    *slog.Logger
}

// run connects again and again until ctx ends or connecting has no sense.
func (l *link) run(ctx context.Context) error {
	retry := channels.NewRetry(l.log)
	var c *connection
	defer func() { c.close() }()
	for {
		begins := c == nil // a session, instead of resuming one
		if begins {
			if l.gate.enter(ctx) != nil {
				return nil
			}
			c = l.newConnection(ctx)
		}
		err := c.open(ctx)
		if begins {
			l.gate.leave()
		}
		if err == nil {
			retry.Succeeded("connected to Discord again")
			l.status.set(l.shard.id, true, "")
			err = c.wait(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if final := finalError(err); final != nil {
			return final
		}
		anew := c.isSpent() || endsSession(err)
		err = explain(err)
		if isTokenRefusal(err) {
			return errRejected
		}
		l.status.set(l.shard.id, false, err.Error())
		if anew {
			c.close()
			c = nil
		}
		if retry.Wait(ctx, channels.Trouble{Level: slog.LevelWarn, Text: "the connection to Discord is gone, connecting again"}, err, refused(err).retryAfter) != nil {
			return nil
		}
	}
}

// finalError tells the ends that connecting again at once can't mend.
func finalError(err error) error {
	switch closeCode(err) {
	case closeBadToken:
		return errRejected
	case closeBadIntents:
		return errNoContent
	case closeBadShard:
		return errShard
	case closeMoreShards:
		return errReshard
	}
	return nil
}

// endsSession tells the ends after which Discord wants a new session.
func endsSession(err error) bool {
	code := closeCode(err)
	return code == closeBadSequence || code == closeTimedOut
}

// closeCode is what Discord ended a connection with.
func closeCode(err error) int {
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		return closed.Code
	}
	return closedWithoutCode
}
