// Package telegram is the adapter for Telegram's Bot API: long polling or a
// webhook in, messages in Telegram's HTML out.
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

// Channel is one bot. It implements channels.Channel and channels.Typer, and
// http.Handler for the webhook.
type Channel struct {
	api      *api
	access   *channels.Access
	cursor   CursorFunc
	commands []channels.Command
	log      *slog.Logger
	renderer *renderer
	fileOver int // of messages; 0 = never a file
	pacer    *pacer
	health   health
	webhook  webhook
	intake   intake
	admins   channels.AdminMemory[int64] // of groups, by their ids

	botID      int64
	cursorName string // "telegram:<bot id>"
}

// CursorFunc reads the cursor that accept stored last, "" when there is none.
type CursorFunc func(ctx context.Context, name string) (string, error)

// Parts is what an adapter is made of.
type Parts struct {
	Config
	Cursor   CursorFunc
	Store    channels.AccessStore       // who was let in, and who holds the names in allow
	Commands []channels.Command         // what Telegram's menu shows
	Health   func(state, detail string) // told when the connection comes and goes, see conversation.Health; nil: nobody asks
	Log      *slog.Logger
}

// New makes the adapter; nothing is sent before Run. The error names the key
// that is wrong, and never the token.
func New(parts Parts) (*Channel, error) {
	cfg, err := parts.Config.checked()
	if err != nil {
		return nil, fmt.Errorf("telegram: %w", err)
	}
	id, err := cfg.botID()
	if err != nil {
		return nil, fmt.Errorf("telegram: token: no bot id")
	}
	log := parts.Log.With("channel", name)
	access, err := channels.NewAccess(cfg.Access, cfg.Allow, name, parts.Store, log)
	if err != nil {
		return nil, fmt.Errorf("telegram: %w", err)
	}
	c := &Channel{
		api:        newAPI(cfg.Token, cfg.APIURL),
		access:     access,
		cursor:     parts.Cursor,
		commands:   parts.Commands,
		log:        log,
		health:     health{tell: parts.Health},
		renderer:   newRenderer(),
		fileOver:   cfg.FileOver,
		pacer:      newPacer(cfg.SendRate, cfg.ChatRate),
		webhook:    newWebhook(cfg),
		botID:      id,
		cursorName: name + ":" + strconv.FormatInt(id, 10),
	}
	return c, nil
}

// Rest closes the connections that a crowd has left. The poll keeps its own.
func (c *Channel) Rest() { c.api.http.CloseIdleConnections() }

// Name is "telegram".
func (c *Channel) Name() string { return name }
