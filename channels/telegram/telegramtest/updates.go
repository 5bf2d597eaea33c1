package telegramtest

import (
	"encoding/json"
	"net/http"
	"time"
)

// poll is a getUpdates that waits for something to answer.
type poll struct {
	woken    chan struct{} // closed when there is an update
	conflict chan string   // why it must end with 409
}

// wake ends the wait; a nil poll is none.
func (p *poll) wake() {
	if p == nil {
		return
	}
	select {
	case <-p.woken:
	default:
		close(p.woken)
	}
}

func (p *poll) terminate(why string) {
	if p == nil {
		return
	}
	select {
	case p.conflict <- why:
	default:
	}
}

func (s *Server) getUpdates(w http.ResponseWriter, r *http.Request, p map[string]string) {
	s.notePoll(r, p)
	mine, raw := s.beginPoll(p)
	if mine == nil {
		if raw == nil {
			refuse(w, Verdict{Code: 409, Description: "can't use getUpdates method while webhook is active; " +
				"use deleteWebhook to delete the webhook first"})
			return
		}
		answerRaw(w, raw)
		return
	}
	timeout := time.NewTimer(time.Duration(min(integer(p, "timeout", 0), 50)) * time.Second)
	defer timeout.Stop()
	select {
	case <-mine.woken:
	case <-timeout.C:
	case <-r.Context().Done():
	case why := <-mine.conflict:
		mine.conflict <- why // for the check below
	}
	s.mu.Lock()
	if len(mine.conflict) > 0 {
		s.mu.Unlock()
		refuse(w, Verdict{Code: 409, Description: <-mine.conflict})
		return
	}
	if s.poll == mine {
		s.poll = nil
	}
	s.confirm(max(0, integer(p, "offset", 0))) // also what came while the poll waited
	raw = s.batch(p)
	s.mu.Unlock()
	answerRaw(w, raw)
}

// beginPoll confirms what the offset confirms and ends the poll that waits.
// It returns a poll that must wait, or the answer, or neither when there is a webhook.
func (s *Server) beginPoll(p map[string]string) (*poll, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.webhook.url != "" {
		return nil, nil
	}
	s.poll.terminate("terminated by other getUpdates request; make sure that only one bot instance is running")
	s.poll = nil
	s.allow(p["allowed_updates"])
	s.confirm(integer(p, "offset", 0))
	defer s.changed.Broadcast()
	if len(s.queue) > 0 || integer(p, "timeout", 0) <= 0 {
		return nil, s.batch(p)
	}
	s.poll = &poll{woken: make(chan struct{}), conflict: make(chan string, 1)}
	return s.poll, nil
}

// allow remembers which types the poller wants; without the parameter the
// previous setting stays, and an empty list is all.
func (s *Server) allow(list string) {
	var kinds []string
	if json.Unmarshal([]byte(list), &kinds) != nil {
		return
	}
	s.allowed = nil
	for _, kind := range kinds {
		if s.allowed == nil {
			s.allowed = map[string]bool{}
		}
		s.allowed[kind] = true
	}
}

// confirm forgets the updates below an offset; a negative one counts from the end.
func (s *Server) confirm(offset int64) {
	n := 0
	if offset < 0 {
		n = max(0, len(s.queue)+int(offset))
	}
	for offset > 0 && n < len(s.queue) && s.queue[n].id < offset {
		n++
	}
	s.confirmed = append(s.confirmed, s.queue[:n]...)
	s.queue = s.queue[n:]
	if len(s.confirmed) > 2*kept {
		s.confirmed = append([]update(nil), s.confirmed[len(s.confirmed)-kept:]...)
	}
}

// batch is the JSON of the next updates.
func (s *Server) batch(p map[string]string) []byte {
	limit := int(integer(p, "limit", 100))
	if limit < 1 || limit > 100 {
		limit = 100
	}
	raw := []byte{'['}
	for i, u := range s.queue[:min(limit, len(s.queue))] {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, u.raw...)
	}
	return append(raw, ']')
}
