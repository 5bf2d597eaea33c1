package mcp

import (
	"cmp"
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

// unchanged asks the server for its tools once more before a call that people have allowed. It returns a tools.ChangedError if the
// server now describes the tool in another way.
func (s *server) unchanged(ctx context.Context, name string) error {
	allowed := tools.AllowedOf(ctx)
	if allowed == nil {
		return nil
	}
	known, err := attempts(ctx, s, true, s.list)
	if err != nil {
		return fmt.Errorf("nothing was done, since it is not known whether the tool has changed: %w", err)
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

// changes says what differs between two definitions of a tool.
func changes(old, now string) string {
	var was, is remoteTool
	if json.Unmarshal([]byte(old), &was) != nil || json.Unmarshal([]byte(now), &is) != nil {
		return "its earlier description is not known"
	}
	var words []string
	if was.Description != is.Description {
		before, after := differing(was.Description, is.Description)
		words = append(words, fmt.Sprintf("the description was %s and is %s", before, after))
	}
	var before, after struct{ Properties map[string]any }
	_, _ = json.Unmarshal(was.Schema, &before), json.Unmarshal(is.Schema, &after) // without properties, there are no parameters
	all := map[string]any{}
	maps.Copy(all, before.Properties)
	maps.Copy(all, after.Properties)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, had := before.Properties[name]
		_, has := after.Properties[name]
		change := "changed"
		switch {
		case !had:
			change = "added"
		case !has:
			change = "removed"
		case reflect.DeepEqual(before.Properties[name], after.Properties[name]):
			continue
		}
		words = append(words, fmt.Sprintf("parameter %s %s", approvals.Quote(clipped(name, 30)), change))
	}
	const shown = 8
	if more := len(words) - shown; more > 0 {
		words = append(words[:shown], fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(words, "; "), "details of its parameters or of what it says about its effects")
}

// differing returns excerpts of two texts, from shortly before the first difference.
func differing(a, b string) (string, string) {
	before, after := []rune(a), []rune(b)
	same := 0
	for same < min(len(before), len(after)) && before[same] == after[same] {
		same++
	}
	start, from := "", max(0, same-20)
	if from > 0 {
		start = "…"
	}
	return approvals.Quote(start + clipped(string(before[from:]), 80)), approvals.Quote(start + clipped(string(after[from:]), 80))
}
