package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"parley/plaintext"
)

// EmbeddingsConfig is the [embeddings] section. The zero value has no model: then there are no embeddings.
type EmbeddingsConfig struct {
	// BaseURL is the address that /embeddings is appended to, with the version in its
	// path where the server has one. Default https://api.openai.com/v1.
	BaseURL string `toml:"base_url" kind:"url"`

	// APIKey is sent as a bearer token. Default: at OpenAI $OPENAI_API_KEY, elsewhere
	// none.
	APIKey string `toml:"api_key" kind:"secret"`

	// Model is the embedding model's name. Default "": no embeddings.
	Model string `toml:"model"`

	// Dimensions is the length of the vectors that the model is asked for; 0 leaves it
	// to the model. Default 0.
	Dimensions int `toml:"dimensions" min:"0" max:"8192"`

	// Price is that of a million tokens, in the currency of [llm]. Default 0: calls cost
	// nothing, or nobody counts.
	Price float64 `toml:"price" min:"0"`

	// QueryTimeout is how long a search waits for the vector of its query. Default 400ms.
	QueryTimeout time.Duration `toml:"query_timeout" min:"1ms" max:"10s"`
}

// WithDefaults returns the configuration with every unset field at its default.
func (c EmbeddingsConfig) WithDefaults() EmbeddingsConfig {
	setDefault(&c.QueryTimeout, 400*time.Millisecond)
	return c
}

// Check reports what can have no effect without a model.
func (c EmbeddingsConfig) Check(report func(key, found, allowed string)) {
	const allowed = "model = \"NAME\" in the same section, which turns embeddings on"
	switch {
	case c.Model != "":
	case c.BaseURL != "":
		report("base_url", "an address without a model", allowed)
	case c.APIKey != "":
		report("api_key", "a key without a model", allowed)
	case c.Dimensions != 0:
		report("dimensions", "a number without a model", allowed)
	case c.Price != 0:
		report("price", "a price without a model", allowed)
	}
}

// Embedder calls an embedding model of an OpenAI-compatible server. It is safe for
// concurrent use.
type Embedder struct {
	cfg     EmbeddingsConfig
	client  *openai.Client
	secrets *plaintext.Redactor
}

// NewEmbedder returns an embedder of cfg.Model. getenv is read for OpenAI's key. It makes
// no connection yet.
func NewEmbedder(cfg EmbeddingsConfig, getenv func(string) string) *Embedder {
	sideServer(&cfg.BaseURL, &cfg.APIKey, "/embeddings", getenv)
	wire := openai.DefaultConfig(cfg.APIKey)
	wire.BaseURL = cfg.BaseURL
	client := newHTTPClient()
	client.Transport = &boundedTransport{client.Transport}
	wire.HTTPClient = client
	return &Embedder{cfg: cfg, client: openai.NewClientWithConfig(wire), secrets: secretsOf(Config{APIKey: cfg.APIKey, BaseURL: cfg.BaseURL})}
}

// Host returns the host and port of the server.
func (e *Embedder) Host() string { return hostOf(e.cfg.BaseURL) }

// Embed returns the vectors of texts, in their order, all of one length, and the tokens
// that the server has counted, 0 if it says nothing of them. It makes one request. The
// error is an *EmbeddingError.
func (e *Embedder) Embed(ctx context.Context, texts []string) (vectors [][]float32, tokens int, err error) {
	var wait time.Duration
	ctx = context.WithValue(ctx, waitKey{}, &wait)
	resp, err := e.client.CreateEmbeddings(ctx, openai.EmbeddingRequest{
		Input: texts, Model: openai.EmbeddingModel(e.cfg.Model), Dimensions: e.cfg.Dimensions, EncodingFormat: openai.EmbeddingEncodingFormatFloat,
	})
	if err != nil {
		failed := e.explain(ctx, err)
		failed.RetryAfter = wait
		return nil, 0, failed
	}
	tokens = max(resp.Usage.PromptTokens, resp.Usage.TotalTokens, 0)
	if vectors, err = inOrder(resp.Data, len(texts)); err != nil {
		return nil, tokens, &EmbeddingError{Err: err}
	}
	return vectors, tokens, nil
}

// inOrder returns the vectors of an answer in the order of the texts that were sent.
func inOrder(data []openai.Embedding, n int) ([][]float32, error) {
	if len(data) != n {
		return nil, fmt.Errorf("the server gave %d vectors for %d texts", len(data), n)
	}
	vectors := make([][]float32, n)
	for _, d := range data {
		switch {
		case d.Index < 0 || d.Index >= n || vectors[d.Index] != nil:
			return nil, fmt.Errorf("the server numbers its vectors wrongly: %d of %d", d.Index, n)
		case len(d.Embedding) == 0 || len(d.Embedding) != len(data[0].Embedding):
			return nil, fmt.Errorf("the server gave vectors of %d and of %d dimensions", len(data[0].Embedding), len(d.Embedding))
		}
		vectors[d.Index] = d.Embedding
	}
	return vectors, nil
}

// EmbeddingError is a failed call of an embedding model.
type EmbeddingError struct {
	Err error

	// Refused says that the server does not take these texts, for example since one is
	// too long; others may work.
	Refused bool

	// Misconfigured says that no call can work before somebody changes the
	// configuration or the server: a wrong key, address or model.
	Misconfigured bool

	// RetryAfter is the wait that the server asks for, 0 if it asks for none.
	RetryAfter time.Duration
}

func (e *EmbeddingError) Error() string { return e.Err.Error() }
func (e *EmbeddingError) Unwrap() error { return e.Err }

// maxErrorText is the most bytes that are repeated of what a server says.
const maxErrorText = 300

// explain returns the error of a call, without secrets.
func (e *Embedder) explain(ctx context.Context, err error) *EmbeddingError {
	if ctx.Err() != nil {
		return &EmbeddingError{Err: fmt.Errorf("no answer of the embeddings server: %w", context.Cause(ctx))}
	}
	status, text := 0, ""
	var api *openai.APIError
	var request *openai.RequestError
	switch {
	case errors.As(err, &api):
		status, text = api.HTTPStatusCode, api.Message
	case errors.As(err, &request):
		status, text = request.HTTPStatusCode, string(request.Body)
	default:
		return &EmbeddingError{Err: e.secrets.HideIn(err)}
	}
	text = cmp.Or(strings.Join(strings.Fields(text), " "), http.StatusText(status))
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	failed := &EmbeddingError{Err: fmt.Errorf("the embeddings server answered %d: %s%s", status, e.secrets.Hide(text), keyAdvice(status, "embeddings"))}
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		failed.Refused = true
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		failed.Misconfigured = true
	}
	return failed
}

// maxEmbeddingAnswer is the most bytes that are read of an answer: 64 vectors of 8192
// dimensions, of 20 bytes each, have a sixth of it.
const maxEmbeddingAnswer = 64 << 20

// waitKey is the key of a request's context for the *time.Duration that takes the server's
// Retry-After, which go-openai drops.
type waitKey struct{}

// boundedTransport limits the size of each answer, and reads the Retry-After of refusals.
type boundedTransport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err == nil {
		if wait, asked := req.Context().Value(waitKey{}).(*time.Duration); asked && resp.StatusCode >= http.StatusBadRequest {
			*wait = retryAfter(resp.Header, time.Now())
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxEmbeddingAnswer), resp.Body}
	}
	return resp, err
}
