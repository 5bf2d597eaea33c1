package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"regexp"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/plaintext"
)

// Whatever a server writes, the library is given nothing but messages that it can read, and its end.
func FuzzFramesOfServers(f *testing.F) {
	for _, seed := range []string{
		"Welcome!\n" + `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` + "\n",
		`{"result":{"a":[{"id":2}],"b":"\"}"},"jsonrpc":"2.0","id":"x"}` + "\r\n[]\n{\n",
		"event: message\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n: ping\n\nretry: 5\nevent: other\ndata: x\n\n",
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\r\n\r\nno field\n\n",
		`<html></html>`, "data:", "\n\n\n", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, written []byte) {
		body := func() io.ReadCloser { return io.NopCloser(bytes.NewReader(written)) }
		said, err := io.ReadAll(newLines(body()))
		for line := range bytes.Lines(said) {
			if !json.Valid(line) {
				t.Errorf("the line %q, %v", line, err)
			}
		}
		said, err = io.ReadAll(&answerBody{ReadCloser: body(), from: bufio.NewReader(body()), call: json.RawMessage("1")})
		if err != nil || !isMessage(said) {
			t.Errorf("the message %q, %v", said, err)
		}
		said, err = io.ReadAll(&answerBody{ReadCloser: body(), from: bufio.NewReader(body()), call: json.RawMessage("1"), isStream: true})
		if err != nil {
			t.Error(err)
		}
		var data []byte
		isOther := false
		for line := range bytes.Lines(append(said, '\n')) {
			name, value, isField := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
			switch {
			case string(name) == "data":
				data = append(append(data, value...), '\n')
			case string(name) == "event":
				isOther = string(bytes.TrimSpace(value)) != "message"
			case len(name) == 0 && !isField:
				if data = bytes.TrimSpace(data); len(data) > 0 && !isOther && !isMessage(data) {
					t.Errorf("the event %q", data)
				}
				data, isOther = nil, false
			}
		}
	})
}

var modelName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Whatever a server lists, the model is offered tools that its API takes, and a stored list is the same after a restart.
func FuzzToolsOfServers(f *testing.F) {
	for _, seed := range []string{
		`{"tools":[{"name":"pay","description":"Pays.","inputSchema":{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}}]}`,
		`{"tools":[{"name":"a b","title":"\u202e","inputSchema":{"oneOf":[1],"required":"a","properties":[]},"annotations":{"readOnlyHint":true,"destructiveHint":false}},{"name":"a b"}]}`,
		`{"tools":[{"name":"","inputSchema":true},{"name":"list_resources","inputSchema":{"properties":{"":{"$ref":"#"}}}},null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, listed []byte) {
		var page sdk.ListToolsResult
		if json.Unmarshal(listed, &page) != nil {
			return
		}
		s := &server{name: "shop", log: slog.New(slog.DiscardHandler), named: plaintext.NewRedactor()}
		known := &listing{Resources: true, Prompts: true}
		for _, tool := range page.Tools {
			if tool != nil {
				known.Tools = append(known.Tools, s.described(tool))
			}
		}
		text, err := json.Marshal(known)
		if err != nil {
			t.Fatal(err)
		}
		var stored listing
		if err := json.Unmarshal(text, &stored); err != nil {
			t.Fatal(err)
		}
		for i, r := range known.Tools {
			if again := stored.Tools[i].definition(); again != r.definition() {
				t.Errorf("the definition %q is %q after a restart", r.definition(), again)
			}
			if changes(known.Tools[0].definition(), r.definition()) == "" {
				t.Error("a change without words")
			}
		}
		offered, _ := s.toolsOf(known)
		names := map[string]bool{}
		for _, tool := range offered {
			var schema struct {
				Type       string
				Properties map[string]json.RawMessage
			}
			if err := json.Unmarshal(tool.Parameters, &schema); err != nil || schema.Type != "object" || schema.Properties == nil {
				t.Errorf("the parameters %s, %v", tool.Parameters, err)
			}
			if !modelName.MatchString(tool.Name) || names[tool.Name] {
				t.Errorf("the name %q", tool.Name)
			}
			names[tool.Name] = true
		}
	})
}
