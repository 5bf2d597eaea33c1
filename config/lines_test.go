package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Each problem names the line on which it is, also in sections that stand in a list.
func TestProblemsInListsOfSectionsNameTheirLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		doc  string
		want []string // beginnings of the lines of the error
	}{
		{"[log]\n\n[[route]]\n", []string{":3: route[0].agent: found no agent"}},
		{"[[route]]\n[[route]] # none\n\n[[ route ]]\n", []string{":1: route[0].agent", ":2: route[1].agent", ":4: route[2].agent"}},
		{"[[route]]\nagent = 'x'\nkey = 'a'\n[log]\nlevel = 'loud'\n[[\"route\"]]\nagent = 'y'\nkey = 'b'\n",
			[]string{`:2: route[0].agent: found "x"`, `:5: log.level`, `:7: route[1].agent: found "y"`}},
		{"[agent]\nsystem_prompt = \"\"\"\n[[route]]\n\"\"\"\n[[route]]\nagent = 'x'\nkey = 'a'\n[[route]]\r\nagent = 'y'\r\nkey = 'b'\r\n",
			[]string{`:6: route[0].agent: found "x"`, `:9: route[1].agent: found "y"`}},
		{"[[route]]\nchanel = 'web'\n[[route]]\n[[route.place]]\nname = 'x'\n",
			[]string{":2: route[0].chanel", ":4: route[1].place"}},
		{"route = [{ agent = 'x' }]\n", []string{":1: route: found a list of 1 values, allowed: sections [[route]]"}},
		{"[mcp.a]\n", []string{":1: mcp.a.command"}},
	} {
		_, err := loadText(t, c.doc)
		got := strings.Split(fmt.Sprint(err), "\n")
		if len(got) != len(c.want) {
			t.Errorf("%s\n%v", c.doc, err)
			continue
		}
		for i, want := range c.want {
			if line := strings.TrimPrefix(got[i], filepath.Dir(got[i])); !strings.HasPrefix(line, "/"+DefaultPath+want) {
				t.Errorf("%s\n got %s\nwant %s", c.doc, line, want)
			}
		}
	}
}

// What can't work is a problem of its key, not of the start.
func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"[mcp.a]\ncommand = '  '":                                            `:2: mcp.a.command: found "  " (only spaces), allowed: a text`,
		"[llm]\nmodel = ' '":                                                 `:2: llm.model: found " " (only spaces), allowed: a text`,
		"[transcription]\nmodel = '\t'":                                      `:2: transcription.model: found "\t" (only spaces), allowed: a text`,
		"[telegram]\nallow = ['@x y']":                                       `:2: telegram.allow[0]: found "@x y" (string), allowed: a list of ids, "@usernames" and "*"`,
		"[telegram]\nallow = ['@a', '@ada/b', '@@ada', '007', '+5']":         `:2: telegram.allow[4]: found "+5" (string), allowed: a list of ids, "@usernames" and "*"`,
		"[telegram]\nfree_chats = ['-100', 'here']":                          `:2: telegram.free_chats[1]: found "here" (string), allowed: a list of ids of groups, and of topics as "GROUP/TOPIC"`,
		"[telegram]\nsend_rate = 2e6":                                        `:2: telegram.send_rate: found 2e+06 (float), allowed: a number from 0 to 1000000`,
		"[telegram]\nwebhook_url = 'https://a.example'\n[http]\nlisten = ''": `:2: telegram.webhook_url: found a webhook without the HTTP server, which takes it, allowed: listen in the section [http], such as "127.0.0.1:8787"`,
		"[discord]\nallow = [-5]":                                            `:2: discord.allow: found "-5", allowed: ids, which are numbers above 0`,
		"[discord]\nguilds = [0]":                                            `:2: discord.guilds: found "0", allowed: ids, which are numbers above 0`,
		"[agents.a]\n[[route]]\nagent = 'a'\nperson = 'ada'":                 `:4: route[0].person: found "ada", which is not there, allowed: an account such as "telegram:42", or a name of the section [identity]`,
		"[agents.a]\n[[route]]\nagent = 'a'\nchannel = 'web'\nchat = 5":      `:5: route[0].chat: found a chat beside channel = "web", which has none, allowed: server and thread for discord, topic for telegram, chat for both`,
		"database = 'mysql://me:hunter2@db/x'":                               `:1: database: found "mysql://me:xxxxx@db/x" (string), allowed: the path of a file, or the URL of a PostgreSQL database such as "postgres://parley@db.example.com/parley"`,
	} {
		if _, err := loadText(t, doc); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", doc, err, want)
		}
	}
	if _, err := loadText(t, "[telegram]\nallow = ['@ada', '@Ada_Lovelace', '@ada.b', '*', 5, '-100']\nfree_chats = [-100, '-100/7']"); err != nil {
		t.Error(err)
	}
}
