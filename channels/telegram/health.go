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
	healthySince atomic.Pointer[time.Time] // when polls began to be answered; nil: the last one was not
	tell         func(state, detail string)

	mu   sync.Mutex
	told string // the state
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

// is reports a state that is new.
func (h *health) is(state, detail string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told != state && h.tell != nil {
		h.tell(state, detail)
	}
	h.told = state
}

// judge wraps the error of a message in a StuckError, where the polls show that
// Telegram works.
func (h *health) judge(err error) error {
	if since := h.healthySince.Load(); since != nil {
		return &channels.StuckError{HealthySince: *since, Err: err}
	}
	return err
}
