package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// member is one field of a configuration struct: a key, or a section when the
// field is itself a struct. What a key allows is declared in the field's tags:
//
//	toml:"send_rate"         the key; a field without this tag is not part of the configuration
//	min:"0" max:"2"          bounds of a number or a duration, themselves allowed
//	oneof:"text json"        the only texts allowed
//	kind:"text"              a text that must not be empty
//	kind:"path"              a path that must not be empty, relative to the configuration file
//	kind:"file"              likewise, or empty
//	kind:"name"              1 to 64 letters, digits, '-', '_' or '.'
//	kind:"url"               an http or https address; may be empty where the default is
//	kind:"ids"               a list of ids, which may be written as numbers
//	kind:"names"             the same with "@usernames" and "*"
//	kind:"chats"             a list of ids of groups, and of topics as "GROUP/TOPIC"
//	kind:"secret"            hidden from logs and errors; the key with _file after it names a file that holds it
//	env:"TELEGRAM_TOKEN"     the environment variable that holds the text or the secret when the file gives none
//
//	kind:"file"              a path or "", relative to the configuration file, of a file that can be read
//	kind:"id"                a text that may be written as a number
//	kind:"secrets"           a section of texts by name, hidden like secrets; NAME_file names a file that holds the text of NAME
//
// A field that is a list of structs holds sections [[like.this]], each with the struct's
// members.
//
// A field that is a map of structs by name holds sections of any names, each
// with the struct's members. A struct may set defaults (SetDefaults) and say which
// names it allows (AllowedName).
//
// Other fields are string, bool, int, float, time.Duration, []string, Identity, or
// a pointer to one of the first five that is nil while the key is not set. The
// default is what the field holds before the file is read.
type member struct {
	name  string // "send_rate"
	path  string // "telegram.send_rate"
	tag   reflect.StructTag
	value reflect.Value
}

var durationType = reflect.TypeFor[time.Duration]()

// membersOf returns the members of the struct v, which has this path, in the order of
// the fields.
func membersOf(v reflect.Value, path string) []member {
	var members []member
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name := tag.Get("toml")
		if name == "" || name == "-" {
			continue
		}
		members = append(members, member{name: name, path: join(path, name), tag: tag, value: v.Field(i)})
	}
	return members
}

// join returns the path of a key in a section, quoted where TOML needs it.
func join(path, name string) string {
	name = clip(toml.Key{name}.String())
	if path == "" {
		return name
	}
	return path + "." + name
}

func (m member) isSection() bool { return m.value.Kind() == reflect.Struct }
func (m member) isNamed() bool {
	return m.value.Kind() == reflect.Map && m.value.Type().Elem().Kind() == reflect.Struct
}
func (m member) isListed() bool {
	return m.value.Kind() == reflect.Slice && m.value.Type().Elem().Kind() == reflect.Struct
}
func (m member) isSecrets() bool  { return m.tag.Get("kind") == "secrets" }
func (m member) isIdentity() bool { return m.value.Type() == identityType }
func (m member) isSecret() bool   { return m.tag.Get("kind") == "secret" }
func (m member) isPath() bool     { return m.tag.Get("kind") == "path" || m.tag.Get("kind") == "file" }
func (m member) holdsIDs() bool {
	return slices.Contains([]string{"ids", "names", "chats"}, m.tag.Get("kind"))
}

// fileKey returns the key that names the file of a secret.
func (m member) fileKey() string { return m.name + "_file" }

// keys returns the names of a section's keys, in the order of its members.
func keys(members []member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.name)
		if m.isSecret() {
			names = append(names, m.fileKey())
		}
	}
	return names
}

// leaves returns the keys of a configuration struct and of its sections, those with names of
// their own included.
func leaves(v reflect.Value, path string) []member {
	var all []member
	for _, m := range membersOf(v, path) {
		if m.isSection() {
			all = append(all, leaves(m.value, m.path)...)
			continue
		}
		if m.isListed() && m.value.Len() > 0 {
			for i := range m.value.Len() {
				all = append(all, leaves(m.value.Index(i), fmt.Sprintf("%s[%d]", m.path, i))...)
			}
			continue
		}
		if !m.isNamed() || m.value.Len() == 0 {
			all = append(all, m)
			continue
		}
		for _, name := range sortedKeys(m.value) {
			all = append(all, leaves(m.value.MapIndex(name), join(m.path, name.String()))...)
		}
	}
	return all
}

// allowed returns what a member accepts, as the end of the sentence "allowed: ".
func (m member) allowed() string {
	if words := m.tag.Get("oneof"); words != "" {
		return oneOf(strings.Fields(words))
	}
	t := m.value.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case m.isSection(), m.isIdentity():
		return "a section [" + m.path + "]"
	case m.isListed():
		return "sections [[" + m.path + "]]"
	case m.isNamed():
		return fmt.Sprintf("a section [%s.%q] for each name", m.path, "NAME")
	case m.isSecret():
		return "one line of text without spaces"
	case m.isSecrets():
		return "a section [" + m.path + "] of texts"
	case t == durationType:
		return `a duration such as "30s", "5m" or "720h"` + m.bounds()
	case m.tag.Get("kind") == "names":
		return `a list of ids, "@usernames" and "*"`
	case m.tag.Get("kind") == "ids":
		return "a list of ids"
	case m.tag.Get("kind") == "chats":
		return `a list of ids of groups, and of topics as "GROUP/TOPIC"`
	case t.Kind() == reflect.Slice:
		return "a list of texts that are not empty"
	case t.Kind() == reflect.String:
		switch m.tag.Get("kind") {
		case "switch":
			return `true, false or "auto"`
		case "address":
			return `"host:port" such as "127.0.0.1:8787", or "" for no server`
		case "url":
			return "an http:// or https:// address"
		case "name":
			return "1 to 64 letters, digits, '-', '_' or '.'"
		case "text", "path":
			return "a text that is not empty"
		}
		return "a text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case reflect.Zero(t).CanInt():
		return "a whole number" + m.bounds()
	}
	return "a number" + m.bounds()
}

// bounds returns the bounds of a value, such as " >= 0".
func (m member) bounds() string {
	low, high := m.tag.Get("min"), m.tag.Get("max")
	switch {
	case low != "" && high != "":
		return fmt.Sprintf(" from %s to %s", low, high)
	case low != "":
		return " >= " + low
	case high != "":
		return " <= " + high
	}
	return ""
}

// oneOf returns words as a choice: "debug", "info" or "warn".
func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	if last := len(quoted) - 1; last > 0 {
		return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
	}
	return quoted[0]
}
