package discordtest

import (
	"encoding/json"
	"time"
)

// User is a person, or a bot.
type User struct {
	ID            string `json:"id"`
	Username      string `json:"username"`
	GlobalName    string `json:"global_name,omitempty"` // the name that is shown
	Discriminator string `json:"discriminator"`
	Bot           bool   `json:"bot,omitempty"`
}

// Mention is how a message names the user.
func (u User) Mention() string { return "<@" + u.ID + ">" }

// Guild is what people call a server.
type Guild struct{ ID, Name string }

// Role is one of a guild.
type Role struct {
	ID, Guild, Name string

	permissions Permission // beside All, which every role has
}

// Mention is how a message names the role.
func (r Role) Mention() string { return "<@&" + r.ID + ">" }

// Kinds of channels: https://discord.com/developers/docs/resources/channel#channel-object-channel-types
const (
	TextChannel         = 0
	DMChannel           = 1
	VoiceChannel        = 2
	GroupDM             = 3
	CategoryChannel     = 4
	AnnouncementChannel = 5
	AnnouncementThread  = 10
	PublicThread        = 11
	PrivateThread       = 12
	ForumChannel        = 15
)

// Channel is a place to talk in: a channel of a guild, a thread, or a DM.
type Channel struct {
	ID     string
	Guild  string // empty for a DM
	Parent string // of a thread: its channel
	Name   string
	Type   int
}

// IsThread reports whether it is one.
func (c Channel) IsThread() bool {
	return c.Type == AnnouncementThread || c.Type == PublicThread || c.Type == PrivateThread
}

// Kinds of messages: https://discord.com/developers/docs/resources/message#message-object-message-types
const (
	ordinary           = 0
	channelNameChange  = 4
	threadCreated      = 18
	reply              = 19
	chatInputCommand   = 20
	threadStarter      = 21
	suppressEmbedsFlag = 1 << 2
	hasThreadFlag      = 1 << 5
	ephemeralFlag      = 1 << 6
	loadingFlag        = 1 << 7
	silentFlag         = 1 << 12
)

// Message is one that somebody wrote. Those that tests get are copies.
type Message struct {
	ID      string
	Channel string
	Guild   string // empty in a DM
	Author  User
	Type    int
	At      time.Time
	ReplyTo string // message; empty when it is no reply
	Forward string // message; empty when it is no forward
	Nonce   string
	Enforce bool // enforce_nonce was set
	Files   []File
	Flags   int
	Deleted bool
	// Interaction is the one that the message answers, if any, and Asker who
	// used it.
	Interaction string
	Asker       string
	Embeds      json.RawMessage
	Components  json.RawMessage

	Version            // as it is now
	Versions []Version // all, the present one last

	thread string // made from it
}

// Version is a message as it was sent or edited.
type Version struct {
	Content string
	// AllowedMentions is the field as it was sent; nil when it was absent.
	AllowedMentions json.RawMessage
	// Pinged is who would have been notified, and is computed as Discord does.
	Pinged Pings
	Raw    json.RawMessage // the request's JSON
	At     time.Time
}

// Ephemeral reports whether only the asker sees it.
func (m Message) Ephemeral() bool { return m.Flags&ephemeralFlag != 0 }

// Pings are those whom a message notifies.
type Pings struct {
	Everyone    bool
	Users       []string
	Roles       []string
	RepliedUser bool // the author of the message replied to
}

// Nobody reports whether nobody is notified.
func (p Pings) Nobody() bool {
	return !p.Everyone && len(p.Users) == 0 && len(p.Roles) == 0 && !p.RepliedUser
}

// File is an attachment.
type File struct {
	Name        string
	ContentType string // default by the name
	Data        []byte
	URL         string // on Discord's CDN; set when the message is taken
	// ClaimedSize is what messages say of its size in bytes; 0 is the truth.
	ClaimedSize int
	// Verdict is given to every download of it. For the next n downloads of
	// whatever file use Fail("GET /attachments", ...).
	Verdict Verdict
	// Stall, if it is not nil, holds every download behind its first half until it is
	// closed.
	Stall <-chan struct{}
	id    string
}

// Call is one request, whatever the server answered to it.
type Call struct {
	Route string // such as "PATCH /channels/{channel}"
	Path  string // below /api/v9
	Query string
	Body  json.RawMessage
}

// Counts are totals since the start.
type Counts struct {
	Connections int // websockets that were opened
	Identifies  int // sessions begun
	Resumes     int // sessions resumed
	Rejected    int // RESUMEs answered with INVALID_SESSION
	Heartbeats  int
	Limited     int // requests answered with 429
	Nonced      int // messages not created because of their nonce
}
