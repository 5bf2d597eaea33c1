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
		body, err := encodeMessages([]Message{{Role: "user", Content: text}}, nil)
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
