package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/conversation/approvals"
	"parley/tools"
)

// A server can change a tool after people have allowed it. So the server is asked for its tools once more, on the same
// connection, right before a call that people have allowed.

// unchanged returns a tools.ChangedError if people have allowed a call of a tool, and its server describes it in another way now.
func (s *server) unchanged(ctx context.Context, session *sdk.ClientSession, name string) error {
	allowed := tools.AllowedOf(ctx)
	if allowed == nil {
		return nil
	}
	known, err := s.list(ctx, session)
	if err != nil {
		return err
	}
	found := false
	for _, r := range known.Tools { // a server may list a name twice
		if r.Name != name {
			continue
		}
		if now := r.definition(); !slices.Contains(allowed, now) {
			s.offer(known)
			return &tools.ChangedError{Definition: now, Changes: changes(allowed[len(allowed)-1], now)}
		}
		found = true
	}
	if !found {
		s.offer(known)
		return fmt.Errorf("nothing was done: the server %s has no tool %s any more", s.name, shownName(name))
	}
	return nil
}

// uncached has each listing come from the server: one that may keep its list for long could hide that it has changed.
func uncached(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, r)
		if list, is := result.(*sdk.ListToolsResult); is && list != nil {
			list.TTLMs = 0
		}
		return result, err
	}
}

// definition returns how the server describes a tool: the same text as long as it says the same, however it writes it.
func (r remoteTool) definition() string {
	r.Description = clipped(r.Description, maxDescription)
	text, _ := json.Marshal(r) // it was read from JSON
	return string(text)
}

const (
	shownNames       = 5  // names of parameters in a list of changes
	shownDescription = 80 // characters of a description
)

// changes says what differs between two definitions of a tool.
func changes(old, now string) string {
	var was, is remoteTool
	if json.Unmarshal([]byte(old), &was) != nil || json.Unmarshal([]byte(now), &is) != nil {
		return "how it was described then is not known"
	}
	var words []string
	if was.Description != is.Description {
		words = append(words, fmt.Sprintf("the description was %s and is %s", excerpt(was.Description, is.Description), excerpt(is.Description, was.Description)))
	}
	before, after := was.parameters(), is.parameters()
	added, removed, other := []string{}, []string{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, had := before[name]; !had {
			added = append(added, name)
		} else if !reflect.DeepEqual(before[name], after[name]) {
			other = append(other, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, has := after[name]; !has {
			removed = append(removed, name)
		}
	}
	for _, list := range []struct {
		verb  string
		names []string
	}{{"added", added}, {"removed", removed}, {"changed", other}} {
		if len(list.names) > 0 {
			words = append(words, "parameters "+list.verb+": "+shownList(list.names))
		}
	}
	for _, hint := range []struct {
		was, is bool
		words   string
	}{{was.ReadOnly, is.ReadOnly, "changes nothing"}, {was.Idempotent, is.Idempotent, "may be called twice"}, {was.Additive, is.Additive, "deletes nothing"}} {
		switch {
		case hint.is && !hint.was:
			words = append(words, "it says now that it "+hint.words)
		case hint.was && !hint.is:
			words = append(words, "it says no longer that it "+hint.words)
		}
	}
	if len(words) == 0 {
		return "details of its description or of its parameters"
	}
	return strings.Join(words, "; ")
}

// parameters returns the parameters of a tool by name.
func (r remoteTool) parameters() map[string]any {
	var schema map[string]any
	_ = json.Unmarshal(r.Schema, &schema) // no object has no parameters
	list, _ := schema["properties"].(map[string]any)
	return list
}

// shownList returns some names as people are shown them.
func shownList(names []string) string {
	var list []string
	for _, name := range names[:min(len(names), shownNames)] {
		list = append(list, approvals.Quote(clipped(name, 30)))
	}
	if more := len(names) - shownNames; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// excerpt returns a description in short, from where it begins to differ from another one.
func excerpt(text, other string) string {
	runes, others := []rune(text), []rune(other)
	same := 0
	for same < min(len(runes), len(others)) && runes[same] == others[same] {
		same++
	}
	begin := ""
	if from := max(0, same-20); from > 0 {
		begin, runes = "…", runes[from:]
	}
	return approvals.Quote(begin + clipped(string(runes), shownDescription))
}
