package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// callsText is what a message's tool calls say, given as they are stored, in a
// line for each: "calls write_file: path notes.md content Buy milk". A file's
// name is found by it, and read without JSON's escapes.
func callsText(stored string) string {
	if stored == "" {
		return ""
	}
	var calls []ToolCall
	if err := json.Unmarshal([]byte(stored), &calls); err != nil {
		return stored
	}
	lines := make([]string, len(calls))
	for i, call := range calls {
		lines[i] = "calls " + call.Name + ": " + argumentsText(call.Arguments)
	}
	return strings.Join(lines, "\n")
}

// argumentsText gives the names and values of a JSON text in their order, or the
// text itself when it is none: models write what they like.
func argumentsText(arguments string) string {
	decoder := json.NewDecoder(strings.NewReader(arguments))
	decoder.UseNumber()
	var values []string
	for {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF):
			return strings.Join(values, " ")
		case err != nil:
			return arguments
		}
		if _, structure := token.(json.Delim); !structure && token != nil {
			values = append(values, fmt.Sprint(token))
		}
	}
}
