package telegram

import (
	"sync/atomic"
	"time"

	"parley/channels"
)

// health is what the polls tell about Telegram. The poller writes it, and
// whoever sends reads it.
type health struct {
	works atomic.Pointer[time.Time] // since when every poll was answered; nil: the last one was not
}

func (h *health) up() {
	if h.works.Load() == nil {
		now := time.Now()
		h.works.Store(&now)
	}
}

func (h *health) down() { h.works.Store(nil) }

// judge adds to a failed message's error that the trouble is the message's own,
// where the polls show that.
func (h *health) judge(err error) error {
	if works := h.works.Load(); works != nil {
		return &channels.StuckError{Works: *works, Err: err}
	}
	return err
}
