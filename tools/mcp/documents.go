package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/tools"
)

// Before the addresses of resources and the names of prompts, in patterns.
const (
	resourcePrefix = "resource:"
	promptPrefix   = "prompt:"
)

// maxListed is how many resources or prompts a list for the model has at most.
const maxListed = 500

const noParameters = `{"type":"object","properties":{},"additionalProperties":false}`

// documentTools returns the tools by which the model reads the resources and prompts of a
// server that has any.
func (s *server) documentTools(known *listing) []tools.Tool {
	var list []tools.Tool
	add := func(name, description, parameters string, read func(context.Context, json.RawMessage) (string, error)) {
		list = append(list, tools.Tool{
			Name: toolName(s.name, name), Description: description, Parameters: json.RawMessage(parameters), Repeatable: true, ReadOnly: true, Approve: s.config.Approve,
			Timeout: s.config.Timeout, MaxResult: s.config.MaxOutput << 10, Forget: s.forget,
			Call: func(ctx context.Context, arguments json.RawMessage) (tools.Result, error) {
				return s.counted(name, func() (tools.Result, error) { return tools.Text(read)(ctx, arguments) })
			},
		})
	}
	if known.Resources && s.config.allowsSome(resourcePrefix) {
		add("list_resources", "List the resources (documents, records) of "+s.name+".", noParameters, s.listResources)
		add("read_resource", "Read a resource of "+s.name+" by its address, as list_resources shows it.",
			`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"],"additionalProperties":false}`, s.readResource)
	}
	if known.Prompts && s.config.allowsSome(promptPrefix) {
		add("list_prompts", "List the prompts (instructions for common tasks) of "+s.name+".", noParameters, s.listPrompts)
		add("get_prompt", "Get a prompt of "+s.name+" by its name, as list_prompts shows it.",
			`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"],"additionalProperties":false}`, s.getPrompt)
	}
	return list
}

func (s *server) listResources(ctx context.Context, _ json.RawMessage) (string, error) {
	return ask(ctx, s, true, func(ctx context.Context, session *sdk.ClientSession) (string, error) {
		var lines []string
		for r, err := range session.Resources(ctx, nil) {
			if err != nil {
				return "", err
			}
			if s.config.allows(resourcePrefix+r.URI) && len(lines) < maxListed {
				lines = append(lines, listLine(r.URI, r.Name, r.Description))
			}
		}
		for r, err := range session.ResourceTemplates(ctx, nil) {
			if err != nil {
				break // a server need not have any
			}
			if s.config.allows(resourcePrefix+r.URITemplate) && len(lines) < maxListed {
				lines = append(lines, listLine(r.URITemplate, r.Name, r.Description))
			}
		}
		return listed(lines), nil
	})
}

func (s *server) readResource(ctx context.Context, arguments json.RawMessage) (string, error) {
	var a struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil || a.URI == "" {
		return "", errors.New("the uri of a resource is missing")
	}
	if !s.config.allows(resourcePrefix + a.URI) {
		return "", errors.New("the configuration does not allow this resource")
	}
	result, err := ask(ctx, s, true, func(ctx context.Context, session *sdk.ClientSession) (*sdk.ReadResourceResult, error) {
		params := &sdk.ReadResourceParams{URI: a.URI}
		if input, given := tools.InputOf(ctx); given {
			params.InputResponses, params.RequestState = responsesOf(input), input.State
		}
		return session.ReadResource(ctx, params)
	})
	if err != nil {
		return "", err
	}
	var pieces []string
	for _, r := range result.Contents {
		if r != nil {
			pieces = append(pieces, resourceText(r))
		}
	}
	return strings.Join(pieces, "\n"), nil
}

func (s *server) listPrompts(ctx context.Context, _ json.RawMessage) (string, error) {
	return ask(ctx, s, true, func(ctx context.Context, session *sdk.ClientSession) (string, error) {
		var lines []string
		for p, err := range session.Prompts(ctx, nil) {
			if err != nil {
				return "", err
			}
			if !s.config.allows(promptPrefix+p.Name) || len(lines) == maxListed {
				continue
			}
			var takes []string
			for _, argument := range p.Arguments {
				takes = append(takes, argument.Name)
			}
			line := listLine(p.Name, p.Title, p.Description)
			if len(takes) > 0 {
				line += " (arguments: " + strings.Join(takes, ", ") + ")"
			}
			lines = append(lines, line)
		}
		return listed(lines), nil
	})
}

func (s *server) getPrompt(ctx context.Context, arguments json.RawMessage) (string, error) {
	var a struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil || a.Name == "" {
		return "", errors.New("the name of a prompt is missing, or an argument is no text")
	}
	if !s.config.allows(promptPrefix + a.Name) {
		return "", errors.New("the configuration does not allow this prompt")
	}
	result, err := ask(ctx, s, true, func(ctx context.Context, session *sdk.ClientSession) (*sdk.GetPromptResult, error) {
		params := &sdk.GetPromptParams{Name: a.Name, Arguments: a.Arguments}
		if input, given := tools.InputOf(ctx); given {
			params.InputResponses, params.RequestState = responsesOf(input), input.State
		}
		return session.GetPrompt(ctx, params)
	})
	if err != nil {
		return "", err
	}
	var pieces []string
	for _, m := range result.Messages {
		text, _ := contentText(m.Content)
		pieces = append(pieces, fmt.Sprintf("%s: %s", m.Role, text))
	}
	return strings.Join(pieces, "\n\n"), nil
}

// listLine returns a line of a list: what something is called by, its name, and what it is.
func listLine(id, name, description string) string {
	line := id
	for _, more := range []string{name, description} {
		if more != "" && more != id {
			line += " – " + strings.Join(strings.Fields(more), " ")
		}
	}
	return line
}

func listed(lines []string) string {
	if len(lines) == 0 {
		return "(none)"
	}
	return strings.Join(lines, "\n")
}
