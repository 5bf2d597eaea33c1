package llm

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever people and models write reaches the server as it was written.
func FuzzTextsReachTheServerAsWritten(f *testing.F) {
	for _, text := range []string{"plain", "two\nlines\tand \"quotes\" \\ \x00 \x1f \x7f", "\u2028 <b>&amp;</b> 🙂", "broken \xff\xfe", `\u0041`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body, err := encodeMessages([]Message{{Role: "user", Content: text}})
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
