package conversation

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"parley/conversation/state"
	"parley/conversation/steps"
)

// Key names a session: the place people talk in, "telegram:chat:42". Its
// first segment is the channel; the rest is opaque to everyone but the
// adapter that minted it.
type Key string

// Channel returns the adapter that minted the key: "telegram" of "telegram:chat:42".
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
	ID          int64  // order of arrival, given by the store
	Key         Key    // the session it belongs to
	Origin      Key    // the place it was written in, as its adapter names that; "" = Key, which Accept fills in
	Account     string // the platform's id of the bot that it came to; "" where the channel has none, or it is not known
	SourceID    string // the platform's id of the message, unique within the account
	Address     string // where the reply goes; read only by the adapter that wrote it
	Sender      Sender
	Group       bool   // several people talk in this place, so the model is told who says what; else it is a private chat of Sender
	Place       string // what people call the place, for the model and the operator; "" = as before
	Title       string // of a conversation that begins with this message; "" = its first line
	Text        string
	Attachments []Attachment
	At          time.Time // when the platform says it was written; zero = it does not say, and Accept fills in the present
	Keep        bool      // the reply is not sent: it is kept for whoever asks, see Answer and Notices
	Replaces    MessageID // the message whose turn this one replaces, as an edit; zero = none. See Snapshot.Replacing
	Options     RunOptions

	// NeverCommand says that the text is never a command, whatever it reads like:
	// the sender did not write it for the assistant, as where it was forwarded or
	// comes from another bot.
	NeverCommand bool

	// Album is the platform's id of messages that were sent as one, such as several
	// pictures; "" = the message stands alone. What follows one another of an album is
	// one message for the model.
	Album string

	// Quiet is how long the run waits after this message for more that belong to it;
	// 0 = it begins at once.
	Quiet time.Duration

	// Joins is for how long after the beginning of a run this message may still be
	// taken along: the run begins again, unless it has something to show. It is not
	// stored; 0 = the message waits for the next run.
	Joins time.Duration

	// Overheard is what was said in the place before this message and not to the bot.
	// The model is shown it in the run that answers the message; it is no part of the
	// conversation, and is deleted when the run is stored. "" = nothing.
	Overheard string

	revision int // edits while it waited, as read by Begin
}

// RunOptions is what the sender of a message asks of the run that answers it. The zero
// value asks for nothing.
type RunOptions struct {
	Instructions string          `json:"instructions,omitempty"` // the model is told in this run alone
	MaxTokens    int             `json:"max_tokens,omitempty"`   // of the answer; 0 = as configured
	Parameters   json.RawMessage `json:"parameters,omitempty"`   // of the model's calls, as a JSON object of llm.Options; nil = as configured
	Metadata     Metadata        `json:"metadata,omitempty"`     // of the message, and of the answer to it
}

// IsZero reports whether nothing is asked for.
func (o RunOptions) IsZero() bool {
	return o.Instructions == "" && o.MaxTokens == 0 && len(o.Parameters) == 0 && o.Metadata == ""
}

// MessageID names a message of a conversation.
type MessageID struct {
	Conversation string // ID
	Seq          int64
}

// Channel returns the adapter by which the message came, and by which its reply goes.
func (in Inbound) Channel() string { return cmp.Or(in.Origin, in.Key).Channel() }

// Destination returns where the reply to the message goes.
func (in Inbound) Destination() Destination { return Destination{in.Channel(), in.Account, in.Address} }

// Destination is where a reply goes.
type Destination struct {
	Channel string
	Account string // the platform's id of the bot that sends it, as of the inbound
	Address string // read only by the adapter that wrote it
}

// Attachment is a file that came with a message. Its bytes stay with the
// platform until a run fetches them.
type Attachment struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type,omitempty"` // as the platform says, "image/png"
	Size      int64  `json:"size,omitempty"`       // bytes, as the platform says; 0 = not said
	Ref       string `json:"ref"`                  // where it is; read only by the adapter that wrote it
}

// IsImageType reports whether models and browsers show files of a media type as
// pictures. None of these types can hold scripts.
// https://platform.openai.com/docs/guides/images-vision#image-input-requirements
func IsImageType(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/webp", "image/gif":
		return true
	}
	return false
}

// Image is a picture in a user message.
type Image struct {
	ID        int64  `json:"id,omitempty"` // of the kept file; 0 while it is not stored, and for pictures of earlier versions
	Name      string `json:"name"`
	MediaType string `json:"media_type"` // see IsImageType
	Size      int    `json:"size"`       // bytes
	Data      []byte `json:"-"`          // nil when read with a message: Store.ImageData has it

	message int64 // row id, 0 while it is not stored
	n       int
}

// File is a file in a user message that is no picture, or could not be kept. The
// message's content has lines about it, for the model and for search: its name, and
// the text of a file that was read.
type File struct {
	ID        int64  `json:"id,omitempty"` // of the kept file; 0 = it is not kept, as in messages of earlier versions
	Name      string `json:"name"`
	MediaType string `json:"media_type,omitempty"` // as the platform said
	Size      int64  `json:"size,omitempty"`       // bytes, as the platform said; 0 = not said
	Lines     Extent `json:"lines"`                // the lines about the file, in the content
	Body      Extent `json:"body,omitzero"`        // of these, the text of the file; zero if it was not read
	Problem   string `json:"problem,omitempty"`    // why it could not be kept or read, in words; "" = it could
	Data      []byte `json:"-"`                    // in records of an archive, else nil

	Source *FileSource `json:"-"` // from where it will be fetched again; nil = it is kept, or there is no other attempt
}

// FileSource says from where a file that could not be fetched is fetched again.
type FileSource struct {
	Channel    string     `json:"channel"` // that it came by
	Attachment Attachment `json:"attachment"`

	Attempts int       `json:"-"` // that failed
	Next     time.Time `json:"-"` // when it is fetched again, at the earliest
}

// Extent is a part of a text, as offsets in bytes: from From, up to but not
// including To.
type Extent struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Role says who a message is from, in the words of the chat completions API.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleSystem    Role = "system" // internal: what a program appended is told in every run, a hint in its own run alone
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
	Images     []Image    // user: shown to a model that sees
	Files      []File     `json:",omitempty"` // user: the other files, in the order of their lines in Content
	ToolCalls  []ToolCall // assistant: the calls it asked for
	ToolCallID string     // tool: the call it answers
	ToolName   string     // tool: the name of the tool
	Tokens     int        // as counted by the model's tokenizer, framing included
	Sender     Sender     // user: who wrote it
	SourceID   string     // user: the platform's id of the message
	Stopped    bool       // assistant: cut short by /stop
	Failed     bool       `json:",omitempty"` // tool: the call failed, and Content says how

	// FinishReason says why an assistant's message is not whole. It is no part of
	// the fingerprint of what is appended, which has none.
	FinishReason steps.FinishReason `json:",omitempty"`

	// State says as stored why the message is not an ordinary one: "stopped",
	// "replaced" or "undone"; "" if it is.
	State string `json:"-"`

	Internal bool     // kept in the archive and no part of the talk: neither people nor the model are shown it
	Metadata Metadata // of the program that appended it
	RunID    int64    // the run that wrote it, 0 for none
	At       time.Time
}

// StartsTurn reports whether a turn begins with the message, where previous stands before
// it or is nil: a user message that no user message precedes.
func (m *Message) StartsTurn(previous *Message) bool {
	return m.Role == RoleUser && (previous == nil || previous.Role != RoleUser)
}

// Hidden reports whether the message is left out where people read a conversation.
func (m *Message) Hidden() bool {
	return m.Internal || m.State != "" && m.State != stateStopped
}

// Delivery is one reply on its way to a platform. It exists from the commit
// that made it until the platform has taken every part of it.
type Delivery struct {
	ID       int64
	Key      Key
	Channel  string   // the adapter that sends it; "" = the one that the run's first inbound came by, which Commit fills in
	Account  string   // the platform's id of the bot that sends it, as of the inbound; filled in with Channel
	Address  string   // as stored with the inbound that it answers
	Text     string   // markdown
	Actions  []Action // what to offer below the text, where the platform has buttons
	Sent     []string // the platform's ids of the parts that it has taken
	Attempts int      // tries that failed, over all parts
	Reason   string   // why the latest try failed, for the operator, without secrets; "" when none did
	At       time.Time
	HeldAt   time.Time // since when it is set aside, so that later ones of its session go on; zero while it is not

	Keep bool // it is not sent: it is kept for whoever asks, as its inbound says

	Transcript *Transcript // goes along as a file; nil = none
}

// Transcript is a conversation as a file that goes along with a reply. It names
// the messages and does not hold them: its bytes are made when it is sent.
type Transcript struct {
	Name         string `json:"name"`         // of the file, without a folder
	Conversation string `json:"conversation"` // ID
	Format       string `json:"format"`       // as the package transcript names it
	From         int64  `json:"from"`         // seq of the first message
	Through      int64  `json:"through"`      // seq of the last
}

// Action is a command that a person may give by a button.
type Action struct {
	Label   string `json:"label"`   // "Older"
	Command string `json:"command"` // as it would be written: "/history 5 2"
}

// Conversation is one stretch of a session. It is made with the first message
// and never changes its ID.
type Conversation struct {
	ID        string // UUIDv7
	Key       Key
	Title     string
	Active    bool        // at most one of a session is
	Messages  int64       // all that are stored, internal ones among them
	Tokens    int64       // of all its messages
	State     state.State // what of it the model is always told
	Window    Window
	CreatedAt time.Time
	UpdatedAt time.Time
	Rested    time.Duration // of a fresh one that is not stored: how long the one before it has rested, see Expire; 0 = that did not end by rest
	Filled    int64         // likewise: how many messages the one before it had, which were too many for another; 0 = that did not end so

	row     int64 // its row id, 0 while it is not stored
	session int64 // its session's row id, 0 while that is not known
}

// Succeeds reports whether the conversation is a fresh one that is not stored and
// follows one that is over, see Expire.
func (c Conversation) Succeeds() bool { return c.Rested > 0 || c.Filled > 0 }

// Summary stands for the beginning of a conversation in the window. Package summary stores them.
type Summary struct {
	Through int64 // seq of the last message that it covers; 0 = there is no summary
	Content string
	Tokens  int
	At      time.Time
}

// Account is a channel as one bot of its platform serves it. Bots of a platform
// may number their messages alike, so a message is known by channel, account and
// source id, and what came to one bot is answered by that bot alone.
type Account struct {
	Channel string
	ID      string // the platform's id of the bot, "7000001"; "" where the channel has no bots, or the id is not known
}

// String returns the channel and the bot, "telegram:7000001", or the channel alone.
func (a Account) String() string {
	if a.ID == "" {
		return a.Channel
	}
	return a.Channel + ":" + a.ID
}

// Serves reports whether a process that serves the account works what came to
// another: the same one, or one of the channel whose id, or that of a, is not
// known.
func (a Account) Serves(other Account) bool {
	return a.Channel == other.Channel && (a.ID == "" || other.ID == "" || a.ID == other.ID)
}

// ofAccount is Serves as a condition on the column account, where the name of a
// parameter stands for the id of the one that serves.
func ofAccount(column, parameter string) string {
	return `(` + parameter + ` = '' OR ` + column + ` = '' OR ` + column + ` = ` + parameter + `)`
}

// servedBy is the condition that what the table has came to one of the accounts,
// with what stands for its question marks; none where none are named. Its plus
// is that of byAccount.
func servedBy(table string, accounts []Account) (condition string, args []any) {
	if len(accounts) == 0 {
		return "", nil
	}
	var each []string
	for _, a := range accounts {
		if a.ID == "" {
			each = append(each, `+`+table+`.channel = ?`)
			args = append(args, a.Channel)
			continue
		}
		each = append(each, `+`+table+`.channel = ? AND `+table+`.account IN ('', ?)`)
		args = append(args, a.Channel, a.ID)
	}
	return ` AND (` + strings.Join(each, ` OR `) + `)`, args
}

// Command is a message that acts on its session instead of going to the model:
// "/title Trip to Rome".
type Command struct {
	Name      string // lower case, without the slash
	Arguments string
}

// A path such as /etc/hosts is no command.
var commandForm = regexp.MustCompile(`(?s)^\s*/([A-Za-z][A-Za-z0-9_-]{0,31})(?:\s+(.*))?$`)

// parseCommand reads a text that has the form of a command. Whether a message
// is one depends on more than its text: see Inbound.Command.
func parseCommand(text string) (command Command, ok bool) {
	if trimmed := strings.TrimLeft(text, " \t\r\n"); trimmed == "" || trimmed[0] != '/' {
		return Command{}, false
	}
	found := commandForm.FindStringSubmatch(text)
	if found == nil {
		return Command{}, false
	}
	return Command{Name: strings.ToLower(found[1]), Arguments: strings.TrimSpace(found[2])}, true
}

// Command returns the command that the message gives, if it gives one.
func (in Inbound) Command() (command Command, ok bool) {
	if in.NeverCommand {
		return Command{}, false
	}
	return parseCommand(in.Text)
}
