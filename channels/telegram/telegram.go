// Package telegram is the adapter for Telegram's Bot API: long polling or a
// webhook in, messages in Telegram's HTML out.
package telegram

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"parley/channels"
	"parley/channels/access"
	"parley/channels/preview"
	"parley/cluster"
	"parley/conversation"
	"parley/conversation/places"
)

// name is the first segment of the adapter's keys.
const name = "telegram"

// Channel is one bot. It is an http.Handler for the webhook.
type Channel struct {
	api       *api
	apiURL    string
	apiFiles  string // the folder of the Bot API server's files; "" = none
	access    *access.Control
	cursor    CursorFunc
	commands  []channels.Command
	log       *slog.Logger
	renderer  *renderer
	fileOver  int // replies of more messages are sent as a file; 0 = never
	quiet     time.Duration
	pacer     *pacer
	health    health
	token     token
	webhook   webhook
	intake    intake
	places    Places
	messages  Messages
	topics    topics
	groups    groups
	drafts    drafts
	rich      richReplies
	albums    albums
	comments  comments
	ephemeral bool // private commands in groups, and their answers, are sent as ephemeral messages
	asked     questions
	free      []string // groups, and "GROUP/TOPIC", where every message is for the bot

	talk     conversation.Talk // which group talk a message of a group takes along
	previews *preview.Board[address]
	helpers  sync.WaitGroup // requests that only the end of Run waits for

	migrations migrations
	advised    sync.Map                  // IDs of the groups of which adviseAbout has logged
	admins     access.AdminMemory[int64] // administrators of groups, by the ID of the group

	botID   int64
	account conversation.Account
	node    *cluster.Node // nil: this process alone has the bot
	onDuty  atomic.Bool   // this node fetches the updates
}

// CursorFunc reads the cursor that accept stored last, "" when there is none.
type CursorFunc func(ctx context.Context, name string) (string, error)

// Places stores where sessions go on when a group gets another id, and what people
// call their places.
type Places interface {
	MovePlace(ctx context.Context, from, to conversation.Key, readdress func(address string) string) (places.Moved, error)
	FormerPlaces(ctx context.Context, place conversation.Key) ([]conversation.Key, error)
	PlaceName(ctx context.Context, place conversation.Key) (string, error)
}

// Messages gives access to the messages that were accepted before.
type Messages interface {
	// Edit stores the new text of an edited message. An unknown message is not an
	// error.
	Edit(ctx context.Context, of conversation.Account, sourceID, text string, at time.Time) error
	// IsUnderWay reports whether a run answers messages that were written in a place.
	IsUnderWay(ctx context.Context, place conversation.Key, run int64) (bool, error)
	// HasAlbum reports whether a message of an album was accepted.
	HasAlbum(ctx context.Context, of conversation.Account, album string) (bool, error)
}

// Deps holds the configuration of a Channel and what it depends on.
type Deps struct {
	Config
	Cursor   CursorFunc
	Pairings access.Pairings            // nil: nobody is let in by a code or a name
	Node     *cluster.Node              // this process among those that serve the bot; nil: it is alone
	Places   Places                     // nil: no group moves
	Messages Messages                   // nil: nothing is known of what was accepted
	Previews preview.Store              // nil: which messages show answers is not stored
	Groups   Groups                     // nil: groups are not stored
	Commands []channels.Command         // what Telegram's menu shows
	Health   func(state, detail string) // told when the connection comes and goes, see bots.Health; nil: nobody asks
	SetAt    string                     // where the token is set, "config.toml:12": for the operator whose token is rejected
	Probes   channels.Probes            // how often a token that was rejected is tried again
	Log      *slog.Logger
}

// New makes the adapter; nothing is sent before Run. The error names the key
// that is wrong, and never the token.
func New(deps Deps) (*Channel, error) {
	cfg, err := deps.Config.checked()
	if err != nil {
		return nil, fmt.Errorf("telegram: %w", err)
	}
	id, err := cfg.botID()
	if err != nil {
		return nil, fmt.Errorf("telegram: token: no bot id")
	}
	log := deps.Log.With("channel", name)
	control, err := access.New(cfg.Access, cfg.Allow, cfg.Account(), deps.Pairings, log)
	if err != nil {
		return nil, fmt.Errorf("telegram: %w", err)
	}
	c := &Channel{
		api:       newAPI(cfg.Token, cfg.APIURL),
		apiURL:    cfg.APIURL,
		apiFiles:  cfg.APIFiles,
		access:    control,
		cursor:    deps.Cursor,
		commands:  deps.Commands,
		log:       log,
		health:    health{tell: deps.Health},
		token:     newToken(deps.Probes, deps.SetAt),
		renderer:  newRenderer(),
		fileOver:  cfg.FileOver,
		quiet:     cfg.Quiet,
		free:      cfg.FreeChats,
		pacer:     newPacer(cfg.SendRate, cfg.ChatRate),
		webhook:   newWebhook(cfg),
		places:    noPlaces{},
		messages:  noMessages{},
		groups:    groups{store: deps.Groups},
		drafts:    drafts{on: cfg.Drafts},
		rich:      richReplies{on: cfg.Rich},
		ephemeral: cfg.Ephemeral,
		botID:     id,
		account:   cfg.Account(),
		node:      deps.Node,
	}
	c.talk.Most, c.previews = cfg.Context, newPreviews(c, deps.Previews)
	if deps.Places != nil {
		c.places = deps.Places
	}
	if deps.Messages != nil {
		c.messages = deps.Messages
	}
	if c.node != nil {
		c.node.OnChange(c.shareRate)
		c.shareRate()
	}
	return c, nil
}

// ReleaseIdle closes the connections that no call uses. The poll keeps its own.
func (c *Channel) ReleaseIdle() { c.api.http.CloseIdleConnections() }

// Name is "telegram".
func (c *Channel) Name() string { return name }

var (
	_ channels.Source = (*Channel)(nil)
	_ channels.Sink   = (*Channel)(nil)
	_ channels.Typer  = (*Channel)(nil)

	_ channels.AlbumSink    = (*Channel)(nil)
	_ channels.Previewer    = (*Channel)(nil)
	_ channels.Fetcher      = (*Channel)(nil)
	_ channels.AdminChecker = (*Channel)(nil)
	_ channels.IdleReleaser = (*Channel)(nil)
)
