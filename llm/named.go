package llm

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// DefaultName is the name by which people choose the model of [llm].
const DefaultName = "default"

// ModelConfig is a section [models.NAME]: a model beside the one of [llm]. What it leaves out
// is as in [llm].
type ModelConfig struct {
	// BaseURL is the address of its server, as in Config. Default: the server of [llm], with
	// its key.
	BaseURL string `toml:"base_url" kind:"url"`
	// APIKey is sent as a bearer token. Default: at OpenAI $OPENAI_API_KEY, at the server of
	// [llm] its key, elsewhere none.
	APIKey string `toml:"api_key" kind:"secret"`
	// Model is its name at the server. Default NAME.
	Model string `toml:"model"`
	// Allow are the people and places that may choose it with /model, see
	// conversation.Inbound.Names. Default none.
	Allow []string `toml:"allow"`
	// FallbackModels are tried when it fails, as in Config. Default none.
	FallbackModels []string `toml:"fallback_models"`

	ContextWindow   *int           `toml:"context_window" min:"1"`
	Vision          string         `toml:"vision" kind:"switch"`
	MaxOutputTokens *int           `toml:"max_output_tokens" min:"0"`
	Temperature     *float64       `toml:"temperature" min:"0" max:"2"`
	Timeout         *time.Duration `toml:"timeout" min:"1ms"`
	PromptCache     *string        `toml:"prompt_cache" oneof:"auto off"`

	// InputPrice, OutputPrice and CachedPrice are its prices, as in Price. Default: those of
	// llm.prices for NAME; else its cost is unknown.
	InputPrice  *float64 `toml:"input_price" min:"0"`
	OutputPrice *float64 `toml:"output_price" min:"0"`
	CachedPrice *float64 `toml:"cached_price" min:"0"`
}

// SetDefaults sets the keys that have a default of their own.
func (c *ModelConfig) SetDefaults() { c.Vision = VisionAuto }

// AllowedName returns what names are allowed, "" if this is one.
func (ModelConfig) AllowedName(name string) string {
	other := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r))
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, other) || strings.EqualFold(name, DefaultName) || strings.EqualFold(name, offlineName) {
		return `1 to 64 letters, digits, '-', '_' or '.', and neither "default" nor "offline"`
	}
	return ""
}

// Check reports keys that do not suit each other.
func (c ModelConfig) Check(report func(key, found, allowed string)) {
	if (c.InputPrice == nil) != (c.OutputPrice == nil) {
		key, other := "input_price", "output_price"
		if c.InputPrice == nil {
			key, other = other, key
		}
		report(key, "a price without the other one", other+" beside it")
	}
	if c.CachedPrice != nil && c.InputPrice == nil {
		report("cached_price", "a price without the others", "input_price and output_price beside it")
	}
}

// price returns its price; known is false if none is set.
func (c ModelConfig) price() (p Price, known bool) {
	if c.InputPrice == nil || c.OutputPrice == nil {
		return p, false
	}
	return Price{Input: *c.InputPrice, Output: *c.OutputPrice, Cached: c.CachedPrice}, true
}

// AllPrices returns the prices of [llm] with those of sections [models.NAME], by their names.
func AllPrices(prices Prices, named map[string]ModelConfig) Prices {
	all := maps.Clone(prices)
	if all == nil {
		all = Prices{}
	}
	for name, c := range named {
		if p, known := c.price(); known {
			all[name] = p
		}
	}
	return all
}

// config returns the configuration of the model over that of [llm]. server is the resolved
// one of [llm], nil if that has none.
func (c ModelConfig) config(name string, base Config, server *Config, getenv func(string) string) Config {
	cfg := base
	cfg.Model, cfg.FallbackModels, cfg.VisionModels, cfg.Blind, cfg.Draws = cmp.Or(c.Model, name), nil, nil, nil, nil
	cfg.Section = "[models." + name + "]"
	cfg.BaseURL, cfg.APIKey, cfg.KeyName = c.BaseURL, c.APIKey, "api_key in "+cfg.Section
	switch {
	case c.BaseURL == "" && server != nil:
		cfg.BaseURL = server.BaseURL
		if c.APIKey == "" {
			cfg.APIKey, cfg.KeyName = server.APIKey, server.KeyName
		}
	case c.APIKey == "" && (c.BaseURL == "" || isOpenAI(c.BaseURL)):
		if key := getenv(keyVariable); key != "" {
			cfg.APIKey, cfg.KeyName = key, "the environment variable "+keyVariable
		}
	}
	cfg.Vision = cmp.Or(c.Vision, VisionAuto)
	set(&cfg.ContextWindow, c.ContextWindow)
	set(&cfg.MaxOutputTokens, c.MaxOutputTokens)
	set(&cfg.Timeout, c.Timeout)
	set(&cfg.PromptCache, c.PromptCache)
	if c.Temperature != nil {
		cfg.Temperature = c.Temperature
	}
	return cfg
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Named is a model of a gateway.
type Named struct {
	Name            string // NAME of the model's section [models.NAME]; "" = the model of [llm]
	Model           Model
	Choice          Choice
	MaxOutputTokens int
	Allow           []string
}

// Models are the models of a gateway.
type Models struct {
	list    []Named // the model of [llm] first, then the others by name
	targets []*target
}

// List returns the models: that of [llm], then the others in the order of their names.
func (m *Models) List() []Named { return m.list }

// Health returns the state of each model, including fallbacks, but not of the offline model.
func (m *Models) Health() (list []Health) {
	for _, t := range m.targets {
		list = append(list, t.health())
	}
	return list
}

// ReleaseIdle closes the connections that no call uses.
func (m *Models) ReleaseIdle() {
	for _, t := range m.targets {
		t.http.CloseIdleConnections()
	}
}

// ChooseAll chooses the model of [llm] as Choose does, and adds those of sections
// [models.NAME]. Names in lists of fallback models mean the sections of these names first, and
// then models of the same server.
func ChooseAll(ctx context.Context, cfg Config, named map[string]ModelConfig, getenv func(string) string, probes []string, log *slog.Logger) (*Models, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg = cfg.WithDefaults()
	own := cfg
	own.FallbackModels = withoutSections(cfg.FallbackModels, named)
	model, choice, err := Choose(ctx, own, getenv, probes, log)
	if err != nil {
		return nil, err
	}
	b := builder{named: named, log: log, sections: map[string]*target{}}
	client, _ := model.(*Client)
	var server *Config
	if client != nil {
		server = &client.chain[0].cfg
	}
	first := Named{Model: model, Choice: choice, MaxOutputTokens: cfg.MaxOutputTokens}
	b.addSections(ctx, cfg, server, getenv)
	if client != nil {
		siblings := client.chain[1:]
		first.Model = b.client(client.chain[0], cfg.FallbackModels, siblings)
	}
	m := &Models{list: []Named{first}}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		t := b.sections[name]
		m.list = append(m.list, Named{
			Name: name, Model: b.client(t, named[name].FallbackModels, nil), Choice: b.choice(t), MaxOutputTokens: t.cfg.MaxOutputTokens, Allow: named[name].Allow,
		})
	}
	m.targets = b.all
	return m, nil
}

func withoutSections(names []string, named map[string]ModelConfig) (rest []string) {
	for _, name := range names {
		if _, is := named[name]; !is {
			rest = append(rest, name)
		}
	}
	return rest
}

// builder makes the clients of a gateway's models, which share what they call.
type builder struct {
	named    map[string]ModelConfig
	sections map[string]*target
	log      *slog.Logger
	all      []*target
}

// addSections makes what is called for the sections [models.NAME]. Their servers are asked at
// once whether the models see.
func (b *builder) addSections(ctx context.Context, base Config, server *Config, getenv func(string) string) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	for name, c := range b.named {
		asking.Go(func() {
			ch := chooser{cfg: c.config(name, base, server, getenv), log: b.log}
			setDefault(&ch.cfg.BaseURL, defaultBaseURL)
			ch.cfg.FallbackModels = withoutSections(c.FallbackModels, b.named)
			ch.settleVision(ctx)
			t := newTarget(name, ch.cfg, b.log)
			mu.Lock()
			defer mu.Unlock()
			b.sections[name] = t
		})
	}
	asking.Wait()
}

// client returns the client of a model with its fallbacks. Those that are no sections are
// models of its server, unless they are made already.
func (b *builder) client(first *target, fallbacks []string, made []*target) *Client {
	c := &Client{chain: []*target{first}, log: b.log}
	for _, name := range fallbacks {
		t := b.sections[name]
		if i := slices.IndexFunc(made, func(t *target) bool { return t.cfg.Model == name }); t == nil && i >= 0 {
			t = made[i]
		}
		if t == nil {
			t = first.sibling(name)
		}
		if !slices.Contains(c.chain, t) {
			c.chain = append(c.chain, t)
		}
	}
	for _, t := range c.chain {
		if !slices.Contains(b.all, t) {
			b.all = append(b.all, t)
		}
	}
	return c
}

func (b *builder) choice(t *target) Choice {
	return Choice{Model: t.cfg.Model, Host: hostOf(t.cfg.BaseURL), Source: t.cfg.Section, ContextWindow: t.cfg.ContextWindow, Vision: !t.blind}
}
