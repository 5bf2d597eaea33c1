package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
)

// keyVariable is the environment variable that OpenAI's own libraries read.
const keyVariable = "OPENAI_API_KEY"

// probeTimeout is how long the search for local servers may take at the start. A port
// where nobody listens refuses at once.
const probeTimeout = 300 * time.Millisecond

// Model is the result of Choose: a *Client or an *Offline.
type Model interface {
	Complete(ctx context.Context, req Request, emit func(Delta)) (Response, error)
	Model() string
}

// Choice tells which model was chosen, and why.
type Choice struct {
	Model         string // "offline" for the stand-in
	Host          string // host of the server's URL, without a password; "" for the stand-in
	Source        string // where the choice comes from: "[llm]", "OPENAI_API_KEY", "found on its usual port", "nothing else found"
	ContextWindow int    // tokens that the model takes, answer included
	Vision        bool   // the model takes images
}

// Line returns the line that the gateway prints at its start.
func (c Choice) Line() string { return "Model: " + c.Description() }

// Description returns the model, its server and where the choice comes from, for people.
func (c Choice) Description() string {
	if c.Host == "" {
		return fmt.Sprintf("offline, a built-in stand-in (%s). To get a real one: %s.", c.Source, howToGetOne)
	}
	return fmt.Sprintf("%s at %s (%s)", printable(c.Model), c.Host, c.Source)
}

// printable returns a name that a server has given without characters that do not
// print.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
}

// DefaultProbes returns the addresses where local servers usually listen, in the order
// of preference: Ollama, LM Studio, vLLM, llama.cpp.
func DefaultProbes() []string {
	return []string{
		"http://127.0.0.1:11434/v1", // https://docs.ollama.com/api/openai-compatibility
		"http://127.0.0.1:1234/v1",  // https://lmstudio.ai/docs/developer/openai-compat
		"http://127.0.0.1:8000/v1",  // https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
		"http://127.0.0.1:8080/v1",  // https://github.com/ggml-org/llama.cpp/tree/master/tools/server
	}
}

// Choose returns the model to use: the one that [llm] names; else OpenAI's with the key
// from the environment; else one of the first probed server that has one; else the
// offline model. Only the first can fail; the error is a sentence for the operator.
// The probes together take at most 300 ms.
func Choose(ctx context.Context, cfg Config, getenv func(string) string, probes []string, log *slog.Logger) (Model, Choice, error) {
	cfg = cfg.WithDefaults()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	envKey := getenv(keyVariable)
	ch := chooser{cfg: cfg, probes: probes, log: log, source: "[llm]"}
	switch {
	case cfg.Model == offlineName:
		return offline("[llm]", cfg)
	case cfg.BaseURL != "" || cfg.Model != "" || cfg.APIKey != "":
		if cfg.BaseURL == "" || isOpenAI(cfg.BaseURL) { // OpenAI's key is for OpenAI alone
			ch.setKey(envKey)
		}
		return ch.configured(ctx)
	case envKey != "":
		ch.setKey(envKey)
		ch.source = keyVariable
		return ch.client(ctx, defaultBaseURL, DefaultModel)
	}
	if found, ok := probe(ctx, probes, ""); ok {
		ch.source = "found on its usual port"
		ch.learn(found.model)
		return ch.client(ctx, found.baseURL, found.model.ID)
	}
	return offline("nothing else found", cfg)
}

func offline(source string, cfg Config) (Model, Choice, error) {
	return NewOffline(), Choice{Model: offlineName, Source: source, ContextWindow: cfg.ContextWindow}, nil
}

type chooser struct {
	cfg    Config
	probes []string
	source string
	log    *slog.Logger
}

// setKey adopts the key of the environment, unless [llm] has one.
func (c *chooser) setKey(fromEnvironment string) {
	if c.cfg.APIKey == "" && fromEnvironment != "" {
		c.cfg.APIKey, c.cfg.KeyName = fromEnvironment, "the environment variable "+keyVariable
	}
}

// configured chooses the model of [llm], and fills in what that leaves out.
func (c *chooser) configured(ctx context.Context) (Model, Choice, error) {
	baseURL, model := c.cfg.BaseURL, c.cfg.Model
	if err := checkURL(baseURL); err != nil {
		return nil, Choice{}, err
	}
	switch {
	case baseURL == "" && c.cfg.APIKey == "":
		return c.local(ctx)
	case baseURL == "":
		return c.client(ctx, defaultBaseURL, cmp.Or(model, DefaultModel))
	case model == "" && isOpenAI(baseURL):
		return c.client(ctx, baseURL, DefaultModel)
	case model == "":
		first, err := c.first(ctx)
		if err != nil {
			return nil, Choice{}, err
		}
		c.learn(first)
		model = first.ID
	}
	return c.client(ctx, baseURL, model)
}

// local searches local servers for a model that is named without a server and a key.
func (c *chooser) local(ctx context.Context) (Model, Choice, error) {
	found, ok := probe(ctx, c.probes, c.cfg.Model)
	if !ok {
		return nil, Choice{}, fmt.Errorf("[llm] names the model %q, but no API key (api_key or %s), no base_url, "+
			"and no local server on the usual ports has it", c.cfg.Model, keyVariable)
	}
	c.learn(found.model)
	return c.client(ctx, found.baseURL, found.model.ID)
}

// first returns the first model of the server that can chat.
func (c *chooser) first(ctx context.Context) (listed, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	host := hostOf(c.cfg.BaseURL)
	models, err := listModels(ctx, c.cfg)
	if err != nil {
		return listed{}, fmt.Errorf("[llm] names no model, and asking %s for its models failed: %w", host, err)
	}
	first, ok := firstChat(models, "")
	if !ok {
		return listed{}, fmt.Errorf("[llm] names no model, and %s lists none that can chat", host)
	}
	return first, nil
}

// learn adopts what the server says of the model.
func (c *chooser) learn(m listed) {
	if window := m.window(); window > 0 {
		c.cfg.ContextWindow = min(c.cfg.ContextWindow, window)
	}
}

func (c *chooser) client(ctx context.Context, baseURL, model string) (Model, Choice, error) {
	c.cfg.BaseURL, c.cfg.Model = baseURL, model
	c.settleVision(ctx)
	return NewClient(c.cfg, c.log), Choice{
		Model: model, Host: hostOf(baseURL), Source: c.source, ContextWindow: c.cfg.ContextWindow,
		Vision: !slices.Contains(c.cfg.Blind, model),
	}, nil
}

func checkURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Hostname() == "" {
		return errors.New("[llm] base_url is not an http:// or https:// address")
	}
	return nil
}

// sideServer completes the address and the key of a server beside the model's, whose address
// may be written with the path of its only method. Without an address it is OpenAI's, and
// without a key OpenAI's alone gets the one of the environment.
func sideServer(baseURL, key *string, path string, getenv func(string) string) {
	if *key == "" && (*baseURL == "" || isOpenAI(*baseURL)) {
		*key = getenv(keyVariable)
	}
	setDefault(baseURL, defaultBaseURL)
	*baseURL = strings.TrimSuffix(strings.TrimRight(*baseURL, "/"), path)
}

// hostOf returns the host and port of an address, which hold no secrets.
func hostOf(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return ""
	}
	return u.Host
}
