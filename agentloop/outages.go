package agentloop

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/deferred"
	"parley/llm"
)

// When a model call fails by a fault of the server, the messages of its run wait: they stay in the inbox as deferred. While no call
// of a model works, one session at a time tries whether it is back. Then the sessions that wait are answered, the oldest
// first: one, then two, then four at a time.

const (
	firstPause     = time.Second      // before the first session tries whether a model is back
	longestPause   = 15 * time.Second // between two such tries
	longestAsked   = 5 * time.Minute  // the longest pause that a server may ask for
	mostFailures   = 5                // of one message, while the model answers others; then its run fails
	trialPatience  = 10 * time.Second // how long others wait for a session that was chosen to try and has not begun its run
	trialPause     = time.Minute      // until it is chosen again
	deferredLook   = time.Second      // how often what waits is read
	deferredRarely = 5 * time.Second  // the same while nothing waits
)

// outages are the models that can't be called, as the runs of this process have seen. It is safe for concurrent use.
type outages struct {
	mu       sync.Mutex
	log      *slog.Logger
	most     int                           // deferred sessions that run at once
	models   map[string]*outage            // by the labels of the models
	trials   map[conversation.Key]trial    // the sessions that try
	failures map[conversation.Key]failures // sessions whose runs have failed, and not worked since
	changed  chan struct{}                 // holds one token when a deferred session may begin
}

// outage is the state of one model, from the runs of this process.
type outage struct {
	since    time.Time        // when the first of the latest failures in a row came; zero = the latest run was answered
	first    conversation.Key // its session
	down     bool             // runs of several sessions have failed in a row
	failedAt time.Time        // when the latest run failed
	pause    time.Duration    // after failedAt, until the next session tries
	answered time.Time        // when the model answered last
	cause    *llm.Error
	width    int // how many deferred sessions may be under way at once
}

// trial is the run of a session that was chosen to try whether its model answers.
type trial struct {
	model string
	until time.Time // how long others wait for the run; zero = it is under way
}

type failures struct {
	last time.Time
	own  int // those that happened while the model answered others
}

func newOutages(log *slog.Logger, most int) *outages {
	return &outages{
		log: log, most: max(1, most), models: map[string]*outage{}, trials: map[conversation.Key]trial{},
		failures: map[conversation.Key]failures{}, changed: make(chan struct{}, 1),
	}
}

func (o *outages) of(model string) *outage {
	m := o.models[model]
	if m == nil {
		m = &outage{width: 1}
		o.models[model] = m
	}
	return m
}

// trying returns how many sessions try a model.
func (o *outages) trying(model string, now time.Time) (n int) {
	for key, t := range o.trials {
		switch {
		case t.until.IsZero() || now.Before(t.until):
			if t.model == model {
				n++
			}
		case now.Sub(t.until) > trialPause:
			delete(o.trials, key)
		}
	}
	return n
}

// mustWait reports whether a session may not call the model now. isDeferred says that its messages wait for the model
// already: then it waits until choose has chosen it. While the model is down, another session may be the one that tries
// whether the model is back.
func (o *outages) mustWait(model string, key conversation.Key, isDeferred bool, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, tries := o.trials[key]; tries {
		return false
	}
	m := o.of(model)
	if isDeferred || !m.down {
		return isDeferred
	}
	if !o.mayTry(model, now) {
		return true
	}
	o.trials[key] = trial{model, now.Add(trialPatience)}
	return false
}

// mayTry reports whether a session may try whether a model that is down is back.
func (o *outages) mayTry(model string, now time.Time) bool {
	m := o.of(model)
	return o.trying(model, now) == 0 && !now.Before(m.failedAt.Add(m.pause))
}

// choose returns the sessions of a list that may try now, and the others. The list begins with those that have waited longest. Where
// the model is down, the one is chosen whose latest try is longest ago, so that a message on which a server fails keeps nobody
// waiting. isExpired says that a session has waited for long enough: it is given up then.
func (o *outages) choose(list []deferred.Session, isExpired func(since time.Time) bool, now time.Time) (chosen []conversation.Key, others []deferred.Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	take := func(s deferred.Session) {
		o.trials[s.Key], chosen = trial{s.Model, now.Add(trialPatience)}, append(chosen, s.Key)
	}
	next := map[string]deferred.Session{} // by models that are down
	for _, s := range list {
		m, most := o.of(s.Model), 0
		_, tries := o.trials[s.Key]
		switch {
		case tries || s.Until.After(now):
			continue
		case !m.down:
			most = m.width
		case isExpired(s.Since):
			most = o.most
		default:
			if first, found := next[s.Model]; !found || s.Until.Before(first.Until) {
				next[s.Model] = s
			}
		}
		if o.trying(s.Model, now) < most {
			take(s)
		}
	}
	for model, s := range next {
		if o.mayTry(model, now) {
			take(s)
		}
	}
	return chosen, slices.DeleteFunc(list, func(s deferred.Session) bool { _, tries := o.trials[s.Key]; return tries })
}

// begin notes that a session begins a run, and returns the function that notes its end. once says that the run tries whether a model
// that is down is back.
func (o *outages) begin(model string, key conversation.Key) (once bool, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, tries := o.trials[key]; !tries {
		return false, func() {}
	}
	o.trials[key] = trial{model: model}
	return o.of(model).down, func() {
		o.mu.Lock()
		delete(o.trials, key)
		o.mu.Unlock()
		offer(o.changed)
	}
}

// answered notes that the model has answered a call.
func (o *outages) answered(model string, key conversation.Key, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.of(model)
	if m.down {
		o.log.Info("model answers again; what waits is answered", "model", model, "down", now.Sub(m.since).Round(time.Second))
	}
	_, tries := o.trials[key]
	if tries {
		m.width = min(m.width+1, o.most)
	}
	if tries || !m.since.IsZero() {
		offer(o.changed)
	}
	*m = outage{answered: now, width: m.width, failedAt: m.failedAt}
	delete(o.failures, key)
}

// failed notes that a run failed by a fault of the server. It returns when the session is tried again at the earliest, if its
// messages wait. giveUp says that the fault seems to be one of these messages, since the model answers others.
func (o *outages) failed(model string, key conversation.Key, cause *llm.Error, waits bool, now time.Time) (until time.Time, giveUp bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m, f := o.of(model), o.failures[key]
	if m.since.IsZero() {
		m.since, m.first = now, key
	}
	if !m.down && m.first != key {
		m.down = true
		o.log.Warn("model is down; messages wait for it", "model", model, "error", cause)
	}
	if !m.down && (cause.MayBeOfCall() || !f.last.IsZero() && m.answered.After(f.last)) {
		f.own++
	}
	if f.last = now; waits {
		o.failures[key] = f
	}
	if now.Sub(m.failedAt) >= m.pause { // runs that were under way together count once
		m.pause = min(max(2*m.pause, firstPause), longestPause)
	}
	m.failedAt, m.cause, m.width = now, cause, 1
	pause := max(m.pause, min(cause.RetryAfter, longestAsked))
	return now.Add(pause << min(f.own, mostFailures)), f.own >= mostFailures
}

// cause returns why the model was not called, nil if it is not down.
func (o *outages) cause(model string) *llm.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.of(model); m.down {
		return m.cause
	}
	return nil
}

// isFailing reports whether the latest run of a model has failed.
func (o *outages) isFailing(model string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.of(model).since.IsZero()
}

// Outage is a model that can't be called.
type Outage struct {
	Model string
	Since time.Time
	Error string // for the operator
}

// Outages returns the models that can't be called, as the runs of this process have seen.
func (r *Router) Outages() (list []Outage) {
	o := r.outages
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, m := range o.models {
		if m.down {
			list = append(list, Outage{name, m.since, m.cause.Brief().Error()})
		}
	}
	return list
}

// watchDeferred wakes the loops of sessions whose messages wait for a model, until ctx ends.
func (r *Router) watchDeferred(ctx context.Context) {
	var waiting []deferred.Session // as they were read, without those that were woken since
	var read time.Time
	logged, failing := time.Now(), false
	for ctx.Err() == nil {
		if len(waiting) == 0 || time.Since(read) >= deferredLook {
			var err error
			if waiting, err = r.readDeferred(ctx); err != nil && !failing && ctx.Err() == nil {
				r.deps.Log.Warn("deferred messages not read", "error", err)
			}
			read, failing = time.Now(), err != nil
			if read.Sub(logged) >= time.Minute {
				logged = read
				r.logDeferred(waiting)
			}
		}
		wait := deferredLook
		if len(waiting) == 0 {
			wait = deferredRarely
		}
		var chosen []conversation.Key
		chosen, waiting = r.outages.choose(waiting, r.isExpired, r.deps.Store.Now())
		for _, key := range chosen {
			r.Wake(key)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.outages.changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// readDeferred returns the sessions whose messages wait for a model, of those that this process works.
func (r *Router) readDeferred(ctx context.Context) (waiting []deferred.Session, err error) {
	all, err := deferred.New(r.deps.Store).Sessions(ctx)
	node := r.deps.Store.Node()
	for _, s := range all {
		if !r.serves(s.To) {
			continue
		}
		if node != nil {
			if place, ok := node.Place(string(s.Key)); ok && place.ID != node.ID() {
				continue
			}
		}
		if s.Model == "" {
			s.Model = r.setups.models[0].label()
		}
		waiting = append(waiting, s)
	}
	if err == nil && len(all) == 0 {
		r.outages.mu.Lock()
		clear(r.outages.failures)
		r.outages.mu.Unlock()
	}
	return waiting, err
}

// logDeferred logs what waits, once a minute while anything does or a model is down.
func (r *Router) logDeferred(waiting []deferred.Session) {
	down, messages := r.Outages(), 0
	for _, s := range waiting {
		messages += s.Messages
	}
	for _, m := range down {
		r.deps.Log.Warn("model is down", "model", m.Model, "since", m.Since, "waiting_messages", messages, "waiting_sessions", len(waiting), "error", m.Error)
	}
	if len(down) == 0 && len(waiting) > 0 {
		r.deps.Log.Info("messages wait for a model", "messages", messages, "sessions", len(waiting), "oldest", waiting[0].Since)
	}
}
