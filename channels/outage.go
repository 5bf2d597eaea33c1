package channels

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// outagePace is how often an Outage logs one trouble, at most.
const outagePace = time.Minute

// Trouble is why attempts fail.
type Trouble struct {
	Name  string // identifies the trouble, and is logged; "" where there is only one kind
	Level slog.Level
	Text  string // the message of the log entry
}

// Outage logs failed attempts without repeating itself. It logs the first failure of a trouble at once, then at most one
// entry a minute, with the number of failures since the entry before, and one when nothing fails any more. All other
// failures are logged at the level Debug. It is safe for concurrent use.
type Outage struct {
	log *slog.Logger

	mu       sync.Mutex
	failing  map[string]bool      // what has failed at its latest attempt
	logged   map[string]time.Time // when each trouble was logged last, by its name
	failures int                  // failed attempts since the latest entry
	since    time.Time            // when the first attempt failed
	trouble  string               // the name of the trouble that was logged last
	isOpen   bool                 // the latest entry says that attempts fail
}

// NewOutage returns an Outage in which nothing fails.
func NewOutage(log *slog.Logger) *Outage {
	return &Outage{log: log, failing: map[string]bool{}, logged: map[string]time.Time{}}
}

// Failed records a failed attempt. what names the subject of the attempt, such as a session.
func (o *Outage) Failed(what string, trouble Trouble, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if len(o.failing) == 0 {
		o.since = now
	}
	o.failing[what] = true
	o.failures++
	level, text := slog.LevelDebug, "attempt failed again"
	if now.Sub(o.logged[trouble.Name]) >= outagePace {
		level, text = trouble.Level, trouble.Text
		if o.failures > 1 {
			args = append(args, "failures", o.failures, "affected", len(o.failing), "for", now.Sub(o.since).Round(time.Second))
		}
		o.logged[trouble.Name], o.trouble, o.isOpen, o.failures = now, trouble.Name, true, 0
	}
	o.named(trouble.Name).Log(context.Background(), level, text, args...)
}

// Succeeded records that an attempt has succeeded. If nothing else fails and the log says otherwise, it logs text.
func (o *Outage) Succeeded(what, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.forget(what) || !o.isOpen {
		return
	}
	o.named(o.trouble).Info(text, "failures", o.failures, "after", time.Since(o.since).Round(time.Millisecond))
	o.isOpen, o.failures = false, 0
}

// Left records that there are no more attempts for what has failed.
func (o *Outage) Left(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.forget(what) {
		o.isOpen = false
	}
}

// Fails reports whether anything has failed at its latest attempt.
func (o *Outage) Fails() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.failing) > 0
}

// forget removes a failing subject, and reports whether it was the last one.
func (o *Outage) forget(what string) (last bool) {
	known := o.failing[what]
	delete(o.failing, what)
	return known && len(o.failing) == 0
}

func (o *Outage) named(trouble string) *slog.Logger {
	if trouble == "" {
		return o.log
	}
	return o.log.With("trouble", trouble)
}
