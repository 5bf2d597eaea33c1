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

// link keeps one shard connected, through a session of the library. The library
// starts and resumes the session and sends heartbeats. This type decides when to
// reconnect, since the library would go on for ever with a rejected token.
type link struct {
	*Channel
	shard  shard
	events *queue
	gate   *identifyGate
	status *status
	log    *slog.Logger
}

// run reconnects until ctx ends or Discord refuses the bot.
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
			l.gate.leave(ctx)
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
		if retry.Wait(ctx, channels.Trouble{Level: slog.LevelWarn, Text: "Discord connection lost, reconnecting"}, err, refused(err).retryAfter) != nil {
			return nil
		}
	}
}

// finalError returns the error of an end after which reconnecting at once can't
// help, nil for any other.
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

// endsSession reports whether Discord wants a new session after this end.
func endsSession(err error) bool {
	code := closeCode(err)
	return code == closeBadSequence || code == closeTimedOut
}

// closeCode returns the code with which Discord closed a connection.
func closeCode(err error) int {
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		return closed.Code
	}
	return closedWithoutCode
}
