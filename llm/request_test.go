package llm

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// Texts of people and models reach the server unchanged.
func FuzzTextsReachTheServerAsWritten(f *testing.F) {
	for _, text := range []string{"plain", "two\nlines\tand \"quotes\" \\ \x00 \x1f \x7f", "\u2028 <b>&amp;</b> 🙂", "broken \xff\xfe", `\u0041`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body, err := encodeMessages([]Message{{Role: "user", Content: text}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var list []struct{ Role, Content string }
		if err := json.Unmarshal(body, &list); err != nil || len(list) != 1 {
			t.Fatalf("%s: %v", body, err)
		}
		want := strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
		if strings.TrimSpace(want) != "" && list[0].Content != want {
			t.Fatalf("sent %q, want %q", list[0].Content, want)
		}
	})
}

// Tool calls of imported conversations are sent with IDs and names that servers take, each result with the ID of its call.
func TestToolCallsFromElsewhereAreSentInTheFormOfTheAPI(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("call_with_a_thought", 100)
	body, err := encodeMessages([]Message{
		{Role: "assistant", ToolCalls: []ToolCall{{ID: long, Name: "my tool", Arguments: "{}"}, {ID: long + "2", Name: strings.Repeat("f", 100), Arguments: "{}"}}},
		{Role: "tool", ToolCallID: long, Name: "my tool", Content: "done"},
		{Role: "tool", ToolCallID: long + "2", Name: strings.Repeat("f", 100), Content: "done"},
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []wireMessage
	if err := json.Unmarshal(body, &list); err != nil || len(list) != 3 || len(list[0].ToolCalls) != 2 {
		t.Fatalf("%s: %v", body, err)
	}
	for i, call := range list[0].ToolCalls {
		result := list[i+1]
		if len(call.ID) > maxCallID || call.ID != result.ToolCallID || call.Function.Name != result.Name {
			t.Errorf("call %+v, result %+v", call, result)
		}
	}
	if calls := list[0].ToolCalls; calls[0].ID == calls[1].ID || calls[0].Function.Name != "my_tool" || len(calls[1].Function.Name) != maxToolName {
		t.Errorf("%+v", calls)
	}
}

// The names of people stay apart in every script, in the form that servers take.
func TestNamesOfWritersAreSentAsWritten(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ben_2": "ben_2", "Jürgen": "Jürgen", "山田": "山田", "Zoë  de <Wit>": "Zoë_de_Wit_", "a\u00a0b": "a_b", strings.Repeat("é", 100): strings.Repeat("é", 64), "": "",
	} {
		body, err := encodeMessages([]Message{{Role: "user", Name: name, Content: "hi"}}, nil, nil)
		var list []wireMessage
		if err != nil || json.Unmarshal(body, &list) != nil || list[0].Name != want {
			t.Errorf("%q: %s, want %q: %v", name, body, want, err)
		}
	}
}

// No object of a request has a key twice: strict parsers refuse that, and others choose one of the values.
func TestRequestHoldsEachKeyOnce(t *testing.T) {
	t.Parallel()
	half := 0.5
	cfg := Config{Temperature: &half, MaxOutputTokens: 7}.WithDefaults()
	wire := newTemplate("m", cfg, slog.New(slog.DiscardHandler)).request(Request{
		Messages: []Message{
			{Role: "user", Content: "look", Images: []Image{{MediaType: "image/png", Data: []byte{1}}}},
			{Role: "assistant", ToolCalls: []ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}},
			{Role: "tool", ToolCallID: "a", Name: "f", Content: "done"},
		},
		Tools: []Tool{{Name: "f", Parameters: json.RawMessage(noParameters)}},
	})
	for range 2 { // the second body is made anew, without stream_options
		body, err := wire.encode()
		if err != nil {
			t.Fatal(err)
		}
		if value, err := jsontext.NewDecoder(bytes.NewReader(body)).ReadValue(); err != nil || len(value) != len(body) {
			t.Fatalf("%v in %s", err, body)
		}
		wire.withoutStreamOptions()
	}
}
