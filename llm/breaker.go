package llm

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breaker stops calls of a model whose server does not answer, so that a dead one does not
// cost every run its timeout. It opens after several failures in a row, unless all of them are those of one call, which may
// be what the server fails on. After a pause it lets one attempt through, and closes again when the server has answered that.
type breaker struct {
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	after   time.Duration // how long attempts must have failed before the breaker opens
	pause   time.Duration
	calls   atomic.Int64 // number of calls so far

	mu       sync.Mutex
	since    time.Time // when the first of the latest failures in a row happened; zero if the latest attempt worked
	timeouts int       // number of the latest failures in a row that were timeouts
	call     int64     // number of the call that had the first of the latest failures in a row
	others   bool      // another call has failed since, too
	opened   time.Time // when the breaker opened last
	last     *Error    // the latest of the failures in a row
	down     time.Time // when the present outage began; zero while there is none
	warned   time.Time // when a failure was logged as a warning last
	unlogged int       // failures since then
}

const (
	leastFailures = 4 // in a row before a model is given up for a while: all attempts of a call
	leastTimeouts = 2 // each may have taken minutes
)

func newBreaker(name string, after, pause time.Duration, log *slog.Logger) *breaker {
	b := &breaker{after: after, pause: pause}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:    name,
		Timeout: pause,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.others && (b.timeouts >= leastTimeouts || counts.ConsecutiveFailures >= leastFailures && time.Since(b.since) >= b.after)
		},
		OnStateChange: func(_ string, _, to gobreaker.State) { b.changed(name, to, log) },
		IsSuccessful:  func(err error) bool { return !isOutage(KindOf(err)) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errEnded) },
	})
	return b
}

// changed notes a new state. An outage is logged when it begins and when it ends.
func (b *breaker) changed(name string, to gobreaker.State, log *slog.Logger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch to {
	case gobreaker.StateOpen:
		b.opened = time.Now()
		if b.down.IsZero() {
			b.down = b.opened
			log.Warn("model is down; a call tests it after each pause", "model", name, "pause", b.pause, "error", b.last)
		}
	case gobreaker.StateClosed:
		if !b.down.IsZero() {
			log.Info("model answers again", "model", name, "down", time.Since(b.down).Round(time.Second))
		}
		b.down = time.Time{}
	}
}

// warnEvery is how often failures of a model are logged as a warning.
const warnEvery = time.Minute

// level returns the level at which a failure is logged, and how many were logged at a low level since the last warning.
// An outage is logged by itself.
func (b *breaker) level() (level slog.Level, unlogged int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.down.IsZero() || time.Since(b.warned) < warnEvery {
		b.unlogged++
		return slog.LevelDebug, b.unlogged
	}
	unlogged, b.unlogged, b.warned = b.unlogged, 0, time.Now()
	return slog.LevelWarn, unlogged
}

// errEnded is the outcome of an attempt that the caller has ended. It says nothing about
// the server.
var errEnded = errors.New("ended by the caller")

// isOutage reports whether a failure means that the server does not work. One that is busy,
// or refuses a call, works.
func isOutage(k Kind) bool {
	return slices.Contains([]Kind{KindUnavailable, KindUnreachable, KindTimeout, KindCutOff, KindNotAPI}, k)
}

// isOpen reports whether no attempt is let through now.
func (b *breaker) isOpen() bool { return b.circuit.State() == gobreaker.StateOpen }

// allow lets an attempt of a call through, and returns the function that takes its outcome. If it refuses the
// attempt, again is the wait after which another may be let through.
func (b *breaker) allow(call int64) (done func(error), again time.Duration) {
	report, err := b.circuit.Allow()
	if err != nil {
		return nil, b.again(err)
	}
	return func(err error) {
		b.record(call, err)
		report(err)
	}, 0
}

// probing is how long a call waits before it asks the breaker again while another call tests
// whether the server answers.
const probing = 500 * time.Millisecond

// again returns the time after which an attempt that was refused with err may be let through.
func (b *breaker) again(err error) time.Duration {
	if errors.Is(err, gobreaker.ErrTooManyRequests) {
		return min(probing, b.pause)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(time.Until(b.opened.Add(b.pause)), time.Millisecond)
}

// record counts the failures in a row.
func (b *breaker) record(call int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var failed *Error
	switch {
	case errors.Is(err, errEnded):
		return
	case !errors.As(err, &failed), !isOutage(failed.Kind):
		b.since, b.timeouts, b.others, b.last = time.Time{}, 0, false, nil
		return
	case b.since.IsZero():
		b.since, b.call = time.Now(), call
	case call != b.call:
		b.others = true
	}
	b.last = failed
	if failed.Kind == KindTimeout {
		b.timeouts++
	} else {
		b.timeouts = 0
	}
}

// failure returns the newest failure, by which an attempt is refused.
func (b *breaker) failure(again time.Duration) *failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	cause := Error{Kind: KindUnreachable}
	if b.last != nil {
		cause = *b.last
	}
	cause.RetryAfter = again
	return &failure{cause: &cause, again: true, elsewhere: true}
}

// patience is how long a call waits for a model that is down to be tried again.
const patience = 30 * time.Second

// admit waits until an attempt of a call is let through, at most for patience. A caller that has a fallback
// to call does not wait, nor does a call in the background.
func (b *breaker) admit(ctx context.Context, req Request, call int64, waits bool) (done func(error), refused *failure) {
	if req.Background {
		return b.admitBackground()
	}
	for until := time.Now().Add(patience); ; {
		done, again := b.allow(call)
		if done != nil {
			return done, nil
		}
		refused = b.failure(again)
		if !waits || time.Now().Add(again).After(until) {
			return nil, refused
		}
		if req.Waiting != nil && again >= time.Second {
			req.Waiting(Waiting{Kind: refused.cause.Kind, For: again})
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, refused
		}
	}
}

// admitBackground lets an attempt of a call in the background through, unless the latest attempt of another call has failed.
// Its outcome does not count.
func (b *breaker) admitBackground() (done func(error), refused *failure) {
	b.mu.Lock()
	failing := !b.since.IsZero()
	b.mu.Unlock()
	if failing || b.circuit.State() != gobreaker.StateClosed {
		return nil, b.failure(0)
	}
	return func(error) {}, nil
}

// State says whether a model is called.
type State string

const (
	StateUp     State = "up"     // the model is called; no outage is known
	StateDown   State = "down"   // the model has failed, and is not called for a while
	StateTrying State = "trying" // the next call tries whether the model answers
)

// Health is the state of a model.
type Health struct {
	Model string
	Host  string // host name of the model's server
	State State
	Since time.Time // when the first of the latest failures in a row happened; zero if the latest attempt worked
	Error string    // the newest of these failures, in words for the operator; "" if there is none
}

// health returns the state of the model.
func (b *breaker) health() Health {
	states := map[gobreaker.State]State{gobreaker.StateOpen: StateDown, gobreaker.StateHalfOpen: StateTrying}
	state := states[b.circuit.State()]
	if state == "" {
		state = StateUp
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h := Health{State: state, Since: b.since}
	if b.last != nil {
		h.Error = b.last.Brief().Error()
	}
	return h
}
