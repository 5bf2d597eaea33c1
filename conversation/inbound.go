package conversation

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/media"
	"parley/conversation/metadata"
	"parley/conversation/schedule"
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
	Preview     string // the platform's id of the message that shows the answer so far, of a run that begins with this one; as stored when this was read
	Account     string // the platform's id of the bot that it came to; "" where the channel has none, or it is not known
	SourceID    string // the platform's id of the message, unique within the account
	Address     string // where the reply goes; read only by the adapter that wrote it
	Sender      Sender
	Group       bool   // several people talk in this place, so the model is told who says what; else it is a private chat of Sender
	Place       string // what people call the place, for the model and the operator; "" = as before
	Title       string // title of a conversation that begins with this message; "" = its first line
	Text        string
	Attachments []media.Attachment
	At          time.Time // when the platform says it was written; zero = it does not say, and Accept fills in the present
	Keep        bool      // the reply is not sent but kept, see package kept
	Replaces    MessageID // the earlier message whose turn this message replaces, as an edit; zero = none. See Snapshot.Replacing
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

	// LeftOut reports that the model is not shown the message, see the constant. The run that takes it sets this.
	LeftOut bool

	// Aside reports that the message was not said to the assistant. It is kept as group
	// talk, apart from the conversation, and nothing answers it.
	Aside bool

	// Talk is which group talk the message takes along, as Overheard. A command takes
	// none.
	Talk Talk

	// Overheard is what was said in the place before this message and not to the bot.
	// The model is shown it in the run that answers the message; it is no part of the
	// conversation, and is deleted when the run is stored. Accept sets it where Talk asks
	// for it. "" = nothing.
	Overheard string

	// Reminder is the time of a reminder that this message is for. Accept moves the
	// reminder on in the same transaction, and stores nothing if it is not due at that time
	// any more. The zero value is none.
	Reminder schedule.Occurrence

	// Revision counts the edits of the message while it waited, as Begin read it.
	Revision int

	// DeferredSince is since when the message waits because its model could not be called, and DeferredFor names that model,
	// as Begin read them; zero = it does not. See package deferred.
	DeferredSince time.Time
	DeferredFor   string
}

// Fingerprint returns a hash by which a repeated request is told from another one with the
// same SourceID: of the session, the text, the files, wherever these are, and the options.
func (in Inbound) Fingerprint() (string, error) {
	asked := struct {
		Key   Key
		Text  string
		Files []media.Attachment

		Options *RunOptions `json:",omitempty"`
	}{Key: in.Key, Text: db.Text(in.Text), Files: make([]media.Attachment, len(in.Attachments))}
	if !in.Options.IsZero() {
		asked.Options = &in.Options
	}
	for i, file := range in.Attachments {
		file.Ref = ""
		asked.Files[i] = file
	}
	return hashOf(asked)
}

// Talk names group talk. The zero value is none.
type Talk struct {
	Most int // most messages that are taken along; 0 = none
	Of   Key // the place in which they were said; "" = where the message was written
}

// RunOptions is what the sender of a message asks of the run that answers it. The zero
// value asks for nothing.
type RunOptions struct {
	Instructions string          `json:"instructions,omitempty"` // the model is told in this run alone
	MaxTokens    int             `json:"max_tokens,omitempty"`   // most tokens of the answer; 0 = as configured
	Parameters   json.RawMessage `json:"parameters,omitempty"`   // parameters of the model's calls, as a JSON object of llm.Options; nil = as configured
	Metadata     metadata.Object `json:"metadata,omitempty"`     // notes of the program for the message and its answer
	Model        string          `json:"model,omitempty"`        // model that answers in this run; "" = the model of the session
	Reminder     int             `json:"reminder,omitempty"`     // number of the reminder that the message gives; 0 = none
}

// IsZero reports whether nothing is asked for.
func (o RunOptions) IsZero() bool {
	return o.Instructions == "" && o.MaxTokens == 0 && len(o.Parameters) == 0 && o.Metadata == "" && o.Model == "" && o.Reminder == 0
}

// MessageID names a message of a conversation.
type MessageID struct {
	Conversation string // ID
	Seq          int64
}

// Channel returns the adapter by which the message came, and by which its reply goes.
func (in Inbound) Channel() string { return cmp.Or(in.Origin, in.Key).Channel() }

// Names returns what lists of people and places in the configuration may call the message: the
// key of its session, that of the place where it was written, and its sender as CHANNEL:ID.
func (in Inbound) Names() []string {
	names := []string{string(in.Key), string(cmp.Or(in.Origin, in.Key))}
	if in.Sender.ID != "" {
		names = append(names, in.Channel()+":"+in.Sender.ID)
	}
	return names
}

// Destination returns where the reply to the message goes, of a run that begins with it.
func (in Inbound) Destination() Destination {
	return Destination{Channel: in.Channel(), Account: in.Account, Address: in.Address, Run: in.ID}
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
