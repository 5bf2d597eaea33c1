package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/llm"
)

// sample has a field of every kind that a configuration can have.
type sample struct {
	Database string   `toml:"database" kind:"text"`
	Log      logPart  `toml:"log"`
	Chat     chatPart `toml:"chat"`
	Untagged func()
}

type logPart struct {
	Level string `toml:"level" oneof:"debug info warn"`
}

type chatPart struct {
	Token       string        `toml:"token" kind:"secret" env:"CHAT_TOKEN"`
	APIURL      string        `toml:"api_url" kind:"url"`
	Session     string        `toml:"session" kind:"name"`
	Prompt      string        `toml:"prompt"`
	Allow       []string      `toml:"allow" kind:"names"`
	Models      []string      `toml:"models"`
	SendRate    float64       `toml:"send_rate" min:"0"`
	Temperature *float64      `toml:"temperature" min:"0" max:"2"`
	Rounds      int           `toml:"rounds" min:"1" max:"100"`
	Timeout     time.Duration `toml:"timeout" min:"1s" max:"1h"`
	Typing      bool          `toml:"typing"`
	Tries       int           `toml:"-"`
}

func sampleDefaults() sample {
	return sample{
		Database: "conversations.db",
		Log:      logPart{Level: "info"},
		Chat:     chatPart{APIURL: "https://chat.example", Session: "default", SendRate: 30, Rounds: 8, Timeout: time.Minute, Typing: true},
	}
}

// loadSample loads a document as "config.toml" in a folder with these files, and names problems relative
// to the folder.
func loadSample(t *testing.T, doc string, files, env map[string]string) (sample, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, DefaultPath, doc)
	for name, text := range files {
		write(t, name, text)
	}
	s := sampleDefaults()
	err := load(DefaultPath, &s, func(name string) string { return env[name] }, Origins{})
	return s, err
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEveryKindOfValueIsTaken(t *testing.T) {
	got, err := loadSample(t, `
database = 'other.db'
log.level = "debug"
[ "chat" ]
"token" = "123:abc"
api_url = "http://127.0.0.1:8081/bot"
session = "my-Session_1.0"
prompt = """
Two
lines"""
allow = ["*", 42, "@ada"]
models = ["a",
  "b"] # over two lines
send_rate = 5
temperature = 0.5
rounds = 0x10
timeout = "1m30s"
typing = false
`, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	warm := 0.5
	want := sample{
		Database: "other.db",
		Log:      logPart{Level: "debug"},
		Chat: chatPart{
			Token: "123:abc", APIURL: "http://127.0.0.1:8081/bot", Session: "my-Session_1.0", Prompt: "Two\nlines",
			Allow: []string{"*", "42", "@ada"}, Models: []string{"a", "b"}, SendRate: 5, Temperature: &warm,
			Rounds: 16, Timeout: 90 * time.Second,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNothingConfiguredIsAllDefaults(t *testing.T) {
	t.Chdir(t.TempDir())
	got := sampleDefaults()
	if err := load("", &got, os.Getenv, Origins{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleDefaults(), got); diff != "" {
		t.Error(diff)
	}
}

func TestNamedFileMustBeThere(t *testing.T) {
	t.Chdir(t.TempDir())
	s := sampleDefaults()
	err := load("missing.toml", &s, os.Getenv, Origins{})
	if want := "can't read the configuration missing.toml: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAFileThatIsNoConfigurationIsRefused(t *testing.T) {
	for name, doc := range map[string]string{
		"huge":   strings.Repeat("#\n", maxFile),
		"binary": "SQLite format 3\x00\x10\x00",
		"UTF-16": "\xff\xfed\x00=\x00",
		"random": "\x1b[2J\x9c\xff\xfe\x00",
		"nested": strings.Repeat("a=[", 100),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := loadSample(t, doc, nil, nil); err == nil || !strings.Contains(err.Error(), "config.toml") {
				t.Errorf("got %v, want a refusal that names the file", err)
			}
		})
	}
}

// Each case is a document with one problem, and the line that the operator reads about it.
func TestProblemsSayWhatWasFoundAndWhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{"\n[chat]\nsend_rate = \"fast\"", `config.toml:3: chat.send_rate: found "fast" (string), allowed: a number >= 0`},
		{"chat.send_rate = -1", `config.toml:1: chat.send_rate: found -1 (integer), allowed: a number >= 0`},
		{"chat.send_rate = nan", `config.toml:1: chat.send_rate: found NaN (float), allowed: a number >= 0`},
		{"chat.send_rate = inf", `config.toml:1: chat.send_rate: found +Inf (float), allowed: a number >= 0`},
		{"chat = { rounds = 0 }", `config.toml:1: chat.rounds: found 0 (integer), allowed: a whole number from 1 to 100`},
		{"chat.rounds = 8.0", `config.toml:1: chat.rounds: found 8 (float), allowed: a whole number from 1 to 100`},
		{"chat.temperature = 2.1", `config.toml:1: chat.temperature: found 2.1 (float), allowed: a number from 0 to 2`},
		{"chat.timeout = 30", `config.toml:1: chat.timeout: found 30 (integer), allowed: a duration such as "30s", "5m" or "720h" from 1s to 1h`},
		{`chat.timeout = "30"`, `config.toml:1: chat.timeout: found "30" (string), allowed: a duration such as "30s", "5m" or "720h" from 1s to 1h`},
		{`chat.timeout = "0"`, `config.toml:1: chat.timeout: found "0" (string), allowed: a duration such as "30s", "5m" or "720h" from 1s to 1h`},
		{`log.level = "loud"`, `config.toml:1: log.level: found "loud" (string), allowed: "debug", "info" or "warn"`},
		{`log = "debug"`, `config.toml:1: log: found "debug" (string), allowed: a section [log]`},
		{"[[log]]\nlevel = 'info'", `config.toml:1: log: found a list of sections, allowed: a section [log]`},
		{"[database]\nx = 1", `config.toml:1: database: found a section, allowed: a text that is not empty`},
		{"database = ' '", `config.toml:1: database: found " " (only spaces), allowed: a text that is not empty`},
		{"database = 2026-01-02", `config.toml:1: database: found a date or time, allowed: a text that is not empty`},
		{"chat.typing = 1", `config.toml:1: chat.typing: found 1 (integer), allowed: true or false`},
		{"chat.prompt = []", `config.toml:1: chat.prompt: found a list of 0 values, allowed: a text`},
		{`chat.session = "a b"`, `config.toml:1: chat.session: found "a b" (string), allowed: 1 to 64 letters, digits, '-', '_' or '.'`},
		{`chat.api_url = "ftp://x"`, `config.toml:1: chat.api_url: found "ftp://x" (string), allowed: an http:// or https:// address`},
		{`chat.api_url = "localhost:8081"`, `config.toml:1: chat.api_url: found "localhost:8081" (string), allowed: an http:// or https:// address`},
		{`chat.api_url = "ftp://me:hunter2@x"`, `config.toml:1: chat.api_url: found "ftp://me:xxxxx@x" (string), allowed: an http:// or https:// address`},
		{`chat.allow = "*"`, `config.toml:1: chat.allow: found "*" (string), allowed: a list of ids, "@usernames" and "*"`},
		{"chat.allow = [1,\n 1.5]", `config.toml:1: chat.allow[1]: found 1.5 (float), allowed: a list of ids, "@usernames" and "*"`},
		{`chat.allow = ["ada", "@", ""]`, `config.toml:1: chat.allow[0]: found "ada" (string), allowed: a list of ids, "@usernames" and "*"
config.toml:1: chat.allow[1]: found "@" (string), allowed: a list of ids, "@usernames" and "*"
config.toml:1: chat.allow[2]: found "" (string), allowed: a list of ids, "@usernames" and "*"`},
		{"chat.models = [1]", `config.toml:1: chat.models[0]: found 1 (integer), allowed: a list of texts that are not empty`},
		{"chat.models = [{a=1}]", `config.toml:1: chat.models[0]: found a section, allowed: a list of texts that are not empty`},
		{"[log]\nlvel = 'info'", `config.toml:2: log.lvel: found an unknown key (did you mean log.level?), allowed: level`},
		{"[log]\nLevel = 'info'", `config.toml:2: log.Level: found an unknown key (did you mean log.level?), allowed: level`},
		{"[log]\ndatabase = 'x'", `config.toml:2: log.database: found an unknown key (did you mean database?), allowed: level`},
		{"[chta]\nx = 1\ny = 2", `config.toml:1: chta: found an unknown section (did you mean chat?), allowed: database, log, chat`},
		{"\n[mail.smtp]\nhost = 'x'", `config.toml:2: mail: found an unknown section, allowed: database, log, chat`},
		{`"a b\n" = 1`, `config.toml:1: "a b\n": found an unknown key, allowed: database, log, chat`},
	} {
		_, err := loadSample(t, c.doc, nil, nil)
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.doc, got, c.want)
		}
	}
}

func TestAllProblemsAtOnceSortedByLine(t *testing.T) {
	_, err := loadSample(t, `databse = "x"
chat.prompt = """
a
b""" # the next line is the fifth
chat.rounds = "many"
chat.models = [
  "a",
  1,
]
"chat".timeout = "soon"
log = { level = "loud", file = 'x' }
`, nil, map[string]string{"CHAT_TOKEN": "two\nlines"})
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%d %s", p.Line, p.Key))
	}
	want := []string{"0 CHAT_TOKEN", "1 databse", "5 chat.rounds", "6 chat.models[1]", "10 chat.timeout", "11 log.file", "11 log.level"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestKeyWithAProblemKeepsItsDefault(t *testing.T) {
	got, err := loadSample(t, "chat.rounds = 1000\nchat.send_rate = 1", nil, nil)
	if err == nil || got.Chat.Rounds != 8 || got.Chat.SendRate != 1 {
		t.Errorf("got %+v, %v", got.Chat, err)
	}
}

func TestLinesOfKeysAfterLongValues(t *testing.T) {
	for name, before := range map[string]string{
		"multi-line string":  "chat.prompt = \"\"\"\n[log]\nlevel = 'x'\n\"\"\"\n",
		"multi-line literal": "chat.prompt = '''\nx = \"\"\"\n'''\n",
		"list":               "chat.models = [ # ]\n 'a]',\n\n]\n",
		"carriage returns":   "# a\r\n\r\n# b\r\n",
		"byte order mark":    "\ufeff# a\n#b\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadSample(t, before+"chat.rounds = 'x'\n", nil, nil)
			if want := fmt.Sprintf("config.toml:%d: chat.rounds", strings.Count(before, "\n")+1); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestLineOfALongValueIsItsFirst(t *testing.T) {
	for _, value := range []string{"\"\"\"\na\n\"\"\"", "'''\na\n'''", "[\n1,\n2]", "\"\"\"a\nb\"\"\""} {
		_, err := loadSample(t, "\nchat.typing = "+value, nil, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "config.toml:2: chat.typing") {
			t.Errorf("%q: got %v", value, err)
		}
	}
}

func TestSyntaxErrorsSayWhereAndWhat(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{"\nlog.level = debug", `config.toml:2: column 13: log.level: found a value without quotes, allowed: text in quotes: key = "text"`},
		{"database =\n", `config.toml:1: column 11: database: found no value, allowed: key = value`},
		{"database = \"x\nlog = 1", `config.toml:1: column 14: database: found a quote that is not closed on its line, allowed: key = "text", or """ around text of several lines`},
		{"database = '''x\n", `config.toml:1: column 16: database: found a quote that is never closed, allowed: key = "text"`},
		{"database = 'x' y", `config.toml:1: column 15: found more after the value, allowed: text in quotes, then the end of the line or a # comment`},
		{"a = 1\na = 2", `config.toml:2: column 1: a: found a for the second time, allowed: each key and each [section] once`},
		{"[log]\n\n[log]", `config.toml:3: column 2: found log for the second time, allowed: each key and each [section] once`},
		{"a = 99999999999999999999", `config.toml:1: column 5: a: found a number that can't be read, allowed: numbers such as 12 or 0.5, text in quotes`},
		{"log:\n  level: info", `config.toml:1: column 4: found no = after the key, allowed: key = value`},
		{`{"log": {}}`, `config.toml:1: column 1: found no = after the key, allowed: key = value`},
		{"[log]\nlevel 'info'", `config.toml:2: column 7: log: found no = after the key, allowed: key = value`},
		{"[log\na = 1", `config.toml:1: column 5: found a section name that is not closed, allowed: [section]`},
		{"# Gr\xfc\xdfe", `config.toml:1: column 5: found bytes that are no UTF-8, allowed: a text file in UTF-8`},
		{"\xff\xfed\x00=\x00", `config.toml:1: column 1: found bytes that are no UTF-8, allowed: a text file in UTF-8`},
		{"[log]\ra = 1", `config.toml:1: column 5: log: found a carriage return that ends no line, allowed: lines that end with a line feed`},
		{"a = 'in\x00fo'", `config.toml:1: column 7: a: found the control character 0x00, allowed: text without control characters`},
		{`a = "C:\data"`, `config.toml:1: column 6: a: found a backslash that begins no known escape, allowed: 'text' in single quotes, where a backslash is itself`},
	} {
		_, err := loadSample(t, c.doc, nil, nil)
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.doc, got, c.want)
		}
	}
}

const secret = "123456789:AAfakeSECRETfakeSECRET"

func TestSecretComesFromTheFirstPlaceThatHasIt(t *testing.T) {
	files := map[string]string{"token.txt": "\ufefffrom-file\r\n", "empty.txt": "\n"}
	env := map[string]string{"CHAT_TOKEN": "\ufeff from-env \n"}
	for _, c := range []struct{ doc, want string }{
		{`chat.token = "from-key"`, "from-key"},
		{`chat.token_file = "token.txt"`, "from-file"},
		{`chat.token = ""` + "\n" + `chat.token_file = "token.txt"`, "from-file"},
		{`chat.token = "from-key"` + "\n" + `chat.token_file = ""`, "from-key"},
		{``, "from-env"},
		{`chat.token = ""`, "from-env"},
	} {
		got, err := loadSample(t, c.doc, files, env)
		if err != nil || got.Chat.Token != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.doc, got.Chat.Token, err, c.want)
		}
	}
}

func TestSecretFileIsFoundBesideTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "gateway.toml"), `chat.token_file = "token.txt"`)
	write(t, filepath.Join(dir, "token.txt"), secret)
	got := sampleDefaults()
	if err := load(filepath.Join(dir, "gateway.toml"), &got, func(string) string { return "" }, Origins{}); err != nil || got.Chat.Token != secret {
		t.Errorf("got %q, %v", got.Chat.Token, err)
	}
}

func TestProblemsWithSecretsNeverShowThem(t *testing.T) {
	files := map[string]string{"empty.txt": " \n", "huge.txt": strings.Repeat("x", 65<<10), "two.txt": secret + "\nx"}
	for _, c := range []struct{ doc, env, want string }{
		{"chat.token = '" + secret + "'\nchat.token_file = 'two.txt'", "", `config.toml:2: chat.token_file: found both token (line 1) and token_file, allowed: one of the two`},
		{"chat.token = 123456789", "", `config.toml:1: chat.token: found a value that is not a text, allowed: text in quotes: "..."`},
		{"chat.token = '" + secret + " x'", "", `config.toml:1: chat.token: found a secret with a space in it, allowed: one line of text without spaces`},
		{"chat.token = " + secret, "", `config.toml:1: column 14: chat.token: found a value without quotes, allowed: text in quotes: key = "text"`},
		{"chat.token = \"" + secret, "", `config.toml:1: column 46: chat.token: found a quote that is never closed, allowed: key = "text"`},
		{"chat.token_file = '" + secret + "'", "", `config.toml:1: chat.token_file: found the name of a file that does not exist; it is not repeated here, since it may be the secret itself, allowed: the name of a file that holds token and nothing else, or token with the secret itself`},
		{"chat.token_file = '" + strings.Repeat(secret, 20) + "'", "", `config.toml:1: chat.token_file: found the name of a file that can't be read: file name too long, allowed: the name of a file that holds token and nothing else`},
		{"chat.token_file = 'secrets/" + secret + "'", "", `config.toml:1: chat.token_file: found the name of a file that does not exist; it is not repeated here, since it may be the secret itself, allowed: the name of a file that holds token and nothing else, or token with the secret itself`},
		{"chat.token_file = 'bot-token.txt'", "", `config.toml:1: chat.token_file: found HERE/bot-token.txt, which does not exist, allowed: the name of a file that holds token and nothing else; make that file, or correct the name, which is relative to the folder of the configuration file`},
		{"chat.token_file = '/Nowhere'", "", `config.toml:1: chat.token_file: found /Nowhere, which does not exist, allowed: the name of a file that holds token and nothing else; make that file, or correct the name, which is relative to the folder of the configuration file`},
		{"chat.token_file = '.'", "", `config.toml:1: chat.token_file: found HERE, which can't be read: is a directory, allowed: the name of a file that holds token and nothing else`},
		{"chat.token_file = 'empty.txt'", "", `config.toml:1: chat.token_file: found HERE/empty.txt, which is empty, allowed: the name of a file that holds token and nothing else`},
		{"chat.token_file = 'huge.txt'", "", `config.toml:1: chat.token_file: found HERE/huge.txt, which is larger than 64 KiB, allowed: the name of a file that holds token and nothing else`},
		{"chat.token_file = 'two.txt'", "", `config.toml:1: chat.token_file: found a secret with a line break in it, allowed: the name of a file that holds token and nothing else`},
		{"", secret + "\x00", `environment: CHAT_TOKEN: found a secret with a character that is not printable ASCII in it, allowed: one line of text without spaces`},
	} {
		_, err := loadSample(t, c.doc, files, map[string]string{"CHAT_TOKEN": c.env})
		here, _ := os.Getwd()
		got := strings.ReplaceAll(fmt.Sprint(err), here, "HERE")
		if got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.doc, got, c.want)
		}
		for _, piece := range []string{"123456789", "SECRET"} {
			if strings.Contains(got, piece) {
				t.Errorf("the problem shows the secret: %s", got)
			}
		}
	}
}

// However a secret's value is mistyped, no error message contains a part of it.
func TestNoSyntaxErrorShowsAValue(t *testing.T) {
	for _, value := range []string{
		secret, "sk-SECRET", "0xSECRET", "+SECRET", "-123456789SECRET", "123456789.SECRET", "12:34:567SECRET", "0123456789", "123456789_",
		"1e123456789", `"SECRET\x"`, `"SECRET\u12SECRET"`, `"SECRET\UZZ"`, `"SECRET`, `'SECRET`, `"""SECRET`, `["SECRET" "SECRET"]`,
		"{ a = SECRET }", "tSECRET", "trueSECRET", "infSECRET", "'SECRET' SECRET", "SECRET = SECRET", "0b123456789", "0o9123456789", `"SECRET` + "\x01",
	} {
		for _, doc := range []string{"[chat]\ntoken = " + value, "chat.token = " + value + "\n", "token = " + value + " \nx = 1"} {
			_, err := loadSample(t, doc, nil, nil)
			if err == nil || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "123456789") {
				t.Errorf("%q: got %v", doc, err)
			}
		}
	}
}

func TestLogsHideSecrets(t *testing.T) {
	s := sampleDefaults()
	s.Chat.Token = secret
	s.Chat.APIURL = "https://me:" + secret + "@chat.example"
	v := reflect.ValueOf(s)
	shown := oneLine(v) + fmt.Sprint(slog.GroupValue(attrs(v)...))
	if strings.Contains(shown, "SECRET") {
		t.Errorf("a secret is shown: %s", shown)
	}
	if !strings.Contains(shown, `chat.token="(hidden)"`) || !strings.Contains(shown, "chat.rounds=8") {
		t.Errorf("got %s", shown)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("a.b = [1, {c = '''\n'''}]\n[[log]]\n")
	f.Fuzz(func(t *testing.T, doc string) {
		root, err := parse(doc)
		if err != nil {
			return
		}
		s := sampleDefaults()
		if err := decode(&s, root, "/nowhere/config.toml", func(string) string { return "" }, Origins{}); err != nil {
			for _, p := range err.(Problems) {
				if p.Line < 1 || p.Line > strings.Count(doc, "\n")+1 {
					t.Errorf("%q: a line that is not there: %v", doc, p)
				}
			}
		}
	})
}

// A misspelt key in a price is an error: it would make a model look free.
func TestPricesAreReadStrictly(t *testing.T) {
	want := llm.Prices{"openai/gpt-5.1": {Input: 1.25, Output: 10}, "local": {}}
	for _, doc := range []string{
		"[llm.prices]\n'openai/gpt-5.1' = { input = 1.25, output = 10 }\nlocal = {}",
		"[llm.prices.'openai/gpt-5.1']\ninput = 1.25\noutput = 10\n[llm.prices.local]",
	} {
		c, err := loadText(t, doc)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.LLM.Prices); diff != "" {
			t.Errorf("%s\n%s", doc, diff)
		}
	}
	for doc, want := range map[string]string{
		"[llm]\nprices = 3":                        `:2: llm.prices: found 3 (integer), allowed: a section [llm.prices."NAME"] for each name`,
		"[llm.prices]\nmini = 3.5":                 `:2: llm.prices.mini: found 3.5 (float), allowed: a section [llm.prices.mini]`,
		"[llm.prices]\nmini = { input = -1 }":      `:2: llm.prices.mini.input: found -1 (integer), allowed: a number >= 0`,
		"[llm.prices]\n'a/b' = { ouput = 1.0 }":    `:2: llm.prices."a/b".ouput: found an unknown key (did you mean llm.prices."a/b".output?), allowed: input, output, cached`,
		"[llm.prices]\nmini = { input = 'cheap' }": `:2: llm.prices.mini.input: found "cheap" (string), allowed: a number >= 0`,
	} {
		_, err := loadText(t, doc)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", doc, err, want)
		}
	}
}
