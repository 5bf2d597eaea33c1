// Package gateway puts the daemon together and runs it: the store, the model, the
// session loops, the channels, the HTTP server and the cleanup. New builds a Gateway
// from a configuration, and Run serves until a signal or its context ends it.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"parley/conversation/files"
	"parley/conversation/grouptalk"
	"parley/filecontent"
	"parley/plaintext"

	"parley/activity"
	"parley/agentloop"
	"parley/channels"
	"parley/channels/cli"
	"parley/channels/delivery"
	"parley/config"
	"parley/console"
	"parley/conversation"
	"parley/conversation/budgets"
	"parley/conversation/maintenance"
	"parley/conversation/reminders"
	"parley/conversation/toolstate"
	"parley/embedding"
	"parley/httpserver"
	"parley/internal/clock"
	"parley/llm"
	"parley/metrics"
	"parley/sessions"
	"parley/tools"
	"parley/tools/mcp"
	"parley/tools/webfetch"
)

// Gateway is a daemon, or a chat in one terminal, ready to run.
type Gateway struct {
	cfg          config.Config
	origins      config.Origins
	version      string
	toolsTimeout time.Duration // see Options.ToolsTimeout
	log          *slog.Logger
	secrets      *plaintext.Redactor // of the configuration, hidden in what is logged and shown
	lines        *console.Lines      // the newest log lines, for the console; nil without HTTP
	store        *conversation.Store
	models       *llm.Models
	choice       llm.Choice // the default model: that of [llm], or the one that was found

	configPath string // path of the configuration as Options names it; "" = config.toml if it exists
	logFile    string // path of the log of a terminal chat; "" = the log goes elsewhere
	counter    *llm.Counter
	reminders  *reminders.Reminders
	vectors    *embedding.Embeddings // nil without an embedding model
	imports    *imports              // nil without HTTP
	router     *agentloop.Router
	sessions   *sessions.Service
	channels   map[string]*served
	feed       *activity.Feed
	relay      *activity.Relay // nil: no other process shares the feed
	shared     sharedSessions
	moved      chan struct{} // signals that a place got another id, see adoptPlaces
	metrics    *metrics.Metrics
	budgets    *budgets.Budgets   // nil: nothing is capped
	tools      []string           // names of the gateway's own tools
	servers    *mcp.Servers       // MCP servers, which have further tools
	http       *httpserver.Server // nil when there is none
	ready      httpserver.ReadyFunc
	terminal   *cli.Channel // when the user leaves it, the gateway ends; nil: there is none
	ending     atomic.Bool  // the gateway takes no more messages, and finishes the runs under way

	toldRoom atomic.Value // what warnOfRoom has said last

	stopHealth  func() // stops answering `gateway health`; nil: nothing answers
	stopHangups func() // ends ignoreHangups; nil: SIGHUP is not ignored
}

// served is a channel in service, with the sender of its replies.
type served struct {
	channels.Source
	sender *delivery.Sender
	scope  conversation.Scope
	keeps  bool // the channel's replies are not sent but kept until they are asked for
}

// outputReserve is the number of tokens that the window leaves free for the answer
// if the configuration sets no limit for it.
const outputReserve = 2000

// ErrReported is returned when the gateway failed and the log already says why.
var ErrReported = errors.New("failed")

// Options select what New builds.
type Options struct {
	ConfigPath string    // path of the configuration; "" = config.toml if it exists
	Version    string    // version of the binary, for the log, the console and the metrics
	Daemon     bool      // serve HTTP and every channel that has a token, not only the terminal
	Terminal   *Terminal // a chat on standard input and output, or nil

	Getenv func(string) string // looks up environment variables; nil: os.Getenv
	LogTo  io.Writer           // the log's destination; nil: standard error, or with a Terminal a file
	Store  *conversation.Store // the open database, which Close closes; nil: New opens the configured one
	Tools  []tools.Tool        // further tools for the model

	// DocumentReader is the command line that reads a document in a process of its own,
	// as document.Extractor has it. Empty: documents are kept and not read.
	DocumentReader []string
	// ServerGuard is the command line of the process that ends what servers of tools have
	// left running when the gateway was killed, as mcp.Serve does. Empty: there is none.
	ServerGuard []string
	// ToolsTimeout is how long the first runs wait for servers whose tools are not known from an
	// earlier start. Programs that are installed answer well within 3s, the default.
	ToolsTimeout time.Duration
}

// New reads the configuration, opens the database and builds everything that will
// be served. The caller must call Close, whether or not it calls Run.
func New(ctx context.Context, o Options) (*Gateway, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	cfg, origins, err := config.LoadWithOrigins(o.ConfigPath, o.Getenv)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		configPath: o.ConfigPath, cfg: cfg, origins: origins, version: o.Version, toolsTimeout: cmp.Or(o.ToolsTimeout, 3*time.Second),
		store: o.Store, channels: map[string]*served{}, feed: activity.NewFeed(), shared: newSharedSessions(cfg), moved: make(chan struct{}, 1),
	}
	switch {
	case o.LogTo != nil:
	case o.Terminal != nil:
		o.LogTo, g.logFile = openLogFile(o.Getenv)
	default:
		o.LogTo = os.Stderr
	}
	g.secrets = plaintext.NewRedactor(append(cfg.Secrets(), o.Getenv("OPENAI_API_KEY"), o.Getenv("PGPASSWORD"))...)
	g.log = newLog(cfg.Log, o.LogTo, g.secrets)
	if cfg.HTTP.Address() != "" {
		g.lines = console.NewLines(g.secrets)
		g.log = slog.New(g.lines.Beside(g.log.Handler()))
	}
	for _, problem := range append(cfg.Exposed(origins), origins.Unused()...) {
		g.log.Warn("configuration", "problem", problem)
	}
	if o.Daemon {
		g.stopHangups = g.ignoreHangups()
	}
	if err := g.openStore(ctx, o); err != nil {
		g.Close()
		return nil, err
	}
	g.shareFeed()
	g.reminders = reminders.New(g.store, slices.Collect(maps.Values(cfg.Identity))...)
	g.ready = g.readiness()
	g.addEmbeddings(o.Getenv)
	g.metrics = metrics.New(g.metricsDeps())
	err = g.wire(ctx, o)
	if err == nil && o.Daemon {
		err = g.addDaemon(ctx, o.Getenv)
	}
	if err == nil && o.Terminal != nil {
		err = g.addTerminal(ctx, *o.Terminal, o.Getenv)
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

// openStore opens the configured database unless New was given one.
func (g *Gateway) openStore(ctx context.Context, o Options) (err error) {
	database := g.cfg.Database
	if g.store != nil {
		database = g.store.Path()
	}
	if o.Daemon {
		if err := checkSharedToken(g.cfg, database, g.origins["database"].Place()); err != nil {
			return err
		}
	}
	if g.store != nil {
		return nil
	}
	store := StoreConfig(g.cfg, database)
	store.Log = g.log
	store.Node.URL, store.Node.Version, store.Node.Command = nodeURL(g.cfg.HTTP.Address()), o.Version, nodeCommand(o)
	g.store, err = conversation.Open(ctx, store)
	outage := channels.NewOutage(g.log)
	for o.Daemon {
		text := "database can't be reached, the gateway starts when it can"
		switch {
		case conversation.IsDiskFull(err):
			text = "disk full, the gateway starts when there is room"
		case !errors.Is(err, conversation.ErrUnreachable) || o.Terminal != nil: // a person at a terminal is shown the error
			if err == nil {
				outage.Succeeded("", "database opened")
			}
			return err
		}
		outage.Failed("", channels.Trouble{Level: slog.LevelError, Text: text}, "error", err)
		if err := clock.Sleep(ctx, openRetry); err != nil {
			return err
		}
		g.store, err = conversation.Open(ctx, store)
	}
	return err
}

// openRetry is the pause between two attempts to open a database that can't be reached, or whose disk is full.
const openRetry = 2 * time.Second

// StoreConfig returns how a process that has a configuration opens the database at path.
func StoreConfig(cfg config.Config, path string) conversation.Config {
	return conversation.Config{
		Path:         path,
		PasswordFile: cfg.DatabasePasswordFile,
		Events:       toolstate.New(cfg.Agent.ToolNames()).TranscriptEvents,
		Carry:        cfg.Conversation.Limits().Carry,
	}
}

// addDaemon adds the HTTP server and every channel that has a token.
func (g *Gateway) addDaemon(ctx context.Context, getenv func(string) string) error {
	if err := maintenance.MarkDaemon(g.store); err != nil {
		return err
	}
	if err := g.addHTTP(ctx); err != nil {
		return err
	}
	g.addWeb(getenv)
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
	if g.cfg.LLM.APIKey != "" {
		g.cfg.LLM.KeyName = "api_key in [llm] (" + g.origins["llm.api_key"].Place() + ")"
	}
	models, err := llm.ChooseAll(ctx, g.cfg.LLM, g.cfg.Models, o.Getenv, llm.DefaultProbes(), g.log)
	if err != nil {
		return err
	}
	choice := models.List()[0].Choice
	g.models, g.choice = models, choice
	g.counter = llm.NewCounter(choice.Model)
	kept := files.New(g.store)
	content := filecontent.New(kept, filecontent.WithDocuments(o.DocumentReader...), g.transcription(o.Getenv))
	registry, err := g.newRegistry(kept, content, o)
	if err != nil {
		return err
	}
	caps, err := g.openBudgets(ctx)
	if err != nil {
		return err
	}
	g.router = agentloop.NewRouter(g.loopDeps(registry, content, caps))
	if problems := g.roomProblems(); len(problems) > 0 { // with the gateway's own tools alone
		return problems
	}
	if err := g.servers.Load(ctx); err != nil {
		return err
	}
	g.sessions = sessions.New(g.store, withEnding(g.router.Exclusively), withEnding(g.router.ExclusivelyEnding), g.feed.Changed)
	g.warnOfConfiguration()
	return nil
}

// withEnding returns exclusive access to a session for the pages and the API, whose error says that the gateway ends if it does.
func withEnding(exclusive sessions.Exclusive) sessions.Exclusive {
	return func(ctx context.Context, key conversation.Key, do func(context.Context) error) error {
		err := exclusive(ctx, key, do)
		if errors.Is(err, agentloop.ErrEnding) {
			return sessions.ErrEnding
		}
		return err
	}
}

// loopDeps returns what the agent loop works with.
func (g *Gateway) loopDeps(registry *tools.Registry, content *filecontent.Reader, caps agentloop.Budgets) agentloop.Deps {
	agent := g.cfg.Agent
	agent.Titles = agent.Titles && g.thinks() // the offline model makes no titles
	return agentloop.Deps{
		Config:        agent,
		Store:         g.store,
		Model:         g.models.List()[0].Model,
		Models:        g.namedModels(),
		Agents:        g.agents(registry),
		Route:         g.route,
		Spread:        isSpread,
		Counter:       g.counter,
		Tools:         registry,
		Watcher:       progress{g.channels, g.feed, g.metrics},
		Files:         fetchers(g.channels),
		Admins:        admins(g.channels),
		OfPrograms:    isOfPrograms,
		Vision:        g.choice.Vision,
		FileLimits:    g.cfg.Files.Limits(),
		FileContent:   content,
		Deliver:       g.deliver,
		ReleaseMemory: func() { time.AfterFunc(releaseDelay, func() { g.releaseMemory(g.models) }) },
		Budget:        g.budgetOf(g.choice.ContextWindow, g.cfg.LLM.MaxOutputTokens),
		BudgetFor:     func(contextWindow int) int { return g.budgetOf(contextWindow, 0) },
		Budgets:       caps,
		Log:           g.log,
		OfOperator:    isOfOperator,
		Approvals:     g.cfg.Tools,
		FromOperator:  isFromOperator,

		Limits:       g.cfg.Conversation.Limits(),
		GiveUpAfter:  g.cfg.Conversation.GiveUpAfter,
		CarrySummary: g.cfg.Conversation.CarrySummary && g.thinks(), // the offline model makes no summaries
		StateBudget:  g.cfg.Conversation.StateBudget,
		Strategy:     g.cfg.Conversation.TokenStrategy,
		KeepRecent:   g.cfg.Conversation.KeepRecentMessages,
		HintPhrases:  g.cfg.Conversation.HintPhrases,
	}
}

// warnOfConfiguration logs settings that are valid but probably not meant so.
func (g *Gateway) warnOfConfiguration() {
	g.warnOfRoom()
	if g.cfg.Conversation.Scope == config.ScopeUser && len(g.shared) == 0 {
		g.log.Warn("configuration", "problem", `conversation.scope is "user", but [identity] links no accounts: every place is a session of its own`)
	}
}

// newRegistry returns the tools of the gateway, and prepares the servers that add others.
func (g *Gateway) newRegistry(kept *files.Files, content *filecontent.Reader, o Options) (*tools.Registry, error) {
	own, err := g.ownTools(kept, content, o)
	if err != nil {
		return nil, err
	}
	registry, err := tools.NewRegistry(slices.Concat(own, o.Tools)...)
	if err != nil {
		return nil, err
	}
	for _, tool := range registry.List() {
		g.tools = append(g.tools, tool.Name)
	}
	g.addServers(registry, o)
	return registry, nil
}

// ownTools returns the gateway's tools that the configuration turns on.
func (g *Gateway) ownTools(kept *files.Files, content *filecontent.Reader, o Options) ([]tools.Tool, error) {
	own := []tools.Tool{tools.CurrentTime(g.store.Now, tools.ZoneOf(g.reminders)), tools.SessionState(), tools.Recall(g.store, g.counter), tools.ReadFile(kept, content)}
	if g.cfg.Telegram.Context > 0 || g.cfg.Discord.Context > 0 {
		own = append(own, tools.GroupTalk(grouptalk.New(g.store)))
	}
	if g.cfg.Reminders.Enabled {
		own = append(own, tools.Reminders(g.reminders, g.cfg.Reminders.Zone(), g.store.Now)...)
	}
	if g.cfg.WebFetch.Enabled {
		fetcher, err := webfetch.New(g.cfg.WebFetch, webfetch.Options{Version: g.version, DocumentReader: o.DocumentReader})
		if err != nil {
			return nil, err
		}
		own = append(own, fetcher.Tool())
	}
	return own, nil
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
	if g.stopHangups != nil {
		g.stopHangups()
	}
	if g.stopHealth != nil {
		g.stopHealth()
	}
	if g.servers != nil {
		g.servers.Close()
	}
	g.budgets.Close()
	if g.store == nil {
		return
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
		keeps:  !ok,
	}
}

// addBot registers the channel of a bot.
func (g *Gateway) addBot(channel channels.Source, bot conversation.Account) {
	g.add(channel, conversation.Scope{Channel: channel.Name(), Account: bot.ID})
}
