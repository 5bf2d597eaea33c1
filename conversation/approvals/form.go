package approvals

import (
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"parley/plaintext"
)

// Form is what the server of a tool wants to know from people in the middle of a call.
type Form struct {
	Server  string  `json:"server"` // name of the server in the configuration
	Message string  `json:"message"`
	URL     string  `json:"url,omitempty"` // address that people shall open in place of filling in fields
	Fields  []Field `json:"fields,omitempty"`

	Request string `json:"-"`               // name by which the server distinguishes the forms that it asks with at once
	State   string `json:"state,omitempty"` // opaque text that the server wants back with the answer
}

// Field is something that a form asks for.
type Field struct {
	Name     string   `json:"name"`
	Title    string   `json:"title,omitempty"`
	About    string   `json:"about,omitempty"`
	Kind     Kind     `json:"kind"`
	Required bool     `json:"required,omitempty"`
	Choices  []Choice `json:"choices,omitempty"` // choices of a OneOf or SomeOf
	Least    *float64 `json:"least,omitempty"`   // least value of a number, least characters of a text, least choices of a SomeOf; nil = no limit
	Most     *float64 `json:"most,omitempty"`    // the same as Least, for the most
	Format   string   `json:"format,omitempty"`  // format of a text: email, uri, date, date-time or "" for any
	Pattern  string   `json:"pattern,omitempty"` // regular expression that a text matches
}

// Choice is a value that a field may have.
type Choice struct {
	Value string `json:"value"`
	Title string `json:"title,omitempty"`
}

// Kind is the kind of a field's value.
type Kind string

// The kinds of fields.
const (
	Text    Kind = "text"
	Number  Kind = "number"
	Integer Kind = "integer"
	YesNo   Kind = "yes_no"
	OneOf   Kind = "one_of"
	SomeOf  Kind = "some_of"
)

// maxText is the most characters of a text that somebody enters into a field.
const maxText = 4000

// Label returns what people call the field.
func (f Field) Label() string {
	if f.Title != "" {
		return plaintext.ShortLine(f.Title, 80)
	}
	return plaintext.ShortLine(f.Name, 80)
}

// Parse returns the value that a text means, as JSON has it. The error says to people what the field takes.
func (f Field) Parse(text string) (any, error) {
	value, ok := f.parse(strings.TrimSpace(text))
	if !ok {
		return nil, fmt.Errorf("%s takes %s", f.Label(), f.Takes())
	}
	return value, nil
}

func (f Field) parse(text string) (value any, ok bool) {
	switch f.Kind {
	case Integer, Number:
		n, err := strconv.ParseFloat(text, 64)
		return n, err == nil && f.Check(n)
	case YesNo:
		word := strings.ToLower(strings.Trim(text, ".!"))
		is := word == "yes" || word == "y" || word == "true"
		return is, is || word == "no" || word == "n" || word == "false"
	case OneOf:
		return f.choose(text)
	case SomeOf:
		values := f.chooseSome(text)
		return values, f.Check(values)
	}
	return text, f.Check(text)
}

// Check reports whether the field may have a value, which is as JSON has it.
func (f Field) Check(value any) bool {
	switch v := value.(type) {
	case bool:
		return f.Kind == YesNo
	case float64:
		isWhole := v == math.Trunc(v) && math.Abs(v) <= 1<<53
		return (f.Kind == Number && !math.IsInf(v, 0) && !math.IsNaN(v) || f.Kind == Integer && isWhole) && f.within(v)
	case []any:
		return f.Kind == SomeOf && len(v) <= len(f.Choices) && f.within(float64(len(v))) && !slices.ContainsFunc(v, func(one any) bool { return !f.offers(one) })
	case string:
		if f.Kind == OneOf {
			return f.offers(v)
		}
		length := utf8.RuneCountInString(v)
		return f.Kind == Text && length > 0 && length <= maxText && f.within(float64(length)) && f.isFormatted(v)
	}
	return false
}

// offers reports whether a value is one of the field's choices.
func (f Field) offers(value any) bool {
	return slices.ContainsFunc(f.Choices, func(c Choice) bool { return any(c.Value) == value })
}

func (f Field) within(n float64) bool {
	return (f.Least == nil || n >= *f.Least) && (f.Most == nil || n <= *f.Most)
}

// choose returns the choice that a text means: its value, its title, or # and its number.
func (f Field) choose(text string) (value string, ok bool) {
	number, isNumber := strings.CutPrefix(text, "#")
	n, err := strconv.Atoi(number)
	switch {
	case f.offers(text):
		return text, true
	case isNumber && err == nil && n >= 1 && n <= len(f.Choices):
		return f.Choices[n-1].Value, true
	}
	i := slices.IndexFunc(f.Choices, func(c Choice) bool { return strings.EqualFold(c.Label(), text) })
	if i < 0 {
		return "", false
	}
	return f.Choices[i].Value, true
}

// chooseSome returns the choices that a text names, between commas, and nil where it names
// something else.
func (f Field) chooseSome(text string) (values []any) {
	for piece := range strings.SplitSeq(text, ",") {
		value, ok := f.choose(strings.TrimSpace(piece))
		if !ok {
			return nil
		}
		if !slices.Contains(values, any(value)) {
			values = append(values, value)
		}
	}
	return values
}

func (f Field) isFormatted(text string) bool {
	var err error
	switch f.Format {
	case "email":
		var address *mail.Address
		if address, err = mail.ParseAddress(text); err == nil && address.Address != text {
			return false
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err == nil && u.Scheme == "" {
			return false
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return false
	}
	pattern, err := regexp.Compile(f.Pattern)
	return err != nil || pattern.MatchString(text) // the server checks a pattern that is none here
}

// Label returns what people call the choice.
func (c Choice) Label() string {
	if c.Title != "" {
		return plaintext.ShortLine(c.Title, 80)
	}
	return plaintext.ShortLine(c.Value, 80)
}

// Takes returns in words which values the field takes.
func (f Field) Takes() string {
	switch f.Kind {
	case Integer:
		return "a whole number" + f.limits("")
	case Number:
		return "a number" + f.limits("")
	case YesNo:
		return "yes or no"
	case OneOf:
		return "one of " + f.choiceLabels()
	case SomeOf:
		return "some of " + f.choiceLabels() + ", with commas between them" + f.limits(" of them")
	}
	switch f.Format {
	case "email":
		return "an e-mail address"
	case "uri":
		return "an address such as https://example.org"
	case "date":
		return "a date such as 2026-11-30"
	case "date-time":
		return "a time such as 2026-11-30T09:00:00Z"
	}
	what := "a text"
	if f.Pattern != "" {
		what = "a text of the form " + plaintext.ShortLine(f.Pattern, 80)
	}
	return what + f.limits(" characters")
}

// limits returns the limits of a field in words, "" if it has none.
func (f Field) limits(unit string) string {
	number := func(n *float64) string { return strconv.FormatFloat(*n, 'f', -1, 64) }
	switch {
	case f.Least != nil && f.Most != nil:
		return fmt.Sprintf(" from %s to %s%s", number(f.Least), number(f.Most), unit)
	case f.Least != nil:
		return fmt.Sprintf(" of at least %s%s", number(f.Least), unit)
	case f.Most != nil:
		return fmt.Sprintf(" of at most %s%s", number(f.Most), unit)
	}
	return ""
}

func (f Field) choiceLabels() string {
	var labels []string
	for _, c := range f.Choices {
		labels = append(labels, c.Label())
	}
	return strings.Join(labels, ", ")
}

// show returns a value of the field as people read it.
func (f Field) show(value any) string {
	switch v := value.(type) {
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		var labels []string
		for _, one := range v {
			labels = append(labels, f.show(one))
		}
		return strings.Join(labels, ", ")
	case string:
		if i := slices.IndexFunc(f.Choices, func(c Choice) bool { return c.Value == v }); i >= 0 {
			return f.Choices[i].Label()
		}
		return plaintext.ShortLine(v, 100)
	}
	return ""
}

// CheckContent returns an error for people where answers to fields are none that the form takes.
func (q Question) CheckContent(content map[string]any) error {
	for name, value := range content {
		i := slices.IndexFunc(q.Form.Fields, func(f Field) bool { return f.Name == name })
		if i < 0 {
			return fmt.Errorf("the form has no field %q", plaintext.ShortLine(name, 80))
		}
		if f := q.Form.Fields[i]; !f.Check(value) {
			return fmt.Errorf("%s takes %s", f.Label(), f.Takes())
		}
	}
	return nil
}

// Missing returns the fields that must still be answered before the answers can be sent.
func (q Question) Missing() []Field {
	var list []Field
	if q.Form == nil {
		return nil
	}
	for _, f := range q.Form.Fields {
		if _, given := q.Answers[f.Name]; f.Required && !given {
			list = append(list, f)
		}
	}
	return list
}

// next returns the index of the field to answer next, -1 if each has an answer.
func (q Question) next() int {
	return slices.IndexFunc(q.Form.Fields, func(f Field) bool {
		_, given := q.Answers[f.Name]
		return !given
	})
}

// Next returns the number of the field to answer next, from 1, and false if each has an answer.
func (q Question) Next() (number int, open bool) {
	i := q.next()
	return i + 1, i >= 0
}

// IsSentAtOnce reports whether the answers are sent as soon as they are given: there is only one, chosen by a button.
func (q Question) IsSentAtOnce() bool {
	return len(q.Form.Fields) == 1 && (q.Form.Fields[0].Kind == YesNo || q.Form.Fields[0].Kind == OneOf)
}
