package telegramtest

import (
	"net/http"
)

// Draft is a message that the bot is writing in a private chat.
type Draft struct {
	ID   int64
	Text string
	Stop bool // it has a button that stops it
}

// Draft returns the draft that a chat shows. A message takes its place.
func (s *Server) Draft(chat int64) Draft {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drafts[chat]
}

// StopDraft presses the button of a draft, which a chat shows or has shown.
func (s *Server) StopDraft(chat Chat, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueue("stopped_message_generation", map[string]any{"chat": chat, "draft_id": id}, nil)
}

// sendMessageDraft: https://core.telegram.org/bots/api#sendmessagedraft
func (s *Server) sendMessageDraft(w http.ResponseWriter, p map[string]string) {
	m, v := parseMessage(p)
	id := integer(p, "draft_id", 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.passes() {
		_, v = s.place(m.Chat, integer(p, "message_thread_id", 0))
	}
	switch {
	case !v.passes():
	case m.Chat < 0:
		v = bad("TEXTDRAFT_PEER_INVALID")
	case id == 0:
		v = bad("draft identifier must be non-zero")
	}
	if !v.passes() {
		refuse(w, v)
		return
	}
	if s.drafts == nil {
		s.drafts = map[int64]Draft{}
	}
	s.drafts[m.Chat] = Draft{ID: id, Text: m.Text, Stop: p["can_stop"] == "true"}
	s.changed.Broadcast()
	answer(w, true)
}
