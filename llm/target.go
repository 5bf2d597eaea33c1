package llm

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	openai "github.com/sashabaranov/go-openai"

	"parley/plaintext"
)

// target is a model at its server. Clients that call the same model share it.
type target struct {
	template
	name    string // NAME of the section [models.NAME]; "" = no section: the server's name is used
	cfg     Config
	http    *http.Client // shared by the models of a server, like noStreamOptions
	secrets *plaintext.Redactor
	breaker *breaker
	log     *slog.Logger

	// noStreamOptions is set once the server has refused stream_options.
	noStreamOptions *atomic.Bool
}

// newTarget returns cfg.Model with the defaults of what cfg leaves out.
func newTarget(name string, cfg Config, log *slog.Logger) *target {
	cfg = cfg.WithDefaults()
	setDefault(&cfg.BaseURL, defaultBaseURL)
	setDefault(&cfg.Model, DefaultModel)
	cfg.BaseURL = strings.TrimSuffix(strings.TrimRight(cfg.BaseURL, "/"), "/chat/completions")
	return &target{
		template: newTemplate(cfg.Model, cfg, log), name: name, cfg: cfg, http: newHTTPClient(), secrets: secretsOf(cfg), log: log,
		breaker: newBreaker(cmp.Or(name, cfg.Model), cfg.OutageAfter, cfg.OutagePause, log), noStreamOptions: &atomic.Bool{},
	}
}

// sibling returns another model of the same server.
func (t *target) sibling(model string) *target {
	other := *t
	other.name, other.cfg.Model = "", model
	other.template = newTemplate(model, other.cfg, t.log)
	other.breaker = newBreaker(model, t.cfg.OutageAfter, t.cfg.OutagePause, t.log)
	return &other
}

// label returns the name by which people and records know the model.
func (t *target) label() string { return cmp.Or(t.name, t.cfg.Model) }

// worded returns an error with the texts for the user and the operator.
func (t *target) worded(e *Error) *Error {
	t.word(e, t.cfg.Model)
	return e
}

// ofOtherAccounts returns the models of a list that are at another server, or have another key.
func (t *target) ofOtherAccounts(list []*target) (others []*target) {
	for _, other := range list {
		if other.cfg.BaseURL != t.cfg.BaseURL || other.cfg.APIKey != t.cfg.APIKey {
			others = append(others, other)
		}
	}
	return others
}

// health returns the state of the model.
func (t *target) health() Health {
	h := t.breaker.health()
	h.Model, h.Host = t.label(), hostOf(t.cfg.BaseURL)
	return h
}

// longWait is how long a busy model may ask to wait while there is a fallback.
const longWait = 5 * time.Second

// persist calls one model until it answers or another attempt makes no sense.
func (t *target) persist(ctx context.Context, req Request, out *output, hasNext bool) (Response, *failure) {
	if t.blind {
		req.Messages = blindly(req.Messages)
	}
	wire := t.request(req)
	pace := newPacing(t.cfg.RetryBase)
	call := t.breaker.calls.Add(1)
	tries, timeouts, stale, refusals := 0, 0, 0, 0
	resp, err := backoff.Retry(ctx, func() (Response, error) {
		tries++
		if t.breaker.isOpen() {
			refusals++
		}
		done, refused := t.breaker.admit(ctx, req, call, !hasNext && refusals <= 1)
		if refused != nil {
			return Response{}, backoff.Permanent(refused)
		}
		began := time.Now()
		resp, fail := t.admitted(ctx, wire, out, done)
		t.report(ctx, req, Attempt{Model: cmp.Or(t.name, resp.Model, wire.Model), Asked: t.label(), At: began, Took: time.Since(began),
			FirstByte: out.firstByte(began), Usage: resp.Usage, FinishReason: resp.FinishReason}, fail)
		if fail == nil {
			return resp, nil
		}
		if fail.timeout {
			timeouts++
		}
		// A call that ran into the timeout is retried once, not three times.
		if req.Once || !fail.again || fail.cause.RetryAfter > maxRetryAfter || timeouts > 1 || ctx.Err() != nil || hasNext && t.isHopeless(fail) {
			return Response{}, backoff.Permanent(fail)
		}
		pace.atLeast = fail.cause.RetryAfter
		if fail.stale {
			stale++
			t.http.CloseIdleConnections() // they are as old as the one that failed
		}
		pace.atOnce = stale == 1 && fail.stale
		return Response{}, fail
	},
		backoff.WithBackOff(pace),
		backoff.WithMaxTries(uint(t.cfg.MaxTries)),
		backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, wait time.Duration) {
			level, unlogged := t.breaker.level()
			t.log.Log(ctx, level, "model call failed; retrying", "model", wire.Model, "try", tries, "wait", wait, "error", err, "unlogged", unlogged)
			if req.Waiting != nil {
				req.Waiting(Waiting{Kind: KindOf(err), For: wait})
			}
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

// isHopeless reports whether another attempt would keep the caller from a fallback for long.
func (t *target) isHopeless(fail *failure) bool {
	return t.breaker.isOpen() || fail.cause.RetryAfter > longWait || fail.timeout
}

// outcomeOf returns the outcome of an attempt for the breaker.
func outcomeOf(ctx context.Context, fail *failure) error {
	switch {
	case fail == nil:
		return nil
	case ctx.Err() != nil:
		return errEnded
	}
	return fail.cause
}

// report reports an attempt to the caller of Complete and to Config.Attempted.
func (t *target) report(ctx context.Context, req Request, a Attempt, fail *failure) {
	switch {
	case fail == nil:
	case ctx.Err() != nil:
		a.Err = context.Cause(ctx)
	default:
		a.Err = fail.cause
	}
	req.attempted(a)
	if t.cfg.Attempted != nil {
		t.cfg.Attempted(a)
	}
}

// admitted makes an attempt that the breaker has let through, and passes the outcome to done.
func (t *target) admitted(ctx context.Context, wire *wireRequest, out *output, done func(error)) (resp Response, fail *failure) {
	outcome := errEnded // of a panic: without any, the breaker would wait for this attempt for ever
	defer func() { done(outcome) }()
	resp, fail = t.attempt(ctx, wire, out)
	outcome = outcomeOf(ctx, fail)
	return resp, fail
}

// attempt makes one HTTP call. Where the server turns out to refuse stream_options, it
// makes a second one without.
func (t *target) attempt(ctx context.Context, wire *wireRequest, out *output) (Response, *failure) {
	if t.noStreamOptions.Load() {
		wire.withoutStreamOptions()
	}
	resp, err := t.call(ctx, wire, out)
	var refused *statusError
	if wire.StreamOptions != nil && errors.As(err, &refused) && refused.refusesStreamOptions() {
		t.noStreamOptions.Store(true)
		wire.withoutStreamOptions()
		resp, err = t.call(ctx, wire, out)
	}
	if err != nil {
		return resp, t.explain(err, wire.Model, !out.first.IsZero())
	}
	return resp, nil
}

// call makes one HTTP call and reads the whole answer.
func (t *target) call(ctx context.Context, wire *wireRequest, out *output) (Response, error) {
	out.begin(cmp.Or(t.name, wire.Model))
	body, err := wire.encode()
	if err != nil {
		return Response{}, err
	}
	ctx, limits := newLimits(ctx, t.cfg.Timeout, t.cfg.IdleTimeout)
	defer limits.stop()

	cfg := openai.DefaultConfig(t.cfg.APIKey)
	cfg.BaseURL = t.cfg.BaseURL
	cfg.HTTPClient = &exchange{http: t.http, body: body, limits: limits, secrets: t.secrets}
	stream, err := openai.NewClientWithConfig(cfg).CreateChatCompletionStream(ctx, wire.outline())
	if err != nil {
		return Response{}, limits.cause(ctx, err)
	}
	defer stream.Close()

	answer := answer{out: out, named: t.name != "", room: t.cfg.MaxAnswerBytes, thoughtRoom: t.cfg.MaxAnswerBytes, secrets: t.secrets, offered: wire.offered, finishing: limits.finishing}
	if err := answer.read(stream.RecvRaw); err != nil {
		return Response{}, limits.cause(ctx, err)
	}
	if answer.lost > 0 {
		t.log.Warn("pictures of an answer dropped", "model", wire.Model, "pictures", answer.lost)
	}
	return answer.response()
}
