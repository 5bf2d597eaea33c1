package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Origins holds where each key was set, by the key's path.
type Origins map[string]Origin

// Origin is where a key was set.
type Origin struct {
	Text string // "file", "environment HTTP_TOKEN", "the file of token_file"
	File string // that holds the value, "" where none does
}

const (
	fromFile    = "file"
	fromDefault = "default"
)

// Setting is the effective value of a key, without secrets.
type Setting struct {
	Section string // path, "" for the keys above all sections
	Key     string
	Value   string // of a secret only "set" or "not set"
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
		default:
			origin := cmp.Or(origins[m.path].Text, fromDefault)
			list = append(list, Setting{Section: path, Key: m.name, Value: valueText(m), Origin: origin, Secret: m.isSecret()})
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
		if m.isNamed() {
			return "none"
		}
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

// Secrets returns the secrets that are set, for logs that must hide them.
func (c Config) Secrets() []string {
	var list []string
	for _, m := range leaves(reflect.ValueOf(c), "") {
		if m.isSecret() && m.value.String() != "" {
			list = append(list, m.value.String())
		}
	}
	return list
}
