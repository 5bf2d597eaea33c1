package conversation

import (
	"strings"
	"time"
)

// Key names a session: the place people talk in, "telegram:chat:42". Its
// first segment is the channel; the rest is opaque to everyone but the
// adapter that minted it.
type Key string

// Channel is the adapter that minted the key: "telegram" of "telegram:chat:42".
func (k Key) Channel() string {
	channel, _, _ := strings.Cut(string(k), ":")
	return channel
}

// Sender is who wrote an inbound message, as the platform names them.
type Sender struct {
	ID   string `json:"id,omitempty"`   // the platform's id, unique within the channel
	Name string `json:"name,omitempty"` // the name shown to others in the chat
}

// Inbound is one message as it arrived from a platform, stored by Accept
// before the platform is told that it was taken.
type Inbound struct {
	ID       int64  // order of arrival, given by the store
	Key      Key    // the session it belongs to
	SourceID string // the platform's id of the message, unique within the channel
	Address  string // where the reply goes; read only by the adapter that wrote it
	Sender   Sender
	Group    bool // several people talk in this place, so the model is told who says what
	Text     string
	At       time.Time // when the platform says it was written
}

// Cursor is how far a channel has read its platform, stored in the same
// transaction as the messages up to it.
type Cursor struct {
	Name  string // "telegram:123456", one for each account
	Value string // for example the next update's offset
}

// Role says who a message is from, in the words of the chat completions API.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// ToolCall is one call that the model asked for, in an assistant message.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON as the model wrote it, which may be broken
}

// Message is one row of a conversation: verbatim, never changed.
type Message struct {
	Seq        int64 // place in the conversation, from 1, without gaps
	Role       Role
	Content    string
	ToolCalls  []ToolCall // assistant: the calls it asked for
	ToolCallID string     // tool: the call it answers
	ToolName   string     // tool: the name of the tool
	Tokens     int        // as counted by the model's tokenizer, framing included
	Sender     Sender     // user: who wrote it
	SourceID   string     // user: the platform's id of the message
	Stopped    bool       // assistant: cut short by /stop
	RunID      int64      // the run that wrote it
	At         time.Time
}

// Delivery is one reply on its way to a platform. It exists from the commit
// that made it until the platform has taken every part of it.
type Delivery struct {
	ID       int64
	Key      Key
	Address  string   // as stored with the inbound that it answers
	Text     string   // markdown
	Sent     []string // the platform's ids of the parts that it has taken
	Attempts int      // tries that failed, over all parts
	At       time.Time
}

// Conversation is one stretch of a session. It is made with the first message
// and never changes its ID.
type Conversation struct {
	ID        string // UUIDv7
	Key       Key
	Title     string
	Active    bool // at most one of a session is
	Messages  int64
	Tokens    int64 // of all its messages
	CreatedAt time.Time
	UpdatedAt time.Time
}
