package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/plaintext"
	"parley/tools"
)

const (
	maxTools       = 200      // tools of a server that may be offered, however many it lists
	maxPages       = 200      // pages of a server's list of tools
	maxSchema      = 64 << 10 // bytes of a tool's parameters
	maxDescription = 1024     // characters, which is OpenAI's limit
	maxName        = 64       // characters, which is OpenAI's limit, too
)

// listing is what a server offers. It is stored.
type listing struct {
	Tools     []remoteTool `json:"tools"`
	Resources bool         `json:"resources,omitempty"` // the server has resources
	Prompts   bool         `json:"prompts,omitempty"`   // the server has prompts
	More      bool         `json:"more,omitempty"`      // the server has more than maxTools tools that may be used
}

// remoteTool is a tool as its server describes it.
type remoteTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	ReadOnly    bool            `json:"read_only,omitempty"`
	Idempotent  bool            `json:"idempotent,omitempty"`
	Additive    bool            `json:"additive,omitempty"` // the tool deletes and overwrites nothing
	Sum         string          `json:"sum,omitempty"`      // hash of the whole description and schema
}

var errEndless = errors.New("its list of tools does not end")

// list asks a server what it offers.
func (s *server) list(ctx context.Context, session *sdk.ClientSession) (*listing, error) {
	known := &listing{}
	can := session.InitializeResult().Capabilities
	if can == nil {
		can = &sdk.ServerCapabilities{}
	}
	known.Resources, known.Prompts = can.Resources != nil, can.Prompts != nil
	if can.Tools == nil {
		return known, nil
	}
	if err := s.listTools(ctx, session, known); err != nil {
		return nil, err
	}
	slices.SortStableFunc(known.Tools, func(a, b remoteTool) int { return strings.Compare(a.Name, b.Name) })
	return known, nil
}

// listTools adds the tools of a server page by page: as many as the model may be offered, and as
// many of the others, for people to see.
func (s *server) listTools(ctx context.Context, session *sdk.ClientSession, known *listing) error {
	cursor, seen := "", map[string]bool{}
	left := map[bool]int{true: maxTools, false: maxTools} // by whether they may be used
	for !known.More {
		page, err := session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return err
		}
		for _, tool := range page.Tools {
			allowed := s.config.allows(tool.Name)
			if left[allowed]--; left[allowed] >= 0 {
				known.Tools = append(known.Tools, s.described(tool))
			}
		}
		known.More = left[true] < 0
		if seen[cursor] = true; page.NextCursor == "" {
			return nil
		}
		if cursor = page.NextCursor; seen[cursor] || len(seen) == maxPages {
			return errEndless
		}
	}
	return nil
}

// described returns a tool as its server describes it.
func (s *server) described(tool *sdk.Tool) remoteTool {
	r := remoteTool{Name: tool.Name, Description: tool.Description}
	if a := tool.Annotations; a != nil {
		r.ReadOnly, r.Idempotent = a.ReadOnlyHint, a.IdempotentHint
		r.Additive = a.DestructiveHint != nil && !*a.DestructiveHint
		r.Description = cmp.Or(r.Description, a.Title)
	}
	r.Description = cmp.Or(r.Description, tool.Title)
	r.Description = plaintext.Clean(s.named.Hide(r.Description))
	schema, isObject := tool.InputSchema.(map[string]any)
	if !isObject {
		schema = map[string]any{}
	}
	whole, _ := json.Marshal([]any{r.Description, schema}) // it was read from JSON
	sum := sha256.Sum256(whole)
	r.Sum = hex.EncodeToString(sum[:])
	r.Schema, _ = json.Marshal(plain(schema))
	return r
}

// notAtTop are rules that OpenAI or Anthropic refuse at the top of a tool's parameters, and
// with them the whole call.
var notAtTop = []string{"$schema", "oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else"}

// plain returns a schema in the form that the APIs of models accept. The server itself still checks
// arguments against the whole schema.
func plain(schema map[string]any) map[string]any {
	for _, rule := range notAtTop {
		delete(schema, rule)
	}
	schema["type"] = "object"
	if _, are := schema["properties"].(map[string]any); !are { // OpenAI demands them
		schema["properties"] = map[string]any{}
	}
	if _, is := schema["required"].([]any); !is {
		delete(schema, "required")
	}
	return schema
}

// toolsOf returns the tools that the model is offered of a listing, and those that are left
// out though the configuration allows them.
func (s *server) toolsOf(known *listing) (offered []tools.Tool, leftOut []string) {
	taken := map[string]bool{}
	for _, r := range known.Tools {
		switch {
		case !s.config.allows(r.Name):
		case len(r.Schema) > maxSchema:
			leftOut = append(leftOut, fmt.Sprintf("%s: its parameters take more than %d KiB", shownName(r.Name), maxSchema>>10))
		default:
			tool := s.tool(r)
			if taken[tool.Name] {
				tool.Name = distinctName(s.name, r.Name)
			}
			if taken[tool.Name] {
				leftOut = append(leftOut, shownName(r.Name)+": it is listed twice")
				continue
			}
			taken[tool.Name] = true
			offered = append(offered, tool)
		}
	}
	if known.More {
		leftOut = append(leftOut, fmt.Sprintf("further tools: only the first %d tools of a server are offered; allow and deny choose among them", maxTools))
	}
	for _, tool := range s.documentTools(known) {
		if !taken[tool.Name] {
			offered = append(offered, tool)
		}
	}
	return offered, leftOut
}

// tool returns a server's tool as the model calls it.
func (s *server) tool(r remoteTool) tools.Tool {
	set := s.config.Tools[r.Name]
	readOnly, idempotent := r.ReadOnly, r.Idempotent
	if set.ReadOnly != nil {
		readOnly = *set.ReadOnly
	}
	if set.Idempotent != nil {
		idempotent = *set.Idempotent
	}
	repeatable := readOnly || idempotent || set.Key
	return tools.Tool{
		Name: toolName(s.name, r.Name), Description: clipped(r.Description, maxDescription), Parameters: r.Schema, Repeatable: repeatable,
		ReadOnly: readOnly, Additive: r.Additive, Approve: cmp.Or(set.Approve, s.config.Approve),
		Timeout: s.config.Timeout, MaxResult: s.config.MaxOutput << 10, Forget: s.forget, Definition: r.definition(),
		Call: func(ctx context.Context, arguments json.RawMessage) (tools.Result, error) {
			params := &sdk.CallToolParams{Name: r.Name, Arguments: arguments}
			if key := tools.CallKeyOf(ctx); set.Key && key != "" {
				params.Meta = sdk.Meta{"idempotencyKey": key}
			}
			return s.counted(r.Name, func() (tools.Result, error) { return s.callTool(ctx, params, repeatable) })
		},
	}
}

// counted reports a call that has ended. A call that needs input has not ended yet, and one whose tool has changed was not made.
func (s *server) counted(tool string, call func() (tools.Result, error)) (tools.Result, error) {
	began := time.Now()
	result, err := call()
	needs, changed := (*tools.NeedsInput)(nil), (*tools.ChangedError)(nil)
	if errors.As(err, &needs) || errors.As(err, &changed) {
		return result, err
	}
	s.options.Called(Call{Server: s.name, Tool: tool, Failed: err != nil, Took: time.Since(began)})
	result.Text = s.named.Hide(result.Text)
	return result, s.named.HideIn(err)
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// toolName returns the name by which the model calls a tool of a server.
func toolName(server, tool string) string {
	name := server + "_" + notInNames.ReplaceAllString(tool, "_")
	if len(name) > maxName || name != server+"_"+tool {
		return distinctName(server, tool)
	}
	return name
}

// shownName returns the server's name of a tool as people are shown it.
func shownName(tool string) string { return plaintext.ShortLine(plaintext.OneLine(tool), 100) }

// distinctName returns a name for a tool whose own name is not allowed, or not unique.
func distinctName(server, tool string) string {
	sum := sha256.Sum256([]byte(tool))
	end := "_" + hex.EncodeToString(sum[:])[:6]
	name := server + "_" + notInNames.ReplaceAllString(tool, "_")
	return name[:min(len(name), maxName-len(end))] + end
}

// clipped returns a text shortened to some characters.
func clipped(text string, most int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// withoutSecrets returns an address without password and query, where keys may be.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

var inError = regexp.MustCompile(`https?://[^\s"]+`)

// hidden returns an error without secrets of the server, and whose addresses have no password and no query.
func (s *server) hidden(err error) error {
	if err == nil {
		return nil
	}
	if text := inError.ReplaceAllStringFunc(err.Error(), withoutSecrets); text != err.Error() {
		err = errors.New(text)
	}
	return s.secrets.HideIn(err)
}
