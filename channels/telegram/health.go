package telegram

import (
	"sync"
	"sync/atomic"
	"time"

	"parley/channels"
	"parley/conversation/bots"
)

// health is what getMe and the polls tell about Telegram. Whoever sends reads
// it.
type health struct {
	works atomic.Pointer[time.Time] // since when every poll was answered; nil: the last one was not
	tell  func(state, detail string)

	mu   sync.Mutex
	told string // the state
}

func (h *health) up() {
	if h.works.Load() == nil {
		now := time.Now()
		h.works.Store(&now)
	}
	h.is(bots.Serving, "")
}

func (h *health) down(err error) {
	h.works.Store(nil)
	h.is(bots.Interrupted, err.Error())
}

// rejected is told when Telegram rejects the bot token.
func (h *health) rejected(words string) {
	h.works.Store(nil)
	h.is(bots.Rejected, words)
}

// is tells a state that is new.
func (h *health) is(state, detail string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told != state && h.tell != nil {
		h.tell(state, detail)
	}
	h.told = state
}

// judge adds to a failed message's error that the trouble is the message's own,
// where the polls show that.
func (h *health) judge(err error) error {
	if works := h.works.Load(); works != nil {
		return &channels.StuckError{HealthySince: *works, Err: err}
	}
	return err
}
