// Package tools holds the tools that the model may call, and runs the calls.
package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation/media"
)

// Tool is a function that the model may call.
type Tool struct {
	Name        string
	Description string          // for the model
	Parameters  json.RawMessage // JSON schema of the arguments, an object
	Call        func(ctx context.Context, arguments json.RawMessage) (Result, error)

	// Forget ends a call that waits for input, given its key; nil where no call ever does.
	Forget func(key string)

	// Repeatable says that a call whose outcome is unknown may be made again: it only reads, or
	// two calls have the effect of one.
	Repeatable bool

	ReadOnly bool   // a call changes nothing outside of the conversation
	Additive bool   // what it changes is only added to, never deleted or overwritten
	Approve  string // which calls a person must allow, such as ApproveAsk; "": as Config says

	// Definition is how a server describes the tool, see WithAllowed. "" for the gateway's own tools, whose code is trusted.
	Definition string

	Timeout   time.Duration // how long a call may take; 0: as Registry.Call says
	MaxResult int           // bytes of a result that the model is shown; 0: 256 KiB
}

// Result is what a call returns.
type Result struct {
	Text     string        // for the model
	Whole    string        // the text before it was cut; "" where Text has all of it
	Pictures []media.Image // with their bytes; a name is made where there is none
}

// Text returns the Call of a tool whose results are texts.
func Text(call func(ctx context.Context, arguments json.RawMessage) (string, error)) func(context.Context, json.RawMessage) (Result, error) {
	return func(ctx context.Context, arguments json.RawMessage) (Result, error) {
		text, err := call(ctx, arguments)
		return Result{Text: text}, err
	}
}

// Registry is a set of tools: those of the gateway, which are fixed, and those of sources,
// which may change while it runs. The zero value has none. It is safe for concurrent use.
type Registry struct {
	own     []Tool
	mu      sync.Mutex
	sources map[string][]Tool
	now     atomic.Pointer[set]

	all     *Registry // the registry of which this one is a part made by Only; nil if it is no part
	allowed func(name string) bool
}

// set is what a registry holds at a time.
type set struct {
	list   []Tool
	byName map[string]Tool
	of     *set // the set of which this one is a part; nil if it is no part
}

// maxResult is the most bytes of a result that the model is shown, where a tool says nothing
// else. The window would cut more out again.
const maxResult = 256 << 10

// NewRegistry returns a registry. It fails when two tools have one name.
func NewRegistry(list ...Tool) (*Registry, error) {
	r := &Registry{own: list}
	s := &set{byName: make(map[string]Tool, len(list))}
	for _, t := range list {
		if !s.add(t) {
			return nil, fmt.Errorf("two tools are named %q", t.Name)
		}
	}
	r.now.Store(s)
	return r, nil
}

// Replace sets the tools of a source, whose name is its own. A tool whose name another tool
// has is left out; Replace returns these names.
func (r *Registry) Replace(source string, list []Tool) (refused []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sources == nil {
		r.sources = map[string][]Tool{}
	}
	r.sources[source] = list
	s := &set{byName: map[string]Tool{}}
	for _, t := range r.own {
		s.add(t)
	}
	for _, name := range slices.Sorted(maps.Keys(r.sources)) {
		for _, t := range r.sources[name] {
			if !s.add(t) && name == source {
				refused = append(refused, t.Name)
			}
		}
	}
	r.now.Store(s)
	return refused
}

// add adds a tool, and returns false if another one has its name.
func (s *set) add(t Tool) bool {
	if _, twice := s.byName[t.Name]; twice {
		return false
	}
	s.list = append(s.list, t)
	s.byName[t.Name] = t
	return true
}

// Only returns the tools of the registry that are allowed by their names, now and after each
// Replace.
func (r *Registry) Only(allowed func(name string) bool) *Registry {
	return &Registry{all: r, allowed: allowed}
}

// part returns those tools of a set that are allowed. It makes them once for each set.
func (r *Registry) part(of *set) *set {
	if s := r.now.Load(); s != nil && s.of == of {
		return s
	}
	s := &set{byName: map[string]Tool{}, of: of}
	for _, t := range of.list {
		if r.allowed(t.Name) {
			s.add(t)
		}
	}
	r.now.Store(s)
	return s
}

// set returns what the registry holds now.
func (r *Registry) set() *set {
	if r.all != nil {
		return r.part(r.all.set())
	}
	if s := r.now.Load(); s != nil {
		return s
	}
	return &set{}
}

// Version returns a value that changes with each Replace.
func (r *Registry) Version() any {
	if r.all != nil {
		return r.all.Version()
	}
	return r.now.Load()
}

// List returns the tools: those of NewRegistry in their order, then those of the sources in
// the order of their names.
func (r *Registry) List() []Tool { return r.set().list }

// Has reports whether there is a tool of that name.
func (r *Registry) Has(name string) bool {
	_, known := r.set().byName[name]
	return known
}

// Find returns the tool of a name.
func (r *Registry) Find(name string) (t Tool, known bool) {
	t, known = r.set().byName[name]
	return t, known
}

// Repeatable reports whether a call of the tool may be made again. It is false for an unknown tool.
func (r *Registry) Repeatable(name string) bool { return r.set().byName[name].Repeatable }

// Call runs a tool and returns its result, whose text names its pictures. When the name is
// unknown, the arguments are not JSON, or the tool fails, panics or exceeds the time
// limit, the text says so, and err is not nil.
func (r *Registry) Call(ctx context.Context, name, arguments string, limit time.Duration) (result Result, err error) {
	now := r.set()
	tool, known := now.byName[name]
	if !known {
		err = fmt.Errorf("there is no tool %q; the tools are: %s", name, now.names())
		return failure(err), err
	}
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	if !json.Valid([]byte(arguments)) {
		err = fmt.Errorf("the arguments of %s are not valid JSON", name)
		return failure(err), err
	}
	result, err = callWithin(ctx, tool, json.RawMessage(arguments), cmp.Or(tool.Timeout, limit))
	if err != nil {
		return shortened(failure(err), tool), err
	}
	return withNamedPictures(name, shortened(result, tool)), nil
}

// shortened returns a result whose text is cut to its tool's MaxResult.
func shortened(r Result, tool Tool) Result {
	if most := cmp.Or(tool.MaxResult, maxResult); len(r.Text) > most {
		r.Whole = r.Text
		r.Text = fmt.Sprintf("%s\n[cut: the result has %d bytes]", strings.ToValidUTF8(r.Text[:most], ""), len(r.Whole))
	}
	return r
}

// failure returns the result of a call that failed.
func failure(err error) Result { return Result{Text: "error: " + err.Error()} }

// callWithin runs a tool and returns when the limit has passed, even if the tool
// ignores its context. Its goroutine then continues until the tool returns.
func callWithin(ctx context.Context, tool Tool, arguments json.RawMessage, limit time.Duration) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not finish within %s", tool.Name, limit))
	defer cancel()
	type outcome struct {
		result Result
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
			return Result{}, context.Cause(ctx)
		}
		return o.result, o.err
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
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

func (s *set) names() string {
	names := make([]string, len(s.list))
	for i, t := range s.list {
		names[i] = t.Name
	}
	return strings.Join(names, ", ")
}
