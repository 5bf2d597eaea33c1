package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"parley/agentloop"
	"parley/channels"
	"parley/channels/telegram"
	"parley/cmd/gateway/config"
	"parley/console"
	"parley/conversation"
	"parley/httpserver"
	"parley/llm"
	"parley/metrics"
	"parley/tools"
)

// gateway is everything that a process is made of, put together.
type gateway struct {
	cfg      config.Config
	origins  config.Origins
	log      *slog.Logger
	logs     *logSwitch
	lines    *console.Lines // the newest of the log, nil without HTTP
	store    *conversation.Store
	choice   llm.Choice
	counter  *llm.Counter
	router   *agentloop.Router
	channels map[string]*served
	feed     *channels.Feed
	shared   sharedSessions
	moved    chan struct{} // places have moved, see adoptPlaces
	metrics  *metrics.Metrics
	http     *httpserver.Server // nil when there is none
	leaving  channels.Channel   // the terminal: when it is left, the gateway ends
}

// served is a channel with what delivers its replies.
type served struct {
	channels.Channel
	sender *channels.Sender
	scope  conversation.Scope
}

// outputReserve is kept free in the window for the answer where the
// configuration does not limit it, in tokens.
const outputReserve = 2000

// open reads the configuration and makes everything but the channels.
func open(ctx context.Context, configPath string) (*gateway, error) {
	cfg, origins, err := config.LoadWithOrigins(configPath, os.Getenv)
	if err != nil {
		return nil, err
	}
	g := &gateway{cfg: cfg, origins: origins, channels: map[string]*served{}, feed: channels.NewFeed(), shared: newSharedSessions(cfg), moved: make(chan struct{}, 1)}
	g.log, g.logs = newLog(cfg.Log)
	if cfg.HTTP.Address() != "" {
		g.lines = console.NewLines(append(cfg.Secrets(), os.Getenv("OPENAI_API_KEY")))
		g.log = slog.New(g.lines.Beside(g.log.Handler()))
	}
	for _, problem := range cfg.Exposed(origins) {
		g.log.Warn("configuration", "problem", problem)
	}
	if g.store, err = conversation.Open(ctx, cfg.Database, conversation.WithLog(g.log)); err != nil {
		return nil, err
	}
	g.metrics = metrics.New(metrics.Parts{Version: version(), Queues: g.store.Queues})
	if err := g.wire(ctx); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *gateway) wire(ctx context.Context) error {
	g.cfg.LLM.Attempted = attempted(g.metrics)
	model, choice, err := llm.Choose(ctx, g.cfg.LLM, os.Getenv, llm.DefaultProbes(), g.log)
	if err != nil {
		return err
	}
	g.choice = choice
	g.counter = llm.NewCounter(choice.Model)
	registry, err := tools.NewRegistry(tools.CurrentTime(time.Now), tools.SessionState(), tools.Recall(g.store, g.counter))
	if err != nil {
		return err
	}
	reserve := g.cfg.LLM.MaxOutputTokens
	if reserve == 0 {
		reserve = outputReserve
	}
	agent := g.cfg.Agent
	agent.Titles = agent.Titles && choice.Host != "" // the stand-in has none to give
	g.router = agentloop.NewRouter(agentloop.Parts{
		Config:  agent,
		Store:   g.store,
		Model:   model,
		Counter: g.counter,
		Tools:   registry,
		Watcher: progress{g.channels, g.feed, g.metrics},
		Files:   files(g.channels),
		Admins:  admins(g.channels),
		Vision:  g.cfg.LLM.Vision,
		Deliver: g.deliver,
		Rest:    func() { time.AfterFunc(restDelay, func() { g.rest(model) }) },
		Budget:  agentloop.Budget(g.cfg.Conversation.MaxTokens, choice.ContextWindow, reserve),
		Log:     g.log,

		Expiration:  g.cfg.Conversation.SessionExpiration,
		StateBudget: g.cfg.Conversation.StateBudget,
		Strategy:    g.cfg.Conversation.TokenStrategy,
		KeepRecent:  g.cfg.Conversation.KeepRecentMessages,
		HintPhrases: g.cfg.Conversation.HintPhrases,
	})
	if err := g.router.CheckPrompt(); err != nil {
		g.log.Warn("configuration", "problem", err)
	}
	if g.cfg.Conversation.Scope == conversation.ScopeUser && len(g.shared) == 0 {
		g.log.Warn("configuration", "problem", `conversation.scope is "user", but [identity] links no accounts: every place is a session of its own`)
	}
	return nil
}

// deliver hands replies to what sends them. Those of a channel or bot that another
// process serves are that one's to find.
func (g *gateway) deliver(replies []conversation.Delivery) {
	for _, reply := range replies {
		if c := g.channels[reply.Channel]; c != nil && c.scope.By().Serves(conversation.Account{Channel: reply.Channel, ID: reply.Account}) {
			c.sender.Wake(reply)
		}
	}
}

func (g *gateway) close() {
	if err := g.store.Close(); err != nil {
		g.log.Error("the database did not close cleanly", "error", err)
	}
}

// add puts a channel into service, for the sessions in scope.
func (g *gateway) add(channel channels.Channel, scope conversation.Scope) {
	g.channels[channel.Name()] = &served{
		Channel: channel,
		sender:  channels.NewSender(channel, g.store, g.log, channels.WithOutcomes(g.metrics.Delivered)),
		scope:   scope,
	}
}

// addBot puts the channel of a bot into service.
func (g *gateway) addBot(channel channels.Channel, bot conversation.Account) {
	g.add(channel, conversation.Scope{Channel: channel.Name(), Account: bot.ID})
}

func (g *gateway) addTelegram() error {
	if g.cfg.Telegram.Token == "" {
		return nil
	}
	channel, err := telegram.New(telegram.Parts{
		Config: g.cfg.Telegram, Cursor: g.store.Cursor, Store: places{g.store, g.moved}, Commands: menu(), Health: g.health(g.cfg.Telegram.Account()), Log: g.log,
	})
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if g.cfg.Telegram.WebhookURL != "" {
		if g.http == nil {
			return errors.New("webhook_url in the section [telegram] needs the HTTP server (listen in the section [http]), which does not run")
		}
		g.http.Handle("POST "+telegram.WebhookPath, httpserver.Public, channel, httpserver.KnownBy(channel.IsTelegram))
	}
	g.addBot(channel, g.cfg.Telegram.Account())
	return nil
}

// restDelay lets the delivery of the last replies, and the store's chores and
// idle connections, end first.
const restDelay = 8 * time.Second

// rest gives back what a crowd that has fallen silent has left: connections
// with their buffers, and memory, which the runtime by itself keeps for minutes.
func (g *gateway) rest(model agentloop.Model) {
	if rester, ok := model.(channels.Rester); ok {
		rester.Rest()
	}
	for _, c := range g.channels {
		if rester, ok := c.Channel.(channels.Rester); ok {
			rester.Rest()
		}
	}
	runtime.GC() // what a sync.Pool holds goes with the second collection
	debug.FreeOSMemory()
	trimC()
}

// files fetches what came with messages from the channel that they came by.
type files map[string]*served

func (f files) Fetch(ctx context.Context, channel string, file conversation.Attachment, limit int64) ([]byte, error) {
	if fetcher, ok := f[channel].Channel.(channels.Fetcher); ok {
		return fetcher.Fetch(ctx, file, limit)
	}
	return nil, errors.New("this channel has no files")
}

// admins asks the channel that a message came by who administers the group.
type admins map[string]*served

func (a admins) IsAdmin(ctx context.Context, in conversation.Inbound) (bool, error) {
	if c, ok := a[in.Channel()].Channel.(channels.Administered); ok {
		return c.IsAdmin(ctx, in.Address, in.Sender.ID)
	}
	return false, nil
}
