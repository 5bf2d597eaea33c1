package telegramtest

import "time"

// User is a person, or a bot.
type User struct {
	ID        int64  `json:"id"`
	IsBot     bool   `json:"is_bot"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name,omitempty"`
	Username  string `json:"username,omitempty"`
	ReadsAll  bool   `json:"can_read_all_group_messages,omitempty"` // the bot has no privacy mode
}

// Chat is a place to talk in.
type Chat struct {
	ID        int64  `json:"id"`
	Type      string `json:"type"` // private, group, supergroup
	Title     string `json:"title,omitempty"`
	FirstName string `json:"first_name,omitempty"`
	Username  string `json:"username,omitempty"`
	IsForum   bool   `json:"is_forum,omitempty"`
}

// Private is the chat of one person with the bot.
func Private(u User) Chat {
	return Chat{ID: u.ID, Type: "private", FirstName: u.FirstName, Username: u.Username}
}

// Group is a group of people; its id is negative.
func Group(id int64, title string) Chat { return Chat{ID: id, Type: "supergroup", Title: title} }

// Forum is a group with topics; its id is negative.
func Forum(id int64, title string) Chat {
	return Chat{ID: id, Type: "supergroup", Title: title, IsForum: true}
}

// Said are the ids of a message that Say made.
type Said struct{ MessageID, UpdateID int64 }

// Message is one that the bot sent and the server took.
type Message struct {
	ID       int64
	Chat     int64
	Topic    int64 // 0 outside of topics
	ReplyTo  int64 // 0 when it is no reply
	Text     string
	Entities []Entity
	Source   string // the text as the bot sent it, with markup
	HTML     bool   // parse_mode was HTML
	Rich     string // the rich_message, as JSON; "" for an ordinary message
	Document *Document
	Buttons  []Button
	Edits    int   // how often the bot has changed it
	For      int64 // who alone sees it; 0: everybody. Its ID is that of an ephemeral message then
	At       time.Time
}

// Document is a file in a message, whose text is its caption.
type Document struct {
	Name string
	Data string

	IsPhoto bool   // it is shown as a photo
	Album   string // ID of the album, the same for all photos that came together; "" for a photo by itself
}

// Call is one request, whatever the server answered to it.
type Call struct {
	Method string
	Params map[string]string
}

// Verdict is what the server does with a request. The zero value lets it pass.
type Verdict struct {
	Code        int    // HTTP status and error_code; 0 lets the request pass
	Description string // without the "Bad Request: " that the code implies
	RetryAfter  int    // seconds
	MigrateTo   int64  // chat
	Body        string // answered instead of JSON, such as a proxy's page
	Drop        bool   // the connection is closed without an answer
}

// TooMany is the answer to a sender that must wait, in seconds.
func TooMany(retryAfter int) Verdict { return Verdict{Code: 429, RetryAfter: retryAfter} }

// BadGateway is what a proxy answers while the server behind it is away.
func BadGateway() Verdict {
	return Verdict{Code: 502, Body: "<html><body><h1>502 Bad Gateway</h1></body></html>"}
}

// Drop closes the connection without an answer.
func Drop() Verdict { return Verdict{Drop: true} }

func (v Verdict) passes() bool { return v == Verdict{} }
