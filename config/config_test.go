package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const root = "../"

func noEnv(string) string { return "" }

func readProjectFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(root + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// loadText loads a document as a file of its own.
func loadText(t *testing.T, doc string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), DefaultPath)
	write(t, path, doc)
	return Load(path, noEnv)
}

func TestDefaultsWhereThereIsNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := Load("", noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultsAreAllowedThemselves(t *testing.T) {
	c := Default()
	for _, m := range leaves(reflect.ValueOf(&c).Elem(), "") {
		if m.isSecret() || m.isNamed() || m.isIdentity() || m.value.Kind() == reflect.Slice || m.value.Kind() == reflect.Pointer {
			continue
		}
		if _, ok := convert(m, documentedDefault(m)); !ok {
			t.Errorf("%s: the default %v is not allowed: %s", m.path, m.value, m.allowed())
		}
	}
}

// documentedDefault returns the default of a key as a TOML value.
func documentedDefault(m member) any {
	switch {
	case m.value.Type() == durationType:
		return fmt.Sprint(m.value)
	case m.value.CanInt():
		return m.value.Int()
	}
	return m.value.Interface()
}

func TestKeysThatHoldSecretsAreSecret(t *testing.T) {
	name := regexp.MustCompile(`(^|_)(token|key|password|secret)$`)
	for _, m := range leaves(reflect.ValueOf(Default()), "") {
		if name.MatchString(m.name) && !m.isSecret() {
			t.Errorf("%s is no kind:%q", m.path, "secret")
		}
	}
}

// A malformed token is a problem of its key, wherever it is set, and is not shown.
func TestMalformedTelegramTokenIsAProblemOfItsKey(t *testing.T) {
	t.Parallel()
	const isNone = ": found a secret of another form, allowed: a bot token as @BotFather gives it (123456:ABC-DEF)"
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	for name, text := range map[string]string{"config.toml": "[telegram]\nquiet = '1s'\ntoken = 'my-bot'", "token.txt": "my-bot"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Load(file, noEnv)
	if want := file + ":3: telegram.token" + isNone; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := os.WriteFile(file, []byte("[telegram]\nquiet = '1s'\ntoken_file = 'token.txt'"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Load(file, noEnv)
	if want := file + ":3: telegram.token_file" + isNone; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = Load("", func(name string) string { return map[string]string{"TELEGRAM_TOKEN": "my-bot"}[name] })
	if want := "environment: TELEGRAM_TOKEN" + isNone; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTelegramTokenFromTheEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := Load("", func(name string) string { return map[string]string{"TELEGRAM_TOKEN": secret + "\n"}[name] })
	if err != nil || c.Telegram.Token != secret {
		t.Errorf("got %q, %v", c.Telegram.Token, err)
	}
}

// OPENAI_API_KEY is not sent to another server that [llm] names.
func TestOpenAIKeyIsNotTakenForAnotherServer(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, DefaultPath, `llm.base_url = "http://example.com/v1"`)
	c, err := Load("", func(name string) string { return map[string]string{"OPENAI_API_KEY": secret}[name] })
	if err != nil || c.LLM.APIKey != "" {
		t.Errorf("got %q, %v", c.LLM.APIKey, err)
	}
}

func TestConfigNeverPrintsItsSecrets(t *testing.T) {
	c := Default()
	c.Telegram.Token, c.LLM.APIKey = secret, secret
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("configuration", "config", c)
	slog.New(slog.NewTextHandler(&log, nil)).Info("configuration", "config", &c)
	shown := log.String() + fmt.Sprintf("%v %+v %#v %s %v", c, c, c, c, &c)
	if strings.Contains(shown, "SECRET") {
		t.Errorf("a secret is shown: %s", shown)
	}
	if !strings.Contains(shown, `"max_concurrent_runs":256`) {
		t.Errorf("the rest is not shown: %s", shown)
	}
}

// commentedKey matches a line of the example that shows a default. Prose has a space after its "#".
var commentedKey = regexp.MustCompile(`(?m)^#(\S| {4})`)

func TestExampleShowsEveryKeyWithItsDefault(t *testing.T) {
	example := readProjectFile(t, "config.example.toml")
	if c, err := loadText(t, example); err != nil {
		t.Errorf("as it stands: %v", err)
	} else if diff := cmp.Diff(Default(), c, anyFolder); diff != "" {
		t.Errorf("as it stands it changes a default:\n%s", diff)
	}

	doc := commentedKey.ReplaceAllString(example, "$1")
	c, err := loadText(t, doc)
	if err != nil {
		t.Fatalf("with every key uncommented: %v", err)
	}
	unset := unsetByDefault()
	if diff := cmp.Diff(Default(), c, anyFolder, cmpopts.EquateEmpty(), cmp.FilterPath(isPointer, cmp.Ignore())); diff != "" {
		t.Errorf("it shows other defaults (-code +example):\n%s", diff)
	}
	for _, key := range allKeys(reflect.ValueOf(Default()), "") {
		if !isGiven(t, doc, key) {
			t.Errorf("%s is missing", key)
		}
	}
	if got := strings.Count(example, "# Not set by default"); got != len(unset) {
		t.Errorf("%d keys are said not to be set by default, want those of %q", got, unset)
	}
}

// anyFolder ignores the folder of a path, which is that of the configuration file.
var anyFolder = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Database" }, cmp.Transformer("Base", filepath.Base))

func isPointer(p cmp.Path) bool { return p.Last().Type().Kind() == reflect.Pointer }

func isGiven(t *testing.T, doc, key string) bool {
	t.Helper()
	var anything map[string]any
	md, err := toml.Decode(doc, &anything)
	if err != nil {
		t.Fatal(err)
	}
	return md.IsDefined(strings.Split(key, ".")...)
}

// unsetByDefault returns the keys without a default.
func unsetByDefault() []string {
	var unset []string
	for _, m := range leaves(reflect.ValueOf(Default()), "") {
		if m.value.Kind() == reflect.Pointer && m.value.IsNil() {
			unset = append(unset, m.path)
		}
	}
	return unset
}

// allKeys returns the full names of all keys, including those for secret files.
func allKeys(v reflect.Value, path string) []string {
	var all []string
	members := membersOf(v, path)
	for _, m := range members {
		switch {
		case m.isSection():
			all = append(all, allKeys(m.value, m.path)...)
		case m.isSecret():
			all = append(all, m.path, m.path+"_file")
		default:
			all = append(all, m.path)
		}
	}
	return all
}

// documentedKeys returns the rows of the tables of docs/configuration.md: the allowed values and the
// default by full key.
func documentedKeys(doc string) map[string][2]string {
	rows := make(map[string][2]string)
	section := ""
	heading := regexp.MustCompile(`^##+ (?:\[\[?([\w.]+)\])?`)
	row := regexp.MustCompile("^\\| `(\\w+)` \\| (.*?) \\| (.*?) \\| .+ \\|$")
	for _, line := range strings.Split(doc, "\n") {
		if m := heading.FindStringSubmatch(line); m != nil {
			section = m[1]
		}
		if m := row.FindStringSubmatch(line); m != nil {
			rows[strings.TrimPrefix(section+"."+m[1], ".")] = [2]string{m[2], m[3]}
		}
	}
	return rows
}

// documentedLeaves returns all keys. Those of named sections are keys of [SECTION.NAME].
func documentedLeaves() []member {
	var all []member
	for _, m := range leaves(reflect.ValueOf(Default()), "") {
		if m.isListed() {
			all = append(append(all, m), leaves(reflect.New(m.value.Type().Elem()).Elem(), m.path)...)
			continue
		}
		if !m.isNamed() || strings.Contains(m.path, ".") {
			all = append(all, m)
			continue
		}
		section := reflect.New(m.value.Type().Elem())
		section.Interface().(interface{ SetDefaults() }).SetDefaults()
		for _, of := range leaves(section.Elem(), m.path+".NAME") {
			if all = append(all, of); of.isNamed() {
				all = append(all, leaves(reflect.New(of.value.Type().Elem()).Elem(), of.path+".TOOL")...)
			}
		}
	}
	return all
}

func TestDocsDescribeEveryKey(t *testing.T) {
	rows := documentedKeys(readProjectFile(t, "docs/configuration.md"))
	for _, m := range documentedLeaves() {
		row, ok := rows[m.path]
		if m.isIdentity() {
			continue // its keys are names of people
		}
		if !ok {
			t.Errorf("%s is missing", m.path)
			continue
		}
		checkRow(t, m, row[0], row[1])
		delete(rows, m.path)
		if m.isSecret() {
			if _, ok := rows[m.path+"_file"]; !ok {
				t.Errorf("%s_file is missing", m.path)
			}
			delete(rows, m.path+"_file")
		}
	}
	for key := range rows {
		t.Errorf("%s is no key", key)
	}
}

// checkRow compares the docs of a key with the code. The allowed values of durations are not listed, and
// long defaults are described.
func checkRow(t *testing.T, m member, allowed, byDefault string) {
	t.Helper()
	want := strings.Replace(m.allowed(), ` such as "30s", "5m" or "720h"`, "", 1)
	if plain := strings.ReplaceAll(allowed, "`", ""); strings.ReplaceAll(plain, "'", "") != strings.ReplaceAll(want, "'", "") && plain != want+", or empty" {
		t.Errorf("%s: allowed is %q, the code says %q", m.path, allowed, want)
	}
	if want := defaultText(m); byDefault != want && m.path != "agent.system_prompt" {
		t.Errorf("%s: the default is %s, the code says %s", m.path, byDefault, want)
	}
}

// defaultText returns the default of a key as TOML in a code span.
func defaultText(m member) string {
	if m.value.Kind() == reflect.Pointer && m.value.IsNil() {
		return "not set"
	}
	if m.value.Kind() == reflect.Slice && m.value.Len() == 0 {
		return "`[]`"
	}
	if (m.isNamed() || m.isSecrets()) && m.value.Len() == 0 {
		return "`{}`"
	}
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(map[string]any{"x": documentedDefault(m)}); err != nil {
		return err.Error()
	}
	return "`" + strings.TrimSpace(strings.TrimPrefix(b.String(), "x = ")) + "`"
}

func TestExamplesInDocsLoad(t *testing.T) {
	doc := readProjectFile(t, "docs/configuration.md")
	examples := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(doc, -1)
	if len(examples) == 0 {
		t.Fatal("no examples")
	}
	for _, example := range examples {
		c, err := loadText(t, secretFile.ReplaceAllString(example[1], "$1 = '123456:a-secret-that-is-long'"))
		if err != nil {
			t.Errorf("%s\n%v", example[1], err)
		}
		if reflect.DeepEqual(c, Default()) {
			t.Errorf("%s\nchanges nothing", example[1])
		}
	}
}

// secretFile matches a line that names a file with a secret, which does not exist in the test.
var secretFile = regexp.MustCompile(`(?m)^(\w+)_file = .*$`)

func TestMessagesInDocsAreTheGateways(t *testing.T) {
	_, err := loadText(t, "\n[log]\nlevle = 'x'\n\n\n\n\n\n\n\n[telegram]\nsend_rate = 'fast'\n\n[agent]\ndrain_timeout = 20\n")
	for _, line := range strings.Split(fmt.Sprint(err), "\n") {
		line = line[strings.Index(line, DefaultPath):]
		if !strings.Contains(readProjectFile(t, "docs/configuration.md"), line+"\n") {
			t.Errorf("the docs lack %s", line)
		}
	}
}
