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
	wakePatience   = 10 * time.Second // how long a session that was woken may take to begin its run
	deferredLook   = 500 * time.Millisecond
	deferredRarely = 2 * time.Second // while this process knows of nothing that waits
)

// outages are the models that can't be called, as the runs of this process have seen. It is safe for concurrent use.
type outages struct {
	mu       sync.Mutex
	log      *slog.Logger
	most     int                                // deferred sessions that run at once
	models   map[string]*outage                 // by the labels of the models
	woken    map[conversation.Key]woken         // sessions that were chosen to try, and have not begun their runs
	running  map[conversation.Key]string        // models of those whose runs are under way
	failures map[conversation.Key]sessionTrials // sessions whose runs have failed, and not worked since
	changed  chan struct{}                      // holds one token when a deferred session may begin
}

// outage is what is known of a model.
type outage struct {
	since    time.Time        // when the first of the latest failures in a row came; zero = the latest run was answered
	first    conversation.Key // its session
	down     bool             // runs of several sessions have failed in a row
	failedAt time.Time        // when the latest run failed
	pause    time.Duration    // after failedAt, until the next session tries
	answered time.Time        // when the model answered last
	failed   int              // runs of the outage that failed
	cause    *llm.Error
	width    int // how many deferred sessions may be under way at once
}

type woken struct {
	at    time.Time
	model string
}

type sessionTrials struct {
	all  int // failed runs
	own  int // those that failed while the model answered others
	last time.Time
}

func newOutages(log *slog.Logger, most int) *outages {
	return &outages{
		log: log, most: max(1, most), models: map[string]*outage{}, woken: map[conversation.Key]woken{}, running: map[conversation.Key]string{},
		failures: map[conversation.Key]sessionTrials{}, changed: make(chan struct{}, 1),
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

// underWay returns how many deferred sessions of a model run, or are about to.
func (o *outages) underWay(model string, now time.Time) (n int) {
	for _, of := range o.running {
		if of == model {
			n++
		}
	}
	for key, w := range o.woken {
		if now.Sub(w.at) > wakePatience {
			delete(o.woken, key)
		} else if w.model == model {
			n++
		}
	}
	return n
}

// mustWait reports whether a session may not call the model now. isDeferred says that its messages wait for the model
// already: then it waits until wake has chosen it. While the model is down, another session may be the one that tries
// whether the model is back.
func (o *outages) mustWait(model string, key conversation.Key, isDeferred bool, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, is := o.woken[key]; is {
		return false
	}
	m := o.of(model)
	if isDeferred || !m.down {
		return isDeferred
	}
	if o.underWay(model, now) > 0 || now.Before(m.failedAt.Add(m.pause)) {
		return true
	}
	o.woken[key] = woken{now, model}
	return false
}

// wake reports whether a deferred session is to try now. It is then expected to begin its run.
func (o *outages) wake(s deferred.Session, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.of(s.Model)
	under := o.underWay(s.Model, now)
	_, isWoken := o.woken[s.Key]
	if _, isRunning := o.running[s.Key]; isRunning || isWoken || s.Until.After(now) {
		return false
	}
	if m.down && (under > 0 || now.Before(m.failedAt.Add(m.pause)) && !s.Until.After(m.failedAt)) || !m.down && under >= m.width {
		return false
	}
	o.woken[s.Key] = woken{now, s.Model}
	return true
}

// begin notes that a session begins a run, and returns the function that notes its end. isWoken says that wake or mustWait has chosen
// the session, and once that the run tries whether a model that is down is back.
func (o *outages) begin(model string, key conversation.Key) (isWoken, once bool, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, is := o.woken[key]; !is {
		return false, false, func() {}
	}
	delete(o.woken, key)
	o.running[key] = model
	return true, o.of(model).down, func() {
		o.mu.Lock()
		delete(o.running, key)
		o.mu.Unlock()
		offer(o.changed)
	}
}

// answered notes that the model has answered a call.
func (o *outages) answered(model string, key conversation.Key, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.of(model)
	m.answered = now
	if m.down {
		o.log.Info("model answers again; what waits is answered", "model", model, "down", now.Sub(m.since).Round(time.Second), "failed_runs", m.failed)
	}
	_, isRunning := o.running[key]
	if isRunning {
		m.width = min(m.width+1, o.most)
	}
	if isRunning || !m.since.IsZero() {
		offer(o.changed)
	}
	m.since, m.first, m.down, m.pause, m.failed, m.cause = time.Time{}, "", false, 0, 0, nil
	delete(o.failures, key)
}

// failed notes that a run failed by a fault of the server. It returns when the session is tried again at the earliest, if its
// messages wait. giveUp says that the fault seems to be one of these messages, since the model answers others.
func (o *outages) failed(model string, key conversation.Key, cause *llm.Error, waits bool, now time.Time) (until time.Time, giveUp bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m, t := o.of(model), o.failures[key]
	if m.since.IsZero() {
		m.since, m.first = now, key
	}
	if !m.down && m.first != key {
		m.down = true
		o.log.Warn("model is down; messages wait for it", "model", model, "error", cause)
	}
	if !m.down && (cause.MayBeOfCall() || t.all > 0 && m.answered.After(t.last)) {
		t.own++
	}
	if t.all, t.last = t.all+1, now; waits {
		o.failures[key] = t
	}
	if now.Sub(m.failedAt) >= m.pause { // runs that were under way together count once
		m.pause = min(max(2*m.pause, firstPause), longestPause)
	}
	m.failedAt, m.cause, m.width, m.failed = now, cause, 1, m.failed+1
	pause := max(m.pause, min(cause.RetryAfter, longestAsked))
	return now.Add(pause << min(t.own, mostFailures)), t.own >= mostFailures
}

// next returns when a session may try whether the model is back that has not tried yet.
func (o *outages) next(model string) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.of(model)
	return m.failedAt.Add(m.pause)
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

	Failed int // runs that have failed since then
}

// Outages returns the models that can't be called, as the runs of this process have seen.
func (r *Router) Outages() (list []Outage) {
	o := r.outages
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, m := range o.models {
		if m.down {
			list = append(list, Outage{name, m.since, m.cause.Brief().Error(), m.failed})
		}
	}
	return list
}

// watchDeferred wakes the loops of sessions whose messages wait for a model, until ctx ends.
func (r *Router) watchDeferred(ctx context.Context) {
	failing, logged := false, time.Now()
	for {
		waiting, err := r.wakeDeferred(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			r.deps.Log.Warn("deferred messages not read", "error", err)
		}
		failing = err != nil
		if time.Since(logged) >= time.Minute {
			logged = time.Now()
			r.logDeferred(waiting)
		}
		wait := deferredLook
		if len(waiting) == 0 {
			wait = deferredRarely
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.outages.changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// wakeDeferred wakes those sessions that may try now, and returns all that wait for this process.
func (r *Router) wakeDeferred(ctx context.Context) (waiting []deferred.Session, err error) {
	all, err := deferred.New(r.deps.Store).Sessions(ctx)
	now, node := r.deps.Store.Now(), r.deps.Store.Node()
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
	for _, s := range r.outages.inTurn(waiting) {
		if r.isExpired(s.Since) && r.outages.cause(s.Model) != nil || r.outages.wake(s, now) {
			r.Wake(s.Key)
		}
	}
	if len(waiting) == 0 {
		r.outages.forgetFailures()
	}
	return waiting, err
}

// inTurn returns sessions in the order in which they are tried: those that wait for a model that is down by the number of their
// failed runs, so that a message on which a server fails keeps nobody waiting.
func (o *outages) inTurn(list []deferred.Session) []deferred.Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	tried := func(s deferred.Session) int {
		if !o.of(s.Model).down {
			return 0
		}
		return o.failures[s.Key].all
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b deferred.Session) int { return tried(a) - tried(b) })
	return list
}

func (o *outages) forgetFailures() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.failures)
}

// logDeferred logs what waits, once a minute while anything does or a model is down.
func (r *Router) logDeferred(waiting []deferred.Session) {
	down, messages := r.Outages(), 0
	for _, s := range waiting {
		messages += s.Messages
	}
	for _, m := range down {
		r.deps.Log.Warn("model is down", "model", m.Model, "since", m.Since, "failed_runs", m.Failed, "waiting_messages", messages, "waiting_sessions", len(waiting), "error", m.Error)
	}
	if len(down) == 0 && len(waiting) > 0 {
		r.deps.Log.Info("messages wait for a model", "messages", messages, "sessions", len(waiting), "oldest", waiting[0].Since)
	}
}
