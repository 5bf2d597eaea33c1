package llm

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// maxRetryAfter is the longest wait that a server may ask for. When it asks for more,
// the call fails and its error names the time.
const maxRetryAfter = 30 * time.Second

// Client calls a model, and its fallbacks when that fails. It is safe for concurrent use.
type Client struct {
	chain []*target // the model, then its fallbacks
	log   *slog.Logger
}

// NewClient returns a client of cfg.Model. It makes no connection yet.
func NewClient(cfg Config, log *slog.Logger) *Client {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	first := newTarget("", cfg, log)
	c := &Client{chain: []*target{first}, log: log}
	for _, model := range cfg.FallbackModels {
		c.chain = append(c.chain, first.sibling(model))
	}
	return c
}

// ReleaseIdle closes the connections that no call uses.
func (c *Client) ReleaseIdle() {
	for _, t := range c.chain {
		t.http.CloseIdleConnections()
	}
}

// Model returns the name of the model that is called first.
func (c *Client) Model() string { return c.chain[0].label() }

// Complete calls the model and returns its answer. It calls emit, if that is not nil,
// from the calling goroutine for every piece of text as it arrives.
//
// It retries failures that may pass, then tries the fallback models. A model whose server
// has failed several times in a row is not called for a while, see breaker. emit gets a
// Reset before text that replaces text already emitted. The error is an *Error; what was
// emitted is void then. Where every attempt failed and one of them broke off in the
// middle, what came of it is the answer, with the reason FinishCutOff. When ctx ends,
// Complete returns at once with the text so far, without tool calls, and an error that
// wraps the cause of ctx.
func (c *Client) Complete(ctx context.Context, req Request, emit func(Delta)) (Response, error) {
	out := &output{emit: emit, final: req.Final}
	var first, failed *failure
	for rest := c.chain; len(rest) > 0; {
		t := rest[0]
		rest = rest[1:]
		resp, fail := c.complete(ctx, t, req, out, len(rest) > 0)
		if fail == nil {
			if first != nil {
				resp.Fallback = &Fallback{Of: c.Model(), Kind: first.cause.Kind}
			}
			return resp, nil
		}
		if ctx.Err() != nil {
			return Response{Text: out.text(), Reasoning: out.thought(), Model: t.label()}, fmt.Errorf("model call ended early: %w", context.Cause(ctx))
		}
		if first == nil {
			first = fail
		}
		if failed == nil || fail.cause.Kind == KindTooLong {
			failed = fail
		}
		if fail.account {
			rest = t.ofOtherAccounts(rest)
		}
		if !fail.elsewhere || len(rest) == 0 {
			break
		}
		next := rest[0].label()
		level, unlogged := t.breaker.level()
		c.log.Log(ctx, level, "model failed; trying the fallback", "model", t.label(), "fallback", next, "error", fail, "unlogged", unlogged)
		if req.Waiting != nil {
			req.Waiting(Waiting{Kind: fail.cause.Kind, Next: next})
		}
	}
	if text := out.kept(); failed.again && text != "" {
		c.log.Warn("answer broke off; what came of it is kept", "model", c.Model(), "bytes", len(text), "error", failed)
		return Response{Text: text, FinishReason: FinishCutOff, Model: c.Model()}, nil
	}
	if failed.cause.Kind == KindUnknownModel {
		failed.cause.Operator += c.chain[0].modelsInWords(ctx)
	}
	return Response{}, failed.cause
}

// complete calls one model of the chain. A fallback with a smaller window is sent what the
// caller has rebuilt for it.
func (c *Client) complete(ctx context.Context, t *target, req Request, out *output, hasNext bool) (Response, *failure) {
	if t != c.chain[0] && req.Rebuild != nil && t.cfg.ContextWindow < c.chain[0].cfg.ContextWindow {
		if req.Messages = req.Rebuild(t.cfg.ContextWindow); req.Messages == nil {
			return Response{}, &failure{cause: t.worded(&Error{Kind: KindTooLong, Limit: t.cfg.ContextWindow}), elsewhere: true}
		}
	}
	return t.persist(ctx, req, out, hasNext)
}

// output is the text of the answer as the caller has seen it.
type output struct {
	emit     func(Delta)
	final    bool // see Request.Final
	sb       strings.Builder
	thoughts strings.Builder // what the model has thought
	model    string          // the model that writes the answer, see Delta.Model
	first    time.Time       // when the first piece of the answer arrived; zero before
	best     string          // the longest text of the earlier attempts
}

// begin starts an answer of a model and voids what was emitted of the previous one.
func (o *output) begin(model string) {
	o.model = model
	o.first = time.Time{}
	if o.sb.Len() == 0 && o.thoughts.Len() == 0 {
		return
	}
	if text := o.text(); len(text) > len(o.best) {
		o.best = text
	}
	o.reset()
}

// reset voids what was emitted.
func (o *output) reset() {
	o.sb.Reset()
	o.thoughts.Reset()
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
		o.emit(Delta{Text: text, Model: o.model})
	}
}

// think adds a piece of what the model thinks.
func (o *output) think(text string) {
	if text == "" {
		return
	}
	o.arrived()
	o.thoughts.WriteString(text)
	if o.emit != nil {
		o.emit(Delta{Reasoning: text, Model: o.model})
	}
}

// thought returns what the model has thought.
func (o *output) thought() string { return strings.TrimSpace(o.thoughts.String()) }

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

// kept returns the longest text of all attempts. If a later attempt has voided it, kept emits it
// again first.
func (o *output) kept() string {
	if text := o.text(); len(strings.TrimSpace(text)) >= len(strings.TrimSpace(o.best)) {
		return strings.TrimSpace(text)
	}
	if o.sb.Len() > 0 {
		o.reset()
	}
	o.write(o.best)
	return strings.TrimSpace(o.best)
}

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
