// Package gateway puts the daemon together and runs it: the store, the model, the
// session loops, the channels, the HTTP server and the cleanup. New builds a Gateway
// from a configuration, and Run serves until a signal or its context ends it.
package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"parley/conversation/files"
	"parley/filecontent"

	"parley/activity"
	"parley/agentloop"
	"parley/agentloop/window"
	"parley/channels"
	"parley/channels/delivery"
	"parley/config"
	"parley/console"
	"parley/conversation"
	"parley/conversation/maintenance"
	"parley/conversation/toolstate"
	"parley/embedding"
	"parley/httpserver"
	"parley/llm"
	"parley/metrics"
	"parley/sessions"
	"parley/tools"
)

// Gateway is a daemon, or a chat in one terminal, ready to run.
type Gateway struct {
	cfg      config.Config
	origins  config.Origins
	version  string
	log      *slog.Logger
	logs     *logSwitch
	lines    *console.Lines // the newest log lines, for the console; nil without HTTP
	store    *conversation.Store
	choice   llm.Choice
	counter  *llm.Counter
	vectors  *embedding.Embeddings // nil without an embedding model
	router   *agentloop.Router
	sessions *sessions.Service
	channels map[string]*served
	feed     *activity.Feed
	shared   sharedSessions
	moved    chan struct{} // signals that a place has moved, see adoptPlaces
	metrics  *metrics.Metrics
	tools    []string           // names of all that the model may call
	http     *httpserver.Server // nil when there is none
	ready    httpserver.ReadyFunc
	terminal channels.Source // when the user leaves it, the gateway ends; nil: there is none

	stopHealth func() // stops answering `gateway health`; nil: nothing answers
}

// served is a channel in service, with the sender of its replies.
type served struct {
	channels.Source
	sender *delivery.Sender
	scope  conversation.Scope
}

// outputReserve is the number of tokens that the window leaves free for the answer
// if the configuration sets no limit for it.
const outputReserve = 2000

// ErrReported is returned when the gateway failed and the log already says why.
var ErrReported = errors.New("failed")

// Options select what New builds.
type Options struct {
	ConfigPath string    // path of the configuration; "" = config.toml if it exists
	Version    string    // of the binary, for the log, the console and the metrics
	Daemon     bool      // serve HTTP and every channel that has a token, not only the terminal
	Terminal   *Terminal // a chat on standard input and output, or nil

	Getenv func(string) string // the environment of the configuration; nil: the process's
	LogTo  io.Writer           // the log's destination; nil: standard error
	Store  *conversation.Store // the open database, which Close closes; nil: New opens the configured one
	Tools  []tools.Tool        // further tools for the model

	// DocumentReader is the command line that reads a document in a process of its own,
	// as document.Extractor has it. Empty: documents are kept and not read.
	DocumentReader []string
}

// New reads the configuration, opens the database and builds everything that will
// be served. The caller must call Close, whether or not it calls Run.
func New(ctx context.Context, o Options) (*Gateway, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.LogTo == nil {
		o.LogTo = os.Stderr
	}
	cfg, origins, err := config.LoadWithOrigins(o.ConfigPath, o.Getenv)
	if err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, origins: origins, version: o.Version, store: o.Store, channels: map[string]*served{}, feed: activity.NewFeed(), shared: newSharedSessions(cfg), moved: make(chan struct{}, 1)}
	g.log, g.logs = newLog(cfg.Log, o.LogTo)
	if cfg.HTTP.Address() != "" {
		g.lines = console.NewLines(append(cfg.Secrets(), o.Getenv("OPENAI_API_KEY")))
		g.log = slog.New(g.lines.Beside(g.log.Handler()))
	}
	for _, problem := range cfg.Exposed(origins) {
		g.log.Warn("configuration", "problem", problem)
	}
	if g.store == nil {
		store := StoreConfig(cfg, cfg.Database)
		store.Log = g.log
		if g.store, err = conversation.Open(ctx, store); err != nil {
			return nil, err
		}
	}
	g.ready = g.readiness()
	g.addEmbeddings(o.Getenv)
	g.metrics = metrics.New(g.metricsDeps())
	err = g.wire(ctx, o)
	if err == nil && o.Daemon {
		err = g.addDaemon(ctx)
	}
	if err == nil && o.Terminal != nil {
		err = g.addTerminal(ctx, *o.Terminal)
	}
	if err == nil && o.Daemon {
		err = g.finishDaemon(ctx, o.Terminal != nil)
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	g.metrics.Expect(g.expected())
	return g, nil
}

// StoreConfig returns how a process that has a configuration opens the database at path.
func StoreConfig(cfg config.Config, path string) conversation.Config {
	return conversation.Config{
		Path:   path,
		Events: toolstate.New(cfg.Agent.ToolNames()).TranscriptEvents,
		Carry:  cfg.Conversation.Limits().Carry,
	}
}

// addDaemon adds the HTTP server and every channel that has a token.
func (g *Gateway) addDaemon(ctx context.Context) error {
	if err := maintenance.MarkDaemon(g.store); err != nil {
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

// finishDaemon adds what needs to know all channels.
func (g *Gateway) finishDaemon(ctx context.Context, terminal bool) error {
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
	g.stopHealth = g.answerHealth()
	return nil
}

// wire chooses the model and builds the router with what its loops need.
func (g *Gateway) wire(ctx context.Context, o Options) error {
	g.cfg.LLM.Attempted = attempted(g.metrics)
	model, choice, err := llm.Choose(ctx, g.cfg.LLM, o.Getenv, llm.DefaultProbes(), g.log)
	if err != nil {
		return err
	}
	g.choice = choice
	g.counter = llm.NewCounter(choice.Model)
	kept := files.New(g.store)
	content := filecontent.New(kept, filecontent.WithDocuments(o.DocumentReader...))
	registry, err := tools.NewRegistry(append([]tools.Tool{tools.CurrentTime(time.Now), tools.SessionState(), tools.Recall(g.store, g.counter), tools.ReadFile(kept, content)}, o.Tools...)...)
	if err != nil {
		return err
	}
	for _, tool := range registry.List() {
		g.tools = append(g.tools, tool.Name)
	}
	reserve := g.cfg.LLM.MaxOutputTokens
	if reserve == 0 {
		reserve = outputReserve
	}
	agent := g.cfg.Agent
	agent.Titles = agent.Titles && choice.Host != "" // the offline model makes no titles
	g.router = agentloop.NewRouter(agentloop.Deps{
		Config:        agent,
		Store:         g.store,
		Model:         model,
		Counter:       g.counter,
		Tools:         registry,
		Watcher:       progress{g.channels, g.feed, g.metrics},
		Files:         fetchers(g.channels),
		Admins:        admins(g.channels),
		OfPrograms:    isOfPrograms,
		Vision:        g.cfg.LLM.Vision,
		FileLimits:    g.cfg.Files.Limits(),
		FileContent:   content,
		Deliver:       g.deliver,
		ReleaseMemory: func() { time.AfterFunc(releaseDelay, func() { g.releaseMemory(model) }) },
		Budget:        window.Budget(g.cfg.Conversation.MaxTokens, choice.ContextWindow, reserve),
		Log:           g.log,

		Limits:       g.cfg.Conversation.Limits(),
		CarrySummary: g.cfg.Conversation.CarrySummary && choice.Host != "", // the offline model makes no summaries
		StateBudget:  g.cfg.Conversation.StateBudget,
		Strategy:     g.cfg.Conversation.TokenStrategy,
		KeepRecent:   g.cfg.Conversation.KeepRecentMessages,
		HintPhrases:  g.cfg.Conversation.HintPhrases,
	})
	g.sessions = sessions.New(g.store, g.router.Exclusively, g.feed.Changed)
	if err := g.router.CheckPrompt(); err != nil {
		g.log.Warn("configuration", "problem", err)
	}
	if g.cfg.Conversation.Scope == config.ScopeUser && len(g.shared) == 0 {
		g.log.Warn("configuration", "problem", `conversation.scope is "user", but [identity] links no accounts: every place is a session of its own`)
	}
	return nil
}

// deliver hands committed replies to their senders. Replies of a channel or bot
// that another process serves stay in the store, where that process finds them.
func (g *Gateway) deliver(replies []conversation.Delivery) {
	for _, reply := range replies {
		if c := g.channels[reply.Channel]; c != nil && c.scope.By().Serves(conversation.Account{Channel: reply.Channel, ID: reply.Account}) {
			c.sender.Enqueue(reply)
		}
	}
}

// Close closes the database, which releases the session locks of this process.
func (g *Gateway) Close() {
	if g.stopHealth != nil {
		g.stopHealth()
	}
	if err := g.store.Close(); err != nil {
		g.log.Error("database not closed cleanly", "error", err)
	}
}

// add registers a channel that serves the sessions in scope.
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

// addBot registers the channel of a bot.
func (g *Gateway) addBot(channel channels.Source, bot conversation.Account) {
	g.add(channel, conversation.Scope{Channel: channel.Name(), Account: bot.ID})
}
