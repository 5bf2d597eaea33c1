// Package tools is what the model may call.
package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// Tool is one thing that the model may call.
type Tool struct {
	Name        string
	Description string          // for the model
	Parameters  json.RawMessage // JSON schema of the arguments, an object
	Call        func(ctx context.Context, arguments json.RawMessage) (string, error)
}

// Registry is a fixed set of tools. The zero value has none.
type Registry struct {
	list   []Tool
	byName map[string]Tool
}

// maxResult bounds what one call may give, in bytes: more would only be cut
// from the window again.
const maxResult = 256 << 10

// NewRegistry makes a registry of tools with names of their own.
func NewRegistry(list ...Tool) (*Registry, error) {
	r := &Registry{list: list, byName: make(map[string]Tool, len(list))}
	for _, t := range list {
		if _, twice := r.byName[t.Name]; twice {
			return nil, fmt.Errorf("two tools are named %q", t.Name)
		}
		r.byName[t.Name] = t
	}
	return r, nil
}

// List gives the tools in the order in which they were registered.
func (r *Registry) List() []Tool { return r.list }

// Has says whether there is a tool of that name.
func (r *Registry) Has(name string) bool {
	_, known := r.byName[name]
	return known
}

// Call runs a tool and gives its result as text for the model. Arguments that
// are no JSON, an unknown name, an error, a panic and an exceeded time limit are
// told to the model in the result, so that it can do better; err is the same
// for the log, and nil when all went well.
func (r *Registry) Call(ctx context.Context, name, arguments string, limit time.Duration) (result string, err error) {
	tool, known := r.byName[name]
	if !known {
		err = fmt.Errorf("there is no tool %q; the tools are: %s", name, r.names())
		return "error: " + err.Error(), err
	}
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	if !json.Valid([]byte(arguments)) {
		err = fmt.Errorf("the arguments of %s are not valid JSON", name)
		return "error: " + err.Error(), err
	}
	result, err = callWithin(ctx, tool, json.RawMessage(arguments), limit)
	if err != nil {
		return "error: " + err.Error(), err
	}
	if len(result) > maxResult {
		result = strings.ToValidUTF8(result[:maxResult], "") + "\n[cut: the result was longer]"
	}
	return result, nil
}

// callWithin returns when the limit has passed even if the tool ignores its
// context; the tool's goroutine then ends on its own.
func callWithin(ctx context.Context, tool Tool, arguments json.RawMessage, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not finish within %s", tool.Name, limit))
	defer cancel()
	type outcome struct {
		result string
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o = outcome{err: &PanicError{Tool: tool.Name, Value: p, Stack: string(debug.Stack())}}
			}
			done <- o
		}()
		o.result, o.err = tool.Call(ctx, arguments)
	}()
	select {
	case o := <-done:
		if o.err != nil && errors.Is(o.err, ctx.Err()) {
			return "", context.Cause(ctx)
		}
		return o.result, o.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// PanicError is a panic of a tool. Its text is for the model; the stack is for
// the log.
type PanicError struct {
	Tool  string
	Value any
	Stack string
}

func (e *PanicError) Error() string { return e.Tool + " failed inside" }

func (r *Registry) names() string {
	names := make([]string, len(r.list))
	for i, t := range r.list {
		names[i] = t.Name
	}
	return strings.Join(names, ", ")
}
