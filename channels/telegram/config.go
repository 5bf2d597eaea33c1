package telegram

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"parley/channels/access"
	"parley/conversation"
)

// Limits of a bot's messages: https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
const (
	defaultSendRate = 30 // messages a second over all chats
	defaultChatRate = 1  // messages a second in one chat

	maxRate = 1_000_000
)

const defaultAPIURL = "https://api.telegram.org"

// Config is the [telegram] section.
type Config struct {
	Token    string   `toml:"token" kind:"secret" env:"TELEGRAM_TOKEN"` // from @BotFather; the channel is off without one
	APIURL   string   `toml:"api_url" kind:"url"`                       // Bot API server; default "https://api.telegram.org"
	APIFiles string   `toml:"api_files"`                                // folder in which a Bot API server of one's own keeps its files (--local); default none
	Access   string   `toml:"access" oneof:"pairing allowlist open"`    // "pairing", the default, "allowlist" or "open"
	Allow    []string `toml:"allow" kind:"names"`                       // ids of people and groups, @usernames, "*" for everybody; default none
	SendRate float64  `toml:"send_rate" min:"0" max:"1000000"`          // messages a second over all chats; default 30; 0 = no limit
	ChatRate float64  `toml:"chat_rate" min:"0" max:"1000000"`          // messages a second in one chat; default 1, and then 20 a minute in groups; 0 = no limit

	FileOver int `toml:"file_over" min:"0" max:"1000"` // replies of more messages are sent as a file; default 10; 0 = never

	Drafts bool `toml:"drafts"` // whether an answer in a private chat is shown as a draft, with a button that stops it; default false

	Rich bool `toml:"rich"` // whether replies with tables, formulas, headings, lists or code are sent as rich messages; default false

	Ephemeral bool `toml:"ephemeral"` // whether private commands in groups, and their answers, are seen by the asker alone; default false

	Context   int      `toml:"context" min:"0" max:"200"` // messages of a group that are not for the bot, shown to the model with the next one that is; default 0
	FreeChats []string `toml:"free_chats" kind:"chats"`   // ids of groups, and "GROUP/TOPIC", where every message is answered; default none

	Quiet time.Duration `toml:"quiet" min:"0s" max:"10s"` // how long a run waits for further messages that belong together; default 300ms; 0 = it does not wait

	WebhookURL    string `toml:"webhook_url" kind:"url"`       // public address of the gateway, to which Telegram brings the messages; default "", which polls
	WebhookSecret string `toml:"webhook_secret" kind:"secret"` // secret that Telegram sends with each update; default derived from the token
}

// DefaultConfig is the section when nothing is configured.
func DefaultConfig() Config {
	return Config{
		APIURL:   defaultAPIURL,
		Access:   access.Pairing,
		SendRate: defaultSendRate,
		ChatRate: defaultChatRate,
		FileOver: 10,
		Quiet:    300 * time.Millisecond,
	}
}

// tokenForm matches a bot's id and its secret.
var tokenForm = regexp.MustCompile(`^[0-9]+:[A-Za-z0-9_-]+$`)

// The form of a webhook's secret: https://core.telegram.org/bots/api#setwebhook
var secretForm = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

const maxSecret = 256 // characters

// CheckKeys reports secrets of a form that can't work.
func (c Config) CheckKeys(report func(key, found, allowed string)) {
	if c.Token != "" && !c.hasBotToken() {
		report("token", "a secret of another form", "a bot token as @BotFather gives it (123456:ABC-DEF)")
	}
	if !secretForm.MatchString(c.WebhookSecret) || len(c.WebhookSecret) > maxSecret {
		report("webhook_secret", "a secret of another form", fmt.Sprintf("up to %d letters, digits, '-' and '_'", maxSecret))
	}
}

// Check reports the address of a webhook that Telegram's own server does not call.
func (c Config) Check(report func(key, found, allowed string)) {
	if u, err := url.Parse(c.WebhookURL); err == nil && u.Scheme == "http" && c.APIURL == defaultAPIURL {
		report("webhook_url", fmt.Sprintf("%q (string)", u.Redacted()), "an https:// address, the only ones that Telegram's own server brings messages to")
	}
}

// checked returns the section with its defaults filled in, or an error for what
// can't work. The error never holds the token.
func (c Config) checked() (Config, error) {
	if c.APIURL == "" {
		c.APIURL = defaultAPIURL
	}
	c.APIURL = strings.TrimRight(c.APIURL, "/")
	u, err := url.Parse(c.APIURL)
	switch {
	case !c.hasBotToken():
		return c, fmt.Errorf("token: not a bot token as @BotFather gives it (123456:ABC-DEF)")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return c, fmt.Errorf("api_url: not an http or https address")
	case !(c.SendRate >= 0 && c.SendRate <= maxRate): // so that NaN is refused
		return c, fmt.Errorf("send_rate = %v: allowed are 0 to %d", c.SendRate, maxRate)
	case !(c.ChatRate >= 0 && c.ChatRate <= maxRate):
		return c, fmt.Errorf("chat_rate = %v: allowed are 0 to %d", c.ChatRate, maxRate)
	}
	for _, entry := range c.Allow {
		_, err := strconv.ParseInt(entry, 10, 64)
		if err != nil && entry != "*" && !strings.HasPrefix(entry, "@") {
			return c, fmt.Errorf("allow has the entry %q: allowed are numeric ids, @usernames and \"*\"", entry)
		}
	}
	for _, entry := range c.FreeChats {
		if !freeForm.MatchString(entry) {
			return c, fmt.Errorf("free_chats has the entry %q: allowed are ids of groups, such as -1001234567890, and of their topics, such as \"-1001234567890/7\"", entry)
		}
	}
	return c, nil
}

// freeForm matches the id of a group, and that of a topic behind it.
var freeForm = regexp.MustCompile(`^-[0-9]{1,18}(/[0-9]{1,18})?$`)

// hasBotToken reports whether the token has the form of a bot's.
func (c Config) hasBotToken() bool {
	_, err := c.botID()
	return err == nil && tokenForm.MatchString(c.Token)
}

// Account returns the bot that the token belongs to.
func (c Config) Account() conversation.Account {
	id, err := c.botID()
	if err != nil {
		return conversation.Account{Channel: name}
	}
	return conversation.Account{Channel: name, ID: strconv.FormatInt(id, 10)}
}

// botID returns the part of the token that is no secret.
func (c Config) botID() (int64, error) {
	id, _, _ := strings.Cut(c.Token, ":")
	return strconv.ParseInt(id, 10, 64)
}
