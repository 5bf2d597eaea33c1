package telegram

import (
	"sync"
	"sync/atomic"
	"time"

	"parley/channels"
	"parley/conversation/bots"
)

// health is the state of Telegram as getMe and the polls show it. Senders read
// it.
type health struct {
	healthySince atomic.Pointer[time.Time] // since when polls are answered; nil: the last poll failed
	tell         func(state, detail string)

	mu      sync.Mutex
	state   string
	detail  string
	reports int // calls of report that are in force; 0: another node reports the state
}

func (h *health) up() {
	if h.healthySince.Load() == nil {
		now := time.Now()
		h.healthySince.Store(&now)
	}
	h.is(bots.Serving, "")
}

func (h *health) down(err error) {
	h.healthySince.Store(nil)
	h.is(bots.Interrupted, err.Error())
}

// rejected notes that Telegram rejects the bot token.
func (h *health) rejected(words string) {
	h.healthySince.Store(nil)
	h.is(bots.Rejected, words)
}

// is records a state, and reports it to the operator if it has changed.
func (h *health) is(state, detail string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != state {
		h.state, h.detail = state, detail
		h.announce()
	}
}

// report has the state reported to the operator, the present one first, until stop is called. Of several
// nodes the one that fetches the bot's updates reports.
func (h *health) report() (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reports++
	if h.reports == 1 {
		h.announce()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reports--
	}
}

// announce reports the state. The caller holds the lock.
func (h *health) announce() {
	if h.reports > 0 && h.tell != nil {
		h.tell(h.state, h.detail)
	}
}

// judge wraps the error of a message in a StuckError, where the polls show that
// Telegram works.
func (h *health) judge(err error) error {
	if since := h.healthySince.Load(); since != nil {
		return &channels.StuckError{HealthySince: *since, Err: err}
	}
	return err
}
