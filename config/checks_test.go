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
