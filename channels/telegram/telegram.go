// Package telegram is the adapter for Telegram's Bot API: long polling in,
// messages in Telegram's HTML out.
package telegram

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"parley/channels"
)

// name is the first segment of the adapter's keys.
const name = "telegram"

// Channel is one bot. It implements channels.Channel and channels.Typer.
type Channel struct {
	api       *api
	access    *channels.Access
	cursor    CursorFunc
	commands  []channels.Command
	log       *slog.Logger
	renderer  *renderer
	pacer     *pacer
	strangers strangers // touched by the poller only

	botID      int64
	cursorName string // "telegram:<bot id>"
}

// CursorFunc reads the cursor that accept stored last, "" when there is none.
type CursorFunc func(ctx context.Context, name string) (string, error)

// New makes the adapter; nothing is sent before Run. The commands are what
// Telegram's menu shows. The error names the key that is wrong, and never the
// token.
func New(cfg Config, cursor CursorFunc, commands []channels.Command, log *slog.Logger) (*Channel, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, fmt.Errorf("telegram: %w", err)
	}
	access, err := channels.NewAccess(cfg.Access, cfg.Allow)
	if err != nil {
		return nil, fmt.Errorf("telegram: %w", err)
	}
	id, err := cfg.botID()
	if err != nil {
		return nil, fmt.Errorf("telegram: token: no bot id")
	}
	return &Channel{
		api:        newAPI(cfg.Token, cfg.APIURL),
		access:     access,
		cursor:     cursor,
		commands:   commands,
		log:        log.With("channel", name),
		renderer:   newRenderer(),
		pacer:      newPacer(cfg.SendRate, cfg.ChatRate),
		botID:      id,
		cursorName: name + ":" + strconv.FormatInt(id, 10),
	}, nil
}

// Name is "telegram".
func (c *Channel) Name() string { return name }
