package discord

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/channels/access"
	"parley/conversation"
)

const defaultAPIURL = "https://discord.com"

// Config is the [discord] section.
type Config struct {
	Token         string        `toml:"token" kind:"secret" env:"DISCORD_TOKEN"` // of the bot, from the Developer Portal; the channel is off without one
	APIURL        string        `toml:"api_url" kind:"url"`                      // server that stands for Discord's hosts; default "https://discord.com"
	Access        string        `toml:"access" oneof:"pairing allowlist open"`   // "pairing", the default, "allowlist" or "open"
	Allow         []string      `toml:"allow" kind:"names"`                      // ids of users, roles, servers and channels, @usernames, "*" for everybody; default nobody
	AllowBots     []string      `toml:"allow_bots" kind:"ids"`                   // ids of other bots and webhooks that are answered; default none
	FreeChannels  []string      `toml:"free_channels" kind:"ids"`                // ids of channels where every message is answered; default none
	AutoThread    bool          `toml:"auto_thread"`                             // a mention in a channel opens a thread; default false
	ThreadContext bool          `toml:"thread_context"`                          // a thread's first run is shown the message that it was made from; default false
	Context       int           `toml:"context" min:"0" max:"200"`               // messages of a channel that are not for the bot, shown to the model with the next one that is; default 0
	FileOver      int           `toml:"file_over" min:"0" max:"100"`             // replies of more messages are sent as a file; default 5; 0 = never
	CatchUp       time.Duration `toml:"catch_up" min:"0"`                        // how far back missed messages are looked for; default 24h; 0 = not at all
	Guilds        []string      `toml:"guilds" kind:"ids"`                       // ids of the servers that get the slash commands; default everywhere
	Shards        int           `toml:"shards" min:"0"`                          // shards that the bot is split into, all of which the gateway serves; default 0: as many as Discord recommends
	ShardID       int           `toml:"shard_id" min:"0"`                        // which of shard_count this process is; default 0
	ShardCount    int           `toml:"shard_count" min:"0"`                     // shards that the bot is split into, one of which this process serves; default 0: it serves all
}

// DefaultConfig is the section when nothing is configured.
func DefaultConfig() Config {
	return Config{
		APIURL:   defaultAPIURL,
		Access:   access.Pairing,
		FileOver: 5,
		CatchUp:  24 * time.Hour,
	}
}

// CheckKeys reports ids that nobody and nothing has.
func (c Config) CheckKeys(report func(key, found, allowed string)) {
	for _, list := range c.ids() {
		for _, entry := range list.entries {
			if number(entry) == 0 {
				report(list.key, fmt.Sprintf("%q", entry), "ids, which are numbers above 0")
			}
		}
	}
}

// idList is a key that holds ids.
type idList struct {
	key     string
	entries []string
}

// ids returns the ids of the section.
func (c Config) ids() []idList {
	people := slices.DeleteFunc(slices.Clone(c.Allow), func(entry string) bool { return entry == "*" || strings.HasPrefix(entry, "@") })
	return []idList{{"allow", people}, {"allow_bots", c.AllowBots}, {"free_channels", c.FreeChannels}, {"guilds", c.Guilds}}
}

// Check reports the keys about shards that do not fit together.
func (c Config) Check(report func(key, found, allowed string)) {
	switch {
	case c.Shards > 0 && c.ShardCount > 0:
		report("shard_count", "both shards and shard_count", "one of the two")
	case c.ShardCount == 0 && c.ShardID != 0:
		report("shard_id", fmt.Sprintf("%d without shard_count", c.ShardID), "shard_count beside it")
	case c.ShardCount > 0 && c.ShardID >= c.ShardCount:
		report("shard_id", fmt.Sprint(c.ShardID), fmt.Sprintf("0 to %d, below shard_count", c.ShardCount-1))
	}
}

// checked fills in what is empty and refuses what can't work. The error never
// holds the token.
func (c Config) checked() (Config, error) {
	if c.APIURL == "" {
		c.APIURL = defaultAPIURL
	}
	c.Token = strings.TrimPrefix(c.Token, "Bot ")
	u, err := url.Parse(c.APIURL)
	switch {
	case c.Token == "":
		return c, errors.New("token: none is given")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return c, errors.New("api_url: not an http or https address")
	}
	report := func(key, found, allowed string) { err = fmt.Errorf("%s: found %s, allowed: %s", key, found, allowed) }
	c.CheckKeys(report)
	c.Check(report)
	return c, err
}

// isFree reports whether every message of a place is answered: a channel that is
// listed, or a thread of one.
func (c Config) isFree(p *place) bool {
	return slices.Contains(c.FreeChannels, p.id) || p.parent != "" && p.isThread() && slices.Contains(c.FreeChannels, p.parent)
}

// Account returns the bot of the token. Its id is "" where the token has another form
// than Discord's, as those of other servers may.
func (c Config) Account() conversation.Account {
	return conversation.Account{Channel: name, ID: c.botID()}
}

// botID returns the bot's id, which is the part of the token that is no secret, and ""
// when the token has another form.
func (c Config) botID() string {
	first, _, _ := strings.Cut(strings.TrimPrefix(c.Token, "Bot "), ".")
	id, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(first, "="))
	if err != nil || number(string(id)) == 0 {
		return ""
	}
	return string(id)
}

// number returns the value of a snowflake, 0 when id is none. Snowflakes grow with time:
// https://discord.com/developers/docs/reference#snowflakes
func number(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// epoch is the first millisecond of 2015, from which snowflakes count.
const epoch = 1420070400000

// bornAt returns when a snowflake was made.
func bornAt(id string) time.Time { return time.UnixMilli(int64(number(id)>>22) + epoch) }

// firstAt returns the lowest snowflake of an instant.
func firstAt(t time.Time) uint64 { return uint64(max(0, t.UnixMilli()-epoch)) << 22 }
