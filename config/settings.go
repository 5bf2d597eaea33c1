package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"parley/plaintext"
)

// Origins holds where each key was set, by the key's path.
type Origins map[string]Origin

// Origin is where a key was set.
type Origin struct {
	Text string // "file", "environment HTTP_TOKEN", "the file of token_file"
	File string // path of the file that holds the value; "" if no file does
	Line int    // line of the key in the configuration file; 0 if it is not there

	Unused string // environment variable that has another value, which is not used; "" = none
}

// Place returns where a person finds the value: "config.toml:12", or in words.
func (o Origin) Place() string {
	switch {
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	case o.File != "":
		return o.Text + ", " + o.File
	}
	return cmp.Or(o.Text, fromDefault)
}

// Unused returns a sentence for each variable of the environment whose value is not used, since the
// configuration file has another one.
func (o Origins) Unused() []string {
	var sentences []string
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if origin := o[key]; origin.Unused != "" {
			sentences = append(sentences, fmt.Sprintf("%s of the environment is not used, since %s is set (%s)", origin.Unused, key, origin.Place()))
		}
	}
	return sentences
}

// notUsed notes that the variable of the environment for a key is not used, if it has another value than the key.
func (d *decoder) notUsed(path, variable, value string) {
	if other := clean(d.getenv(variable)); other != "" && other != value {
		origin := d.origins[path]
		origin.Unused = variable
		d.origins[path] = origin
	}
}

const (
	fromFile        = "file"
	fromEnvironment = "environment " // before the name of the variable
	fromDefault     = "default"
)

// Setting is the effective value of a key, without secrets.
type Setting struct {
	Section string // path of the section; "" for keys above all sections
	Key     string
	Value   string // for a secret only "set" or "not set"
	Origin  string // the text of its Origin, or "default"
	Secret  bool
}

// Settings lists every key of the configuration, in the order of its sections.
func (c Config) Settings(origins Origins) []Setting {
	return settingsOf(reflect.ValueOf(c), "", origins)
}

// settingsOf lists the keys of a struct, and behind them those of its sections.
func settingsOf(v reflect.Value, path string, origins Origins) []Setting {
	var list, sections []Setting
	for _, m := range membersOf(v, path) {
		switch {
		case m.isSection():
			sections = append(sections, settingsOf(m.value, m.path, origins)...)
		case m.isNamed() && m.value.Len() > 0:
			for _, name := range sortedKeys(m.value) {
				sections = append(sections, settingsOf(m.value.MapIndex(name), join(m.path, name.String()), origins)...)
			}
		case m.isListed() && m.value.Len() > 0:
			for i := range m.value.Len() {
				sections = append(sections, settingsOf(m.value.Index(i), fmt.Sprintf("%s[%d]", m.path, i), origins)...)
			}
		default:
			origin := cmp.Or(origins[m.path].Text, fromDefault)
			list = append(list, Setting{Section: path, Key: m.name, Value: valueText(m), Origin: origin, Secret: m.isSecret() || m.isSecrets()})
		}
	}
	return append(list, sections...)
}

func sortedKeys(m reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(m.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
}

// valueText returns the value of a key in words.
func valueText(m member) string {
	if m.isSecret() {
		if m.value.String() != "" {
			return "set"
		}
		return "not set"
	}
	if m.isSecrets() && m.value.Len() > 0 {
		return "set: " + strings.Join(names(m.value), ", ")
	}
	if (m.isNamed() || m.isSecrets() || m.isListed()) && m.value.Len() == 0 {
		return "none"
	}
	switch value := shown(m).(type) {
	case nil:
		return "not set"
	case string:
		return fmt.Sprintf("%q", value)
	case time.Duration:
		return durationText(value)
	case []string:
		return fmt.Sprintf("%q", value)
	case Identity:
		return identityText(value)
	default:
		return fmt.Sprint(value)
	}
}

// identityText returns which person has which accounts.
func identityText(people Identity) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(people)) {
		list = append(list, fmt.Sprintf("%s = %q", name, people[name]))
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}

// durationText returns a duration without zero units: 720h, not 720h0m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Secrets returns the secrets that are set, for what must hide them, and addresses with passwords.
func (c Config) Secrets() []string {
	var list []string
	if held, err := os.ReadFile(c.DatabasePasswordFile); err == nil {
		list = append(list, clean(string(held)))
	}
	for _, m := range leaves(reflect.ValueOf(c), "") {
		if m.isSecret() && m.value.String() != "" {
			list = append(list, m.value.String())
		}
		if text := m.value; text.Kind() == reflect.String && hidePassword(text.String()) != text.String() {
			list = append(list, text.String())
		}
		if !m.isSecrets() {
			continue
		}
		for _, name := range sortedKeys(m.value) {
			list = append(list, plaintext.SecretWords(name.String(), m.value.MapIndex(name).String())...)
		}
	}
	return list
}
