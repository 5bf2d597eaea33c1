package config

import (
	"strings"
	"testing"
)

func TestProblemsOfShardsAndTimeZonesNameTheirLines(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"[discord]\nshards = 2\nshard_count = 2\n":   "config.toml:3: discord.shard_count: found both shards and shard_count, allowed: one of the two",
		"[discord]\nshard_id = 1\n":                  "config.toml:2: discord.shard_id: found 1 without shard_count, allowed: shard_count beside it",
		"[discord]\nshard_count = 2\nshard_id = 2\n": "config.toml:3: discord.shard_id: found 2, allowed: 0 to 1, below shard_count",
		"[reminders]\ntimezone = 'Nowhere'\n":        "config.toml:2: reminders.timezone: found \"Nowhere\", allowed: an IANA time zone",
	} {
		if _, err := loadText(t, doc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nlacks %s", doc, err, want)
		}
	}
}

// Somebody who has made several mistakes in a section is told of all of them at once, not of the next one at each start.
func TestProblemOfOneKeyDoesNotHideThoseOfOthers(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string][]string{
		"[budget]\nperson_tokens = -1\ntimezone = 'Mars/Base'\nunlimited = ['anna']\n": {"2: budget.person_tokens", "3: budget.timezone", "4: budget.unlimited"},
		"[http]\nhosts = 'x'\nlisten = '8787'\ntoken = 'short'\n":                      {"2: http.hosts", "3: http.listen", "4: http.token"},
		"[tools]\napprove_timeout = 'soon'\napprovers = ['anna']\n":                    {"2: tools.approve_timeout", "3: tools.approvers"},
		"[web_fetch]\nmax_size = 'big'\nallow_private = ['wiki']\n":                    {"2: web_fetch.max_size", "3: web_fetch.allow_private"},
		"[telegram]\nchat_rate = 'fast'\nwebhook_secret = 'a b'\n":                     {"2: telegram.chat_rate", "3: telegram.webhook_secret"},
	} {
		_, err := loadText(t, doc)
		for _, problem := range want {
			if err == nil || !strings.Contains(err.Error(), "config.toml:"+problem+":") {
				t.Errorf("%s\n%v\nlacks %s", doc, err, problem)
			}
		}
	}
}
