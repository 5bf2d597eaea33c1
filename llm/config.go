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

	// Model is the model's name, or "offline" for the built-in stand-in.
	// Default: gpt-5-mini at OpenAI, elsewhere the first that the server lists.
	Model string `toml:"model"`

	// ContextWindow is how many tokens the model takes, answer included. Where the
	// server tells Choose a smaller number, that is used. Default 128000.
	ContextWindow int `toml:"context_window" min:"1"`

	// Vision says that the model takes images. Default false: it is told their names.
	Vision bool `toml:"vision"`

	// FallbackModels are tried in this order, at the same server, when the
	// model fails after its retries or is not there. Default none.
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

	// PromptCache selects whether requests carry hints that help servers to reuse what they have read of a call
	// before: PromptCacheAuto where their API is known, PromptCacheOff never. Default
	// PromptCacheAuto.
	PromptCache string `toml:"prompt_cache" oneof:"auto off"`

	// Prices are what models cost, by the names that the server gives them, with or
	// without the date of a snapshot. Default none: costs are unknown.
	Prices Prices `toml:"prices"`

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
}

// WithDefaults returns the configuration with every unset field at its default. Server
// and model stay empty: Choose decides what they are.
func (c Config) WithDefaults() Config {
	setDefault(&c.ContextWindow, 128_000)
	setDefault(&c.Timeout, 5*time.Minute)
	setDefault(&c.MaxAnswerBytes, 1<<20)
	setDefault(&c.PromptCache, PromptCacheAuto)
	setDefault(&c.IdleTimeout, 90*time.Second)
	setDefault(&c.MaxTries, 4)
	setDefault(&c.RetryBase, time.Second)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
