package config

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPeopleAndTheirAccountsAreRead(t *testing.T) {
	want := Identity{"alice": {"telegram:42", "discord:123456789012345678"}, "bob_2-x": {"telegram:7"}}
	for _, doc := range []string{
		"[identity]\nalice = ['telegram:42', 'discord:123456789012345678']\nbob_2-x = ['telegram:7']",
		"identity.alice = ['telegram:42',\n 'discord:123456789012345678']\nidentity.bob_2-x = ['telegram:7']",
		"identity = { alice = ['telegram:42', 'discord:123456789012345678'], bob_2-x = ['telegram:7'] }",
	} {
		c, err := loadText(t, doc)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.Identity); diff != "" {
			t.Errorf("%s\n%s", doc, diff)
		}
	}
}

// A mistyped account would share the private messages of another person, or nothing at all, so that
// accounts are checked.
func TestProblemsWithAccountsSayWhatIsAllowed(t *testing.T) {
	const account = `allowed: "telegram:USER" or "discord:USER", with the person's id there, which is a number`
	for _, c := range []struct{ doc, want string }{
		{"identity = 'alice'", `identity: found "alice" (string), allowed: a section [identity]`},
		{"\n[identity]\nalice = 'telegram:42'", `identity.alice: found "telegram:42" (string), allowed: a list of accounts such as ["telegram:42", "discord:99"]`},
		{"[identity.alice]\nx = 1", `identity.alice: found a section, allowed: a list of accounts such as ["telegram:42", "discord:99"]`},
		{"identity.alice = ['cli:default']", `identity.alice[0]: found "cli:default" (string), ` + account},
		{"identity.alice = ['telegram:7', 'telegram:@ada']", `identity.alice[1]: found "telegram:@ada" (string), ` + account},
		{"identity.alice = ['telegram:-100']", `identity.alice[0]: found "telegram:-100" (string), ` + account},
		{"identity.alice = ['telegram:042']", `identity.alice[0]: found "telegram:042" (string), ` + account},
		{"identity.alice = ['telegram:+42']", `identity.alice[0]: found "telegram:+42" (string), ` + account},
		{"identity.alice = ['telegram:0']", `identity.alice[0]: found "telegram:0" (string), ` + account},
		{"identity.alice = ['telegram:chat:42']", `identity.alice[0]: found "telegram:chat:42" (string), ` + account},
		{"identity.alice = ['telegram']", `identity.alice[0]: found "telegram" (string), ` + account},
		{"identity.alice = [42]", `identity.alice[0]: found 42 (integer), ` + account},
		{"identity.Alice = ['telegram:42']", `identity.Alice: found the name "Alice", allowed: a name of 1 to 64 lower-case letters, digits, '-' or '_'`},
		{"identity.'a:b' = ['telegram:42']", `identity."a:b": found the name "a:b", allowed: a name of 1 to 64 lower-case letters, digits, '-' or '_'`},
		{"[identity]\nzoe = ['telegram:42']\nalice = ['discord:1', 'telegram:42']",
			`identity.alice[1]: found "telegram:42", which is identity.zoe[0] (line 2) already, allowed: each account once`},
		{"[identity]\nalice = ['telegram:42', 'telegram:42']",
			`identity.alice[1]: found "telegram:42", which is identity.alice[0] (line 2) already, allowed: each account once`},
		{"[conversation]\nscope = 'person'", `conversation.scope: found "person" (string), allowed: "place" or "user"`},
	} {
		_, err := loadText(t, c.doc)
		problems, _ := err.(Problems)
		if len(problems) != 1 {
			t.Errorf("%s: %v", c.doc, err)
			continue
		}
		p := problems[0]
		p.File = ""
		if got := p.Error(); got != fmt.Sprintf(":%d: %s", p.Line, c.want) || p.Line == 0 {
			t.Errorf("%s:\n got %s\nwant %s", c.doc, got, c.want)
		}
	}
}
