package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"parley/tools"
)

// Found is what a server says of itself, for the operator.
type Found struct {
	Name, Title, Version, Protocol string
	Instructions                   string
	Took                           time.Duration // time until the server had listed its tools
	Tools                          []FoundTool
	LeftOut                        []string // tools that can't be offered, with the reason
}

// FoundTool is a tool of a server.
type FoundTool struct {
	Tool       string // the server's name of the tool
	Offered    string // the model's name of the tool; "" where the configuration does not allow the tool
	ReadOnly   bool
	Idempotent bool
	Repeatable bool // a call under way at a crash is made again
	Key        bool
	About      string
}

// Probe starts a server and returns what it says of itself.
func (all *Servers) Probe(ctx context.Context, name string) (Found, error) {
	s, err := all.find(name)
	if err != nil {
		return Found{}, err
	}
	began := time.Now()
	conn, err := s.connect(ctx)
	if err != nil {
		return Found{}, err
	}
	is := conn.session.InitializeResult()
	f := Found{Took: time.Since(began), Protocol: is.ProtocolVersion, Instructions: is.Instructions}
	if is.ServerInfo != nil {
		f.Name, f.Title, f.Version = is.ServerInfo.Name, is.ServerInfo.Title, is.ServerInfo.Version
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.LeftOut, f.Tools = s.leftOut, s.found()
	return f, nil
}

// found returns the tools that the server has listed. The caller holds mu.
func (s *server) found() (list []FoundTool) {
	if s.known == nil {
		return nil
	}
	for _, r := range s.known.Tools {
		tool := s.tool(r)
		found := FoundTool{Tool: shownName(r.Name), ReadOnly: r.ReadOnly, Idempotent: r.Idempotent, Repeatable: tool.Repeatable, Key: s.config.Tools[r.Name].Key, About: r.Description}
		if s.config.allows(r.Name) {
			found.Offered = tool.Name
		}
		list = append(list, found)
	}
	return list
}

// Call calls a tool as the model would, by the server's name of it or by the model's.
func (all *Servers) Call(ctx context.Context, name, tool, arguments string) (string, error) {
	s, err := all.find(name)
	if err != nil {
		return "", err
	}
	if _, err := s.connect(ctx); err != nil {
		return "", err
	}
	s.mu.Lock()
	offered, _ := s.toolsOf(s.known)
	s.mu.Unlock()
	registry, err := tools.NewRegistry(offered...)
	if err != nil {
		return "", err
	}
	if !registry.Has(tool) {
		tool = toolName(name, tool)
	}
	if !registry.Has(tool) {
		var names []string
		for _, t := range offered {
			names = append(names, strings.TrimPrefix(t.Name, name+"_"))
		}
		return "", fmt.Errorf("found the tool %q, allowed: %s", strings.TrimPrefix(tool, name+"_"), strings.Join(names, ", "))
	}
	if !json.Valid([]byte(arguments)) {
		return "", fmt.Errorf(`found arguments that are no JSON, allowed: an object such as {"path": "notes"}`)
	}
	result, err := registry.Call(ctx, tool, arguments, s.config.Timeout)
	return cmp.Or(result.Whole, result.Text), err
}
