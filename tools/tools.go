// Package tools holds the tools that the model may call, and runs the calls.
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

// Tool is a function that the model may call.
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

// maxResult is the most bytes of a result. The window would cut more out again.
const maxResult = 256 << 10

// NewRegistry returns a registry. It fails when two tools have one name.
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

// List returns the tools in the order of NewRegistry.
func (r *Registry) List() []Tool { return r.list }

// Has reports whether there is a tool of that name.
func (r *Registry) Has(name string) bool {
	_, known := r.byName[name]
	return known
}

// Call runs a tool and returns its result, a text for the model. When the name is
// unknown, the arguments are not JSON, or the tool fails, panics or exceeds the time
// limit, the result says so, and err is not nil.
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

// callWithin runs a tool and returns when the limit has passed, even if the tool
// ignores its context. Its goroutine then continues until the tool returns.
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

// PanicError is the error of a tool that panicked. The model reads its text; the stack
// is for the log.
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
