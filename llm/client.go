package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	openai "github.com/sashabaranov/go-openai"
)

// maxRetryAfter is the longest wait that a server may ask for. When it asks for more,
// the call fails and its error names the time.
const maxRetryAfter = 30 * time.Second

// Client calls one model of an OpenAI-compatible server, and its fallbacks.
// It is safe for concurrent use.
type Client struct {
	cfg     Config
	models  []template // the model, then its fallbacks
	http    *http.Client
	secrets secrets
	log     *slog.Logger

	// noStreamOptions is set once the server has refused stream_options.
	noStreamOptions atomic.Bool
}

// NewClient returns a client of cfg.Model. It makes no connection yet.
func NewClient(cfg Config, log *slog.Logger) *Client {
	cfg = cfg.WithDefaults()
	setDefault(&cfg.BaseURL, defaultBaseURL)
	setDefault(&cfg.Model, DefaultModel)
	cfg.BaseURL = strings.TrimSuffix(strings.TrimRight(cfg.BaseURL, "/"), "/chat/completions")
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Client{cfg: cfg, log: log, secrets: secretsOf(cfg), http: newHTTPClient()}
	for _, model := range append([]string{cfg.Model}, cfg.FallbackModels...) {
		c.models = append(c.models, newTemplate(model, cfg, log))
	}
	return c
}

// ReleaseIdle closes the connections that no call uses.
func (c *Client) ReleaseIdle() { c.http.CloseIdleConnections() }

// Model returns the name of the model that is called first.
func (c *Client) Model() string { return c.cfg.Model }

// Complete calls the model and returns its answer. It calls emit, if that is not nil,
// from the calling goroutine for every piece of text as it arrives.
//
// It retries failures that may pass, then tries the fallback models. emit gets a Reset
// before text that replaces text already emitted. The error is an *Error; what was
// emitted is void then. When ctx ends, Complete returns at once with the text so far,
// without tool calls, and an error that wraps the cause of ctx.
func (c *Client) Complete(ctx context.Context, req Request, emit func(Delta)) (Response, error) {
	out := &output{emit: emit}
	var failed *failure
	for i, model := range c.models {
		resp, fail := c.persist(ctx, model, req, out)
		if fail == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return Response{Text: out.text(), Model: model.model}, fmt.Errorf("model call ended early: %w", context.Cause(ctx))
		}
		if failed == nil || fail.cause.Kind == KindContextSize {
			failed = fail
		}
		if !fail.elsewhere {
			break
		}
		if i+1 < len(c.models) {
			c.log.Warn("model failed; trying the fallback", "model", model.model, "fallback", c.models[i+1].model, "error", fail)
		}
	}
	return Response{}, failed.cause
}

// persist calls one model until it answers or another attempt makes no sense.
func (c *Client) persist(ctx context.Context, model template, req Request, out *output) (Response, *failure) {
	wire := model.request(req)
	pace := newPacing(c.cfg.RetryBase)
	tries, timeouts, stale := 0, 0, 0
	resp, err := backoff.Retry(ctx, func() (Response, error) {
		tries++
		began := time.Now()
		resp, fail := c.attempt(ctx, wire, out)
		c.attempted(ctx, req, Attempt{Model: cmp.Or(resp.Model, wire.Model), At: began, Took: time.Since(began),
			FirstByte: out.firstByte(began), Usage: resp.Usage, FinishReason: resp.FinishReason}, fail)
		if fail == nil {
			return resp, nil
		}
		if fail.timeout {
			timeouts++
		}
		// A call that ran into the timeout is retried once, not three times.
		if !fail.again || fail.cause.RetryAfter > maxRetryAfter || timeouts > 1 || ctx.Err() != nil {
			return Response{}, backoff.Permanent(fail)
		}
		pace.atLeast = fail.cause.RetryAfter
		if fail.stale {
			stale++
			c.http.CloseIdleConnections() // they are as old as the one that failed
		}
		pace.atOnce = stale == 1 && fail.stale
		return Response{}, fail
	},
		backoff.WithBackOff(pace),
		backoff.WithMaxTries(uint(c.cfg.MaxTries)),
		backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, wait time.Duration) {
			c.log.Warn("model call failed; retrying", "model", wire.Model, "try", tries, "wait", wait, "error", err)
		}))
	if err == nil {
		return resp, nil
	}
	var fail *failure
	if !errors.As(err, &fail) {
		fail = &failure{cause: &Error{Err: err}} // ctx ended between two attempts
	}
	return Response{}, fail
}

// attempted reports an attempt to the caller of Complete and to Config.Attempted.
func (c *Client) attempted(ctx context.Context, req Request, a Attempt, fail *failure) {
	switch {
	case fail == nil:
	case ctx.Err() != nil:
		a.Err = context.Cause(ctx)
	default:
		a.Err = fail.cause
	}
	req.attempted(a)
	if c.cfg.Attempted != nil {
		c.cfg.Attempted(a)
	}
}

// attempt makes one HTTP call. Where the server turns out to refuse stream_options, it
// makes a second one without.
func (c *Client) attempt(ctx context.Context, wire *wireRequest, out *output) (Response, *failure) {
	if c.noStreamOptions.Load() {
		wire.withoutStreamOptions()
	}
	resp, err := c.call(ctx, wire, out)
	var refused *statusError
	if wire.StreamOptions != nil && errors.As(err, &refused) && refused.refusesStreamOptions() {
		c.noStreamOptions.Store(true)
		wire.withoutStreamOptions()
		resp, err = c.call(ctx, wire, out)
	}
	if err != nil {
		return resp, c.explain(err, wire.Model)
	}
	return resp, nil
}

// call makes one HTTP call and reads the whole answer.
func (c *Client) call(ctx context.Context, wire *wireRequest, out *output) (Response, error) {
	out.begin()
	body, err := wire.encode()
	if err != nil {
		return Response{}, err
	}
	ctx, limits := newLimits(ctx, c.cfg.Timeout, c.cfg.IdleTimeout)
	defer limits.stop()

	cfg := openai.DefaultConfig(c.cfg.APIKey)
	cfg.BaseURL = c.cfg.BaseURL
	cfg.HTTPClient = &exchange{http: c.http, body: body, limits: limits, secrets: c.secrets}
	stream, err := openai.NewClientWithConfig(cfg).CreateChatCompletionStream(ctx, wire.outline())
	if err != nil {
		return Response{}, limits.cause(ctx, err)
	}
	defer stream.Close()

	answer := answer{out: out, room: c.cfg.MaxAnswerBytes, secrets: c.secrets, finishing: limits.finishing}
	if err := answer.read(stream.RecvRaw); err != nil {
		return Response{}, limits.cause(ctx, err)
	}
	return answer.response(wire.Model)
}

// output is the text of the answer as the caller has seen it.
type output struct {
	emit  func(Delta)
	sb    strings.Builder
	first time.Time // when the first piece of the answer arrived; zero before
}

// begin starts an answer and voids what was emitted of the previous one.
func (o *output) begin() {
	o.first = time.Time{}
	if o.sb.Len() == 0 {
		return
	}
	o.sb.Reset()
	if o.emit != nil {
		o.emit(Delta{Reset: true})
	}
}

func (o *output) write(text string) {
	if text == "" {
		return
	}
	o.arrived()
	o.sb.WriteString(text)
	if o.emit != nil {
		o.emit(Delta{Text: text})
	}
}

// arrived records the time of the first piece of the answer.
func (o *output) arrived() {
	if o.first.IsZero() {
		o.first = time.Now()
	}
}

// firstByte returns the time from began to the first piece, 0 when none arrived.
func (o *output) firstByte(began time.Time) time.Duration {
	if o.first.IsZero() {
		return 0
	}
	return o.first.Sub(began)
}

func (o *output) text() string { return o.sb.String() }

// pacing is exponential backoff with jitter that waits at least as long as the server
// asks for.
type pacing struct {
	backoff.ExponentialBackOff
	atLeast time.Duration
	atOnce  bool // the next attempt needs no wait
}

func newPacing(base time.Duration) *pacing {
	return &pacing{ExponentialBackOff: backoff.ExponentialBackOff{
		InitialInterval:     base,
		RandomizationFactor: 0.5,
		Multiplier:          2,
		MaxInterval:         maxRetryAfter,
	}}
}

func (p *pacing) NextBackOff() time.Duration {
	if p.atOnce {
		return 0
	}
	return max(p.ExponentialBackOff.NextBackOff(), p.atLeast)
}
