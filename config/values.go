package config

import (
	"fmt"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// convert returns a value of a document as a value of the member, and false if the
// member does not accept it.
func convert(m member, value any) (reflect.Value, bool) {
	t := m.value.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	out := reflect.New(t).Elem()
	var ok bool
	switch {
	case t == durationType:
		ok = setDuration(m, out, value)
	case t.Kind() == reflect.String:
		ok = setText(m, out, value)
	case t.Kind() == reflect.Bool:
		var b bool
		b, ok = value.(bool)
		out.SetBool(b)
	case out.CanInt():
		var i int64
		i, ok = value.(int64)
		out.SetInt(i)
		ok = ok && !out.OverflowInt(i) && m.inBounds(float64(i))
	case out.CanFloat():
		ok = setFloat(m, out, value)
	default:
		panic(fmt.Sprintf("config: %s has the type %s, which no key can have", m.path, t))
	}
	if m.value.Kind() == reflect.Pointer {
		out = out.Addr()
	}
	return out, ok
}

func setDuration(m member, out reflect.Value, value any) bool {
	s, ok := value.(string)
	d, err := time.ParseDuration(s)
	out.SetInt(int64(d))
	return ok && err == nil && m.inBounds(float64(d))
}

func setFloat(m member, out reflect.Value, value any) bool {
	f, ok := value.(float64)
	if i, whole := value.(int64); whole {
		f, ok = float64(i), true
	}
	out.SetFloat(f)
	return ok && !math.IsNaN(f) && !math.IsInf(f, 0) && !out.OverflowFloat(f) && m.inBounds(f)
}

func setText(m member, out reflect.Value, value any) bool {
	s, ok := value.(string)
	if b, isBool := value.(bool); isBool && m.tag.Get("kind") == "switch" {
		s, ok = strconv.FormatBool(b), true
	}
	if i, isNumber := value.(int64); isNumber && m.tag.Get("kind") == "id" {
		s, ok = strconv.FormatInt(i, 10), true
	}
	out.SetString(s)
	if words := m.tag.Get("oneof"); words != "" {
		return ok && slices.Contains(strings.Fields(words), s)
	}
	ok = ok && !isBlank(s)
	switch m.tag.Get("kind") {
	case "text", "path":
		ok = ok && s != ""
	case "name":
		ok = ok && isName(s)
	case "switch":
		ok = ok && slices.Contains([]string{"true", "false", "auto"}, s)
	case "url":
		ok = ok && (isHTTP(s) || s == "" && m.value.IsZero())
	}
	return ok
}

// isBlank reports whether a text that is not empty has nothing to read. No key means that.
func isBlank(s string) bool { return s != "" && strings.TrimSpace(s) == "" }

func isHTTP(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// isName reports whether s can name a session: everyone can type it, and it is readable
// in a key.
func isName(s string) bool {
	other := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && !('0' <= r && r <= '9') && !strings.ContainsRune("-_.", r)
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, other)
}

// takesItem reports whether the member's list accepts s.
func (m member) takesItem(s string) bool {
	switch {
	case !m.holdsIDs():
		return strings.TrimSpace(s) != ""
	case m.tag.Get("kind") == "chats":
		return groupOrTopic.MatchString(s)
	}
	id, err := strconv.ParseInt(s, 10, 64)
	isID := err == nil && strconv.FormatInt(id, 10) == s // others, such as 007, equal no id
	return isID || m.tag.Get("kind") == "names" && (s == "*" || username.MatchString(s))
}

// groupOrTopic matches the id of a group of Telegram, and that of a topic behind it.
var groupOrTopic = regexp.MustCompile(`^-[0-9]{1,18}(/[0-9]{1,18})?$`)

// username matches the usernames of people and groups: https://core.telegram.org/method/account.checkUsername
// and https://support.discord.com/hc/en-us/articles/12620128861463
var username = regexp.MustCompile(`^@[A-Za-z0-9_.]{2,32}$`)

// inBounds reports whether a value is within the tags min and max, which for a duration
// are durations.
func (m member) inBounds(v float64) bool {
	low, high := m.bound("min", math.Inf(-1)), m.bound("max", math.Inf(1))
	return low <= v && v <= high
}

func (m member) bound(tag string, none float64) float64 {
	s := m.tag.Get(tag)
	if s == "" {
		return none
	}
	if d, err := time.ParseDuration(s); err == nil {
		return float64(d)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(fmt.Sprintf("config: %s has the bound %q, which is neither a number nor a duration", m.path, s))
	}
	return f
}

// describe returns a value with its type for a problem: "fast" (string).
func describe(value any) string {
	switch v := value.(type) {
	case string:
		if isBlank(v) {
			return fmt.Sprintf("%q (only spaces)", clip(v))
		}
		return fmt.Sprintf("%q (string)", clip(hidePassword(v)))
	case int64:
		return fmt.Sprintf("%d (integer)", v)
	case float64:
		return fmt.Sprintf("%v (float)", v)
	case bool:
		return fmt.Sprintf("%t (boolean)", v)
	case time.Time:
		return "a date or time"
	case []any:
		return fmt.Sprintf("a list of %d values", len(v))
	case []map[string]any:
		return "a list of sections"
	case map[string]any:
		return "a section"
	}
	return fmt.Sprintf("a %T", value)
}

// hidePassword hides the password of an address, also of one that can't be read:
// http://me:secret@host, and postgres://host/name?password=secret.
func hidePassword(s string) string {
	if u, err := url.Parse(s); err != nil {
		s = passwordOfUser.ReplaceAllString(s, "${1}xxxxx@")
	} else if u.User != nil {
		s = u.Redacted()
	}
	return passwordParameter.ReplaceAllString(s, "${1}xxxxx")
}

var (
	passwordOfUser    = regexp.MustCompile(`(//[^:/@\s]*:)\S*@`)
	passwordParameter = regexp.MustCompile(`(?i)(password=)[^&\s]+`)
)

// clip returns text shortened to the length that a problem shows.
func clip(s string) string {
	const limit = 60
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit]) + "..."
}
