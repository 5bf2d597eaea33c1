package main

import (
	"fmt"
	"io"
	"time"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/transcript"
)

// sessionJSON is a session in JSON.
type sessionJSON struct {
	Session           conversation.Key `json:"session"`
	Channel           string           `json:"channel"`
	Place             string           `json:"place"`
	Active            bool             `json:"active"`
	ConversationCount int64            `json:"conversation_count"`
	MessageCount      int64            `json:"message_count"`
	TokenCount        int64            `json:"token_count"`
	WaitingCount      int64            `json:"waiting_count"`
	CreatedAt         time.Time        `json:"created_at"` // UTC, RFC 3339
	UsedAt            time.Time        `json:"used_at"`
}

func newSessionJSON(s catalog.Session) sessionJSON {
	return sessionJSON{
		Session:           s.Key,
		Channel:           s.Key.Channel(),
		Place:             s.Place,
		Active:            s.Active,
		ConversationCount: s.Conversations,
		MessageCount:      s.Messages,
		TokenCount:        s.Tokens,
		WaitingCount:      s.Waiting,
		CreatedAt:         s.CreatedAt.UTC(),
		UsedAt:            s.UsedAt.UTC(),
	}
}

func sessionsJSON(sessions []catalog.Session) []sessionJSON {
	list := []sessionJSON{} // [] when there are none, not null
	for _, s := range sessions {
		list = append(list, newSessionJSON(s))
	}
	return list
}

type sessionWithConversations struct {
	sessionJSON
	Conversations []transcript.Conversation `json:"conversations"`
}

func shownJSON(s catalog.Session, conversations []conversation.Conversation) sessionWithConversations {
	shown := sessionWithConversations{newSessionJSON(s), []transcript.Conversation{}}
	for _, c := range conversations {
		shown.Conversations = append(shown.Conversations, transcript.NewConversation(c))
	}
	return shown
}

func printJSON(out io.Writer, v any) error {
	text, err := transcript.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}
