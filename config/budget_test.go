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

// A misspelt price would make calls free under a cap of costs.
func TestACapOnCostsNeedsThePriceOfEachModel(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"[llm]\nmodel = 'gpt-5-mini'\nprices = { 'gpt-5-mni' = { input = 1, output = 2 } }\n[budget]\ntotal_cost = 5\n": `config.toml:2: llm.model: found a cap on costs, but no price for the model "gpt-5-mini" (is it "gpt-5-mni" of llm.prices?), allowed: a cap on costs where each model has a price: "gpt-5-mini" = { input = 0.25, output = 2.0 } in llm.prices, or 0 for one that costs nothing`,
		"[budget]\nperson_cost = 0.5\n[llm]\nmodel = 'a'\nfallback_models = ['b', 'large']\nprices = { a = { input = 1, output = 2 } }\n[models.large]\nfallback_models = ['c']\n": `config.toml:5: llm.fallback_models: found a cap on costs, but no price for the model "b"` +
			`|config.toml:7: models.large: found a cap on costs, but no price for the model "large"|config.toml:8: models.large.fallback_models: found a cap on costs, but no price for the model "c"`,
		"[budget]\nsession_cost = 1\nperson_tokens = -1\n[models.x]\n":                                                                    `config.toml:3: budget.person_tokens: found -1|config.toml:4: models.x: found a cap on costs`,
		"[llm]\nmodel = 'gpt-5-2026-01-02'\nprices = { 'gpt-5' = { input = 1, output = 2 } }\n[budget]\ntotal_cost = 5\n":                 "",
		"[llm]\nmodel = 'offline'\n[models.local]\ninput_price = 0\noutput_price = 0\n[budget]\ntotal_cost = 5\n":                         "",
		"[llm]\nmodel = 'unpriced'\n[budget]\ntotal_tokens = 5\n":                                                                         "",
		"[llm]\nbase_url = 'http://127.0.0.1:1/v1'\nprices = { 'of-the-server' = { input = 0, output = 0 } }\n[budget]\ntotal_cost = 5\n": "",
	} {
		got := ""
		if _, err := loadText(t, doc); err != nil {
			got = withoutFolders(err)
		}
		wants := strings.Split(want, "|")
		lines := strings.Split(got, "\n")
		if len(lines) != len(wants) {
			t.Errorf("%s\n%s\nwant %s", doc, got, want)
			continue
		}
		for i := range wants {
			if !strings.HasPrefix(lines[i], wants[i]) || (wants[i] == "") != (lines[i] == "") {
				t.Errorf("%s\n%s\nwant %s", doc, lines[i], wants[i])
			}
		}
	}
}
