package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/conversation/approvals"
	"parley/plaintext"
	"parley/tools"
)

// Limits of what a server may ask people. The rest is declined.
const (
	maxFields    = 20
	maxChoices   = 100
	maxQuestion  = 16 << 10  // bytes of the message, or of the requested schema
	maxURL       = 2000      // bytes of an address to open
	maxCallState = 256 << 10 // bytes of the state that a server wants back
)

// formOf returns what a server asks people, as it is stored and shown. The error says why it
// can't be asked.
func formOf(server string, p *sdk.ElicitParams) (approvals.Form, error) {
	form := approvals.Form{Server: server, Message: plaintext.Clean(p.Message)}
	switch {
	case len(form.Message) > maxQuestion:
		return form, errors.New("its message is too long")
	case p.Mode == "url" || p.URL != "":
		address, err := shownURL(p.URL)
		form.URL = address
		return form, err
	case p.RequestedSchema == nil:
		return form, nil
	}
	text, err := json.Marshal(p.RequestedSchema)
	if err != nil || len(text) > maxQuestion {
		return form, errors.New("its form is too long")
	}
	form.Fields, err = fieldsOf(text)
	return form, err
}

// shownURL returns an address that people can be shown to open.
func shownURL(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(address) > maxURL {
		return "", errors.New("its address is not one that a person can open")
	}
	shown := u.String()
	for _, r := range shown + u.Host {
		if r <= ' ' || r >= 0x7f || r == '<' || r == '>' || r == '`' {
			return "", errors.New("its address has characters that look like others")
		}
	}
	return shown, nil
}

// property is a field as the schema of a form describes it.
type property struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Enum        []string `json:"enum"`
	EnumNames   []string `json:"enumNames"`
	OneOf       []titled `json:"oneOf"`
	Format      string   `json:"format"`
	Pattern     string   `json:"pattern"`
	Minimum     *float64 `json:"minimum"`
	Maximum     *float64 `json:"maximum"`
	MinLength   *float64 `json:"minLength"`
	MaxLength   *float64 `json:"maxLength"`
	MinItems    *float64 `json:"minItems"`
	MaxItems    *float64 `json:"maxItems"`
	Items       struct {
		Enum  []string `json:"enum"`
		AnyOf []titled `json:"anyOf"`
		OneOf []titled `json:"oneOf"`
	} `json:"items"`
}

type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// fieldsOf returns the fields of a schema, the required ones first, else in the order of their
// names: the order of the schema is lost on the way.
func fieldsOf(schema []byte) ([]approvals.Field, error) {
	var is struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if err := json.Unmarshal(schema, &is); err != nil {
		return nil, errors.New("its form is of a kind that is not known here")
	}
	if len(is.Properties) > maxFields {
		return nil, fmt.Errorf("its form has more than %d fields", maxFields)
	}
	for _, name := range is.Required {
		if _, is := is.Properties[name]; !is {
			return nil, errors.New("its form requires a field that it does not have")
		}
	}
	var list []approvals.Field
	for name, p := range is.Properties {
		f, err := p.field(name)
		if err != nil {
			return nil, err
		}
		f.Required = slices.Contains(is.Required, name)
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b approvals.Field) int {
		switch {
		case a.Required != b.Required && a.Required:
			return -1
		case a.Required != b.Required:
			return 1
		case a.Name < b.Name:
			return -1
		}
		return 1
	})
	return list, nil
}

func (p property) field(name string) (approvals.Field, error) {
	f := approvals.Field{Name: name, Title: p.Title, About: p.Description, Format: p.Format, Pattern: p.Pattern}
	switch {
	case p.Type == "boolean":
		f.Kind = approvals.YesNo
	case p.Type == "integer":
		f.Kind, f.Least, f.Most = approvals.Integer, p.Minimum, p.Maximum
	case p.Type == "number":
		f.Kind, f.Least, f.Most = approvals.Number, p.Minimum, p.Maximum
	case p.Type == "array":
		f.Kind, f.Least, f.Most = approvals.SomeOf, p.MinItems, p.MaxItems
		f.Choices = choicesOf(p.Items.Enum, nil, slices.Concat(p.Items.AnyOf, p.Items.OneOf))
	case len(p.Enum) > 0 || len(p.OneOf) > 0:
		f.Kind, f.Choices = approvals.OneOf, choicesOf(p.Enum, p.EnumNames, p.OneOf)
	case p.Type == "string":
		f.Kind, f.Least, f.Most = approvals.Text, p.MinLength, p.MaxLength
	default:
		return f, fmt.Errorf("its field %q is of a kind that is not known here", plaintext.ShortLine(name, 40))
	}
	if isChoice := f.Kind == approvals.OneOf || f.Kind == approvals.SomeOf; isChoice && (len(f.Choices) == 0 || len(f.Choices) > maxChoices) {
		return f, fmt.Errorf("its field %q has no choices, or more than %d", plaintext.ShortLine(name, 40), maxChoices)
	}
	return f, nil
}

func choicesOf(values, names []string, list []titled) (choices []approvals.Choice) {
	for i, value := range values {
		c := approvals.Choice{Value: value}
		if len(names) == len(values) {
			c.Title = names[i]
		}
		choices = append(choices, c)
	}
	for _, one := range list {
		choices = append(choices, approvals.Choice{Value: one.Const, Title: one.Title})
	}
	return choices
}

// resultOfInput returns the answer to a form as the server reads it.
func resultOfInput(a tools.InputAnswer) *sdk.ElicitResult {
	result := &sdk.ElicitResult{Action: a.Action}
	if a.Action == tools.Accept {
		result.Content = a.Content
	}
	return result
}

// responsesOf returns the answers to the forms of a call that is made again.
func responsesOf(input tools.Input) sdk.InputResponseMap {
	responses := sdk.InputResponseMap{}
	for request, answer := range input.Answers {
		responses[request] = resultOfInput(answer)
	}
	return responses
}
