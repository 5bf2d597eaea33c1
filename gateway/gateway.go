// Package gateway puts the daemon together and runs it: the store, the model, the
// loops, the channels, HTTP and the cleanup. New makes a Gateway of a configuration,
// and Run serves until it is told to end.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"parley/activity"
	"parley/agentloop"
	"parley/agentloop/window"
	"parley/channels"
	"parley/channels/delivery"
	"parley/config"
	"parley/console"
	"parley/conversation"
	"parley/httpserver"
	"parley/llm"
	"parley/metrics"
	"parley/sessions"
	"parley/tools"
)

// Gateway is a daemon, or a chat in one terminal, put together and ready to run.
type Gateway struct {
	cfg      config.Config
	origins  config.Origins
	version  string
	log      *slog.Logger
	logs     *logSwitch
	lines    *console.Lines // the newest of the log, nil without HTTP
	store    *conversation.Store
	choice   llm.Choice
	counter  *llm.Counter
	router   *agentloop.Router
	sessions *sessions.Service
	channels map[string]*served
	feed     *activity.Feed
	shared   sharedSessions
	moved    chan struct{} // places have moved, see adoptPlaces
	metrics  *metrics.Metrics
	http     *httpserver.Server // nil when there is none
	ready    httpserver.ReadyFunc
	leaving  channels.Source // the terminal: when it is left, the gateway ends

	stopAnswering func() // who asks for the health; nil: nobody is answered
}

// served is a channel and the sender of its replies.
type served struct {
	channels.Source
	sender *delivery.Sender
	scope  conversation.Scope
}

// outputReserve is kept free in the window for the answer where the
// configuration does not limit it, in tokens.
const outputReserve = 2000

// ErrReported is the error of a gateway that ended for reasons which its log has.
var ErrReported = errors.New("failed")

// Options say which gateway to make.
type Options struct {
	ConfigPath string    // the configuration's file; "" = config.toml where there is one
	Version    string    // of the binary, for the log, the console and the metrics
	Daemon     bool      // serve HTTP and every channel that has a token; else only the terminal
	Terminal   *Terminal // a chat on standard input and output; nil: none
}

// New reads the configuration, opens the database and makes everything that is to
// be served. The caller runs the gateway, and closes it in any case.
func New(ctx context.Context, o Options) (*Gateway, error) {
	cfg, origins, err := config.LoadWithOrigins(o.ConfigPath, os.Getenv)
	if err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, origins: origins, version: o.Version, channels: map[string]*served{}, feed: activity.NewFeed(), shared: newSharedSessions(cfg), moved: make(chan struct{}, 1)}
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
	g.ready = g.readiness()
	g.metrics = metrics.New(metrics.Parts{Version: o.Version, Queues: g.store.Queues})
	err = g.wire(ctx)
	if err == nil && o.Daemon {
		err = g.addServed(ctx)
	}
	if err == nil && o.Terminal != nil {
		err = g.addTerminal(ctx, *o.Terminal)
	}
	if err == nil && o.Daemon {
		err = g.completeDaemon(ctx, o.Terminal != nil)
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// addServed puts HTTP and every channel into service that has a token.
func (g *Gateway) addServed(ctx context.Context) error {
	if err := g.store.MarkDaemon(); err != nil {
		return err
	}
	if err := g.addHTTP(ctx); err != nil {
		return err
	}
	g.addWeb()
	g.addAPI()
	if err := g.addTelegram(); err != nil {
		return err
	}
	return g.addDiscord()
}

// completeDaemon does what comes when all channels are known.
func (g *Gateway) completeDaemon(ctx context.Context, terminal bool) error {
	if !terminal {
		if err := g.printSignIn(ctx); err != nil {
			return err
		}
	}
	g.addConsole()
	if len(g.channels) == 0 && g.http == nil {
		return errors.New("nothing to serve: no channel has a token (token in the section [telegram] or TELEGRAM_TOKEN, " +
			"token in the section [discord] or DISCORD_TOKEN), there is no HTTP server (listen in the section [http]), " +
			"and standard input is no terminal; `gateway chat` reads lines from a pipe")
	}
	g.stopAnswering = g.answerHealth()
	return nil
}

func (g *Gateway) wire(ctx context.Context) error {
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
	g.router = agentloop.NewRouter(agentloop.Deps{
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
		Rest:    func() { time.AfterFunc(releaseDelay, func() { g.releaseMemory(model) }) },
		Budget:  window.Budget(g.cfg.Conversation.MaxTokens, choice.ContextWindow, reserve),
		Log:     g.log,

		Expiration:  g.cfg.Conversation.SessionExpiration,
		StateBudget: g.cfg.Conversation.StateBudget,
		Strategy:    g.cfg.Conversation.TokenStrategy,
		KeepRecent:  g.cfg.Conversation.KeepRecentMessages,
		HintPhrases: g.cfg.Conversation.HintPhrases,
	})
	g.sessions = sessions.New(g.store, g.router.Exclusively, g.feed.Changed)
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
func (g *Gateway) deliver(replies []conversation.Delivery) {
	for _, reply := range replies {
		if c := g.channels[reply.Channel]; c != nil && c.scope.By().Serves(conversation.Account{Channel: reply.Channel, ID: reply.Account}) {
			c.sender.Wake(reply)
		}
	}
}

// Close closes the database. Every session that this process worked is free then.
func (g *Gateway) Close() {
	if g.stopAnswering != nil {
		g.stopAnswering()
	}
	if err := g.store.Close(); err != nil {
		g.log.Error("the database did not close cleanly", "error", err)
	}
}

// add puts a channel into service, for the sessions in scope.
func (g *Gateway) add(channel channels.Source, scope conversation.Scope) {
	sink, ok := channel.(channels.Sink)
	if !ok {
		sink = delivery.Discard(channel.Name())
	}
	g.channels[channel.Name()] = &served{
		Source: channel,
		sender: delivery.New(sink, g.store, g.log, delivery.WithOutcomes(g.metrics.Delivered)),
		scope:  scope,
	}
}

// addBot puts the channel of a bot into service.
func (g *Gateway) addBot(channel channels.Source, bot conversation.Account) {
	g.add(channel, conversation.Scope{Channel: channel.Name(), Account: bot.ID})
}
