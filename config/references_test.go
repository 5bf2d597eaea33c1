package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNamesOfModelsAndAgentsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ doc, want string }{
		{"[models.large]\n[agents.a]\nmodel = 'lagre'\n", `config.toml:3: agents.a.model: found "lagre", which is not there, allowed: one of large`},
		{"[agents.a]\nmodel = 'large'\n", `config.toml:2: agents.a.model: found "large", which is not there, allowed: the name of a section [models.NAME]; there is none`},
		{"[agents.a]\n[[route]]\nagent = 'a'\nchannel = 'web'\n[[route]]\nkey = 'cli:*'\nagent = 'b'\n", `config.toml:7: route[1].agent: found "b", which is not there, allowed: one of a`},
		{"[[route]]\nchannel = 'web'\n", `config.toml:1: route[0].agent: found no agent`},
		{"[agents.a]\n\n[[route]]\nagent = 'a'\n", `config.toml:4: route[0].agent: found a route without a condition`},
		{"[agents.a]\n[[route]]\nagent = 'a'\nchanel = 'web'\n", `config.toml:4: route[0].chanel: found an unknown key (did you mean route[0].channel?)`},
		{"[agents.a]\n[[route]]\nagent = 'a'\nchannel = 'matrix'\n", `config.toml:4: route[0].channel: found "matrix" (string), allowed: "telegram", "discord", "cli", "web" or "api"`},
		{"route = 'a'\n", `config.toml:1: route: found "a" (string), allowed: sections [[route]]`},
		{"[models.default]\nmodel = 'x'\n", `config.toml:1: models.default: found the name "default", allowed: 1 to 64 letters`},
		{"[models.a]\nfallback_models = ['a']\n", `config.toml:2: models.a.fallback_models: found "a", which is this model`},
		{"[models.a]\ninput_price = 1\n", `config.toml:2: models.a.input_price: found a price without the other one, allowed: output_price beside it`},
		{"[agents.a]\nsystem_prompt = 'x'\nsystem_prompt_file = '/dev/null'\n", `config.toml:3: agents.a.system_prompt_file: found both system_prompt and system_prompt_file`},
		{"[agents.a]\nsystem_prompt_file = '/nowhere.md'\n", `config.toml:2: agents.a.system_prompt_file: found "/nowhere.md", which can't be read`},
	} {
		if _, err := loadText(t, c.doc); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v\nwant %s", c.doc, err, c.want)
		}
	}
}

func TestModelsAndAgentsAreRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"prompt.md": "You are a pirate.", "config.toml": `
[llm]
fallback_models = ["large", "another-of-the-server"]
[models.large]
base_url = "https://models.example/v1"
api_key = "a-key-of-the-large-one"
allow = ["telegram:42"]
[agents.pirate]
system_prompt_file = "prompt.md"
model = "large"
[[route]]
agent = "pirate"
chat = -100
[[route]]
agent = "pirate"
person = "anna"
[identity]
anna = ["telegram:42"]
`} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(filepath.Join(folder, "config.toml"), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if c.Routes[0].Chat != "-100" || c.Routes[1].Person != "anna" || c.Agents["pirate"].SystemPromptFile != filepath.Join(folder, "prompt.md") {
		t.Errorf("%+v", c)
	}
	if shown := c.String(); strings.Contains(shown, "a-key-of") || !strings.Contains(shown, "route[1].person") {
		t.Errorf("shown as %s", shown)
	}
	if secrets := c.Secrets(); len(secrets) != 1 || secrets[0] != "a-key-of-the-large-one" {
		t.Errorf("the secrets are %q", secrets)
	}
}
