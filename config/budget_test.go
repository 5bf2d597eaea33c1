package config

import (
	"strings"
	"testing"
)

func TestProblemsOfBudgetsNameTheirLines(t *testing.T) {
	t.Parallel()
	for doc, wants := range map[string][]string{
		"[budget]\nperson_tokens = -1\ntotal_cost = 'much'\nmessages_per_minute = 1.5\n": {
			"config.toml:2: budget.person_tokens: found -1",
			"config.toml:3: budget.total_cost: found \"much\"",
			"config.toml:4: budget.messages_per_minute: found 1.5",
		},
		"[budget]\ntimezone = 'Europe/Nowhere'\nunlimited = ['ann', 'telegram:42']\n": {
			"config.toml:2: budget.timezone: found \"Europe/Nowhere\", allowed: an IANA time zone such as \"Europe/Berlin\", or empty",
			"config.toml:3: budget.unlimited: found \"ann\", allowed: accounts such as \"telegram:42\"",
		},
	} {
		_, err := loadText(t, doc)
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s\n%v\nlacks %s", doc, err, want)
			}
		}
	}
}
