package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
)

// attrs returns the members of a configuration struct for the log, secrets hidden.
func attrs(v reflect.Value) []slog.Attr {
	var list []slog.Attr
	for _, m := range membersOf(v, "") {
		if m.isSection() {
			list = append(list, slog.Attr{Key: m.name, Value: slog.GroupValue(attrs(m.value)...)})
			continue
		}
		if m.isNamed() {
			var sections []slog.Attr
			for _, name := range sortedKeys(m.value) {
				sections = append(sections, slog.Attr{Key: name.String(), Value: slog.GroupValue(attrs(m.value.MapIndex(name))...)})
			}
			list = append(list, slog.Attr{Key: m.name, Value: slog.GroupValue(sections...)})
			continue
		}
		if m.isListed() {
			var sections []slog.Attr
			for i := range m.value.Len() {
				sections = append(sections, slog.Attr{Key: strconv.Itoa(i), Value: slog.GroupValue(attrs(m.value.Index(i))...)})
			}
			list = append(list, slog.Attr{Key: m.name, Value: slog.GroupValue(sections...)})
			continue
		}
		list = append(list, slog.Any(m.name, shown(m)))
	}
	return list
}

// oneLine returns a configuration struct on one line, secrets hidden.
func oneLine(v reflect.Value) string {
	var words []string
	for _, m := range leaves(v, "") {
		value := shown(m)
		if s, ok := value.(string); ok {
			value = fmt.Sprintf("%q", s)
		}
		words = append(words, fmt.Sprintf("%s=%v", m.path, value))
	}
	return strings.Join(words, " ")
}

// shown returns the value of a key without secrets, nil if it is not set.
func shown(m member) any {
	v := m.value
	switch {
	case m.isSecret() && v.String() != "":
		return "(hidden)"
	case m.isSecrets(), m.isNamed():
		return names(v)
	case v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	case v.Kind() == reflect.Pointer:
		return v.Elem().Interface()
	case v.Kind() == reflect.String:
		return hidePassword(v.String())
	}
	return v.Interface()
}

// names returns the keys of a map, sorted.
func names(m reflect.Value) []string {
	list := []string{}
	for _, name := range sortedKeys(m) {
		list = append(list, name.String())
	}
	return list
}
