package telegram

import (
	"sync"
	"time"
)

// Private messages of strangers are answered once they are let in. Until then they are kept
// in memory only, so that strangers cause no writes.
const (
	questionLife   = time.Hour // as long as a pairing code is valid
	maxQuestions   = 3         // newest messages that are kept of one stranger
	maxAskers      = 500
	maxQuestionRaw = 8 << 10 // bytes of an update that is kept
)

// questions holds the messages of strangers, by the ids of the strangers.
type questions struct {
	mu   sync.Mutex
	kept map[int64]*asker
}

type asker struct {
	at    time.Time // when the newest message came
	asked []update
}

// add remembers a message of a stranger, except for commands: there is nothing yet that
// they could act on.
func (qs *questions) add(u update) {
	m := u.Message
	if _, _, _, command := m.command(); command || len(u.raw) > maxQuestionRaw {
		return
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	now := time.Now()
	for id, a := range qs.kept {
		if now.Sub(a.at) > questionLife {
			delete(qs.kept, id)
		}
	}
	if qs.kept == nil {
		qs.kept = map[int64]*asker{}
	}
	a := qs.kept[m.sender().ID]
	if a == nil {
		if len(qs.kept) >= maxAskers {
			return
		}
		a = &asker{}
		qs.kept[m.sender().ID] = a
	}
	a.at, a.asked = now, append(a.asked, u)
	a.asked = a.asked[max(0, len(a.asked)-maxQuestions):]
}

// take removes what somebody wrote as a stranger, and returns it.
func (qs *questions) take(sender int64) []update {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	a := qs.kept[sender]
	if a == nil {
		return nil
	}
	delete(qs.kept, sender)
	return a.asked
}
