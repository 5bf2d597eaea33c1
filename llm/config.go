package llm

import "time"

// DefaultModel is used at OpenAI when no model is named: a small reasoning model with
// tools and a window of 400,000 tokens
// (https://platform.openai.com/docs/models/gpt-5-mini).
const DefaultModel = "gpt-5-mini"

// defaultBaseURL is OpenAI's own API
// (https://platform.openai.com/docs/api-reference/introduction).
const defaultBaseURL = "https://api.openai.com/v1"

// Config is the [llm] section. The zero value of every field means its default. With
// nothing set at all, Choose looks for a model.
type Config struct {
	// BaseURL is the address that /chat/completions is appended to, with the
	// version in its path where the server has one: "http://127.0.0.1:11434/v1".
	// It is used as it stands: no /v1 is added. Default https://api.openai.com/v1.
	BaseURL string `toml:"base_url" kind:"url"`

	// APIKey is sent as a bearer token. Default: at OpenAI
	// $OPENAI_API_KEY, elsewhere none.
	APIKey string `toml:"api_key" kind:"secret"`

	// Section is the section of the configuration, for errors. Default "[llm]".
	Section string `toml:"-"`

	// KeyName is where the operator finds the key, for errors. Default "api_key in" with Section.
	KeyName string `toml:"-"`

	// Model is the model's name, or "offline" for the built-in stand-in.
	// Default: gpt-5-mini at OpenAI, elsewhere the first that the server lists.
	Model string `toml:"model"`

	// ContextWindow is how many tokens the model takes, answer included. If the server
	// lists a smaller number, Choose uses that. Default 128000.
	ContextWindow int `toml:"context_window" min:"1"`

	// Vision says whether the models take images: VisionYes, VisionNo, or VisionAuto, with
	// which the server is asked where it tells. A model that takes none is told their
	// names. Default VisionAuto.
	Vision string `toml:"vision" kind:"switch"`

	// VisionModels are models that take images although their server does not say so.
	// Default none.
	VisionModels []string `toml:"vision_models"`

	// Blind are the models that take no images, as Choose has found out.
	Blind []string `toml:"-"`

	// Draws are the models that make images, as Choose has found out.
	Draws []string `toml:"-"`

	// FallbackModels are tried in this order when the model fails after its retries or is
	// not there: names of sections [models.NAME], or models of the same server. Default none.
	FallbackModels []string `toml:"fallback_models"`

	// Timeout is how long the server may take for one answer, from the request
	// to the last byte. A call that exceeds it is retried once. Default 5m.
	Timeout time.Duration `toml:"timeout" min:"1ms"`

	// Temperature is how freely the model picks its words, 0 to 2. It is not
	// sent to models that take none. Default: the server's.
	Temperature *float64 `toml:"temperature" min:"0" max:"2"`

	// MaxOutputTokens is the longest answer, in tokens; 0 leaves it to the server. Default 0.
	MaxOutputTokens int `toml:"max_output_tokens" min:"0"`

	// MaxAnswerBytes is how many bytes of text and tool calls are read of one answer.
	// What comes beyond is cut off, as if the model had reached its length limit, and
	// the server is told to stop. Default 1048576.
	MaxAnswerBytes int `toml:"max_answer_bytes" min:"1000"`

	// PromptCache selects whether requests carry hints that help servers to reuse a cached
	// prompt: PromptCacheAuto where their API is known, PromptCacheOff never. Default
	// PromptCacheAuto.
	PromptCache string `toml:"prompt_cache" oneof:"auto off"`

	// Prices are what models cost, by the names that the server gives them, with or
	// without the date of a snapshot. Default none: costs are unknown.
	Prices Prices `toml:"prices"`

	// Currency is that of the prices, as it is shown behind a cost. Default "USD".
	Currency string `toml:"currency"`

	// Attempted is called after every attempt of every call, from many goroutines at
	// once. It must not block. Default nil.
	Attempted func(Attempt) `toml:"-"`

	// IdleTimeout is how long a stream that has begun may be silent. Default 90s.
	IdleTimeout time.Duration `toml:"-"`

	// MaxTries is how many attempts are made with one model. Default 4.
	MaxTries int `toml:"-"`

	// RetryBase is the wait before the second attempt. It doubles from attempt to
	// attempt, with a jitter of a half. Default 1s, so that four attempts take about 10s.
	RetryBase time.Duration `toml:"-"`

	// OutageAfter is for how long all attempts must have failed before a model is not
	// called for OutagePause. Defaults 5s and 15s.
	OutageAfter time.Duration `toml:"-"`
	OutagePause time.Duration `toml:"-"`
}

// WithDefaults returns the configuration with every unset field at its default. Server
// and model stay empty: Choose decides what they are.
func (c Config) WithDefaults() Config {
	setDefault(&c.Section, "[llm]")
	setDefault(&c.KeyName, "api_key in "+c.Section)
	setDefault(&c.ContextWindow, 128_000)
	setDefault(&c.Timeout, 5*time.Minute)
	setDefault(&c.MaxAnswerBytes, 1<<20)
	setDefault(&c.PromptCache, PromptCacheAuto)
	setDefault(&c.Vision, VisionAuto)
	setDefault(&c.Currency, "USD")
	setDefault(&c.IdleTimeout, 90*time.Second)
	setDefault(&c.MaxTries, 4)
	setDefault(&c.RetryBase, time.Second)
	setDefault(&c.OutageAfter, 5*time.Second)
	setDefault(&c.OutagePause, 15*time.Second)
	return c
}

// Check reports what can have no effect.
func (c Config) Check(report func(key, found, allowed string)) {
	if len(c.VisionModels) > 0 && c.Vision != VisionAuto {
		report("vision_models", "names of models beside vision = "+c.Vision, `vision = "auto" beside it`)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
