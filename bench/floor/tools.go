package main

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	openai "github.com/sashabaranov/go-openai"
)

// prefix stands before the names of tools, as in the gateway with a server named shop.
const prefix = "shop_"

// toolServer is an MCP server with its tools.
type toolServer struct {
	session *mcp.ClientSession
	tools   []openai.Tool
}

// startTools starts a server and lists its tools.
func startTools(program string, args []string) (*toolServer, error) {
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "floor", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: exec.Command(program, args...)}, nil)
	if err != nil {
		return nil, err
	}
	s := &toolServer{session: session}
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		s.tools = append(s.tools, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: prefix + tool.Name, Description: tool.Description, Parameters: tool.InputSchema,
		}})
	}
	return s, nil
}

// offered returns the tools that the model may call.
func (s *toolServer) offered() []openai.Tool {
	if s == nil {
		return nil
	}
	return s.tools
}

// call makes a call and returns its result for the model.
func (s *toolServer) call(call openai.ToolCall) (result openai.ChatCompletionMessage, err error) {
	if s == nil {
		return result, errors.New("the model asks for a tool, and there is none")
	}
	returned, err := s.session.CallTool(context.Background(), &mcp.CallToolParams{
		Name: call.Function.Name[len(prefix):], Arguments: json.RawMessage(call.Function.Arguments),
	})
	if err != nil {
		return result, err
	}
	result = openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: call.ID}
	for _, part := range returned.Content {
		if text, is := part.(*mcp.TextContent); is {
			result.Content += text.Text
		}
	}
	return result, nil
}

// withDeltas adds the pieces of tool calls that a chunk of a stream has.
func withDeltas(calls []openai.ToolCall, deltas []openai.ToolCall) []openai.ToolCall {
	for _, delta := range deltas {
		if delta.Index == nil || *delta.Index >= len(calls) {
			delta.Index = nil
			calls = append(calls, delta)
			continue
		}
		calls[*delta.Index].Function.Arguments += delta.Function.Arguments
	}
	return calls
}
