package importer

import (
	"errors"
	"strings"
	"testing"

	"parley/conversation/steps"

	"github.com/google/go-cmp/cmp"
)

// A line may be a conversation, as for fine-tuning, with all fields of the API.
func TestLineMayBeAConversation(t *testing.T) {
	entries, err := read(t, "", `
{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:"}}]}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "see", "arguments": "{}"}}, {"id": "c2", "type": "function", "function": {"name": "hear", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "c2", "content": "silence"}, {"role": "assistant", "content": "A cat."}], "tools": []}

{"messages": [{"role": "user", "content": "old"}, {"role": "assistant", "content": null, "function_call": {"name": "see", "arguments": "{}"}}, {"role": "function", "name": "see", "content": "a dog"}]}
`)
	if err != nil || len(entries) != 2 || entries[0].Place != "line 2" || entries[1].Place != "line 4" {
		t.Fatalf("%+v, %v", entries, err)
	}
	want := []string{
		`Look, 2033-05-18 03:33:20 to 2033-05-18 03:33:20
03:33:20 user: Look / [image, not imported]
03:33:20 assistant:  -> see({}) as c1 -> hear({}) as c2
03:33:20 tool hear for c2: silence
03:33:20 tool see for c1: [the result was not kept]
03:33:20 assistant: A cat.
`,
		`old, 2033-05-18 03:33:20 to 2033-05-18 03:33:20
03:33:20 user: old
03:33:20 assistant:  -> see({}) as see
03:33:20 tool see for see: a dog
`,
	}
	for i, e := range entries {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		if diff := cmp.Diff(want[i], conversationText(e.Conversation)); diff != "" {
			t.Error(diff)
		}
	}
}

// Lines of several conversations that do not stand together are named: they are not taken for what is there already. A conversation
// that stands in the file twice is handed over as it is.
func TestLinesOfAConversationStandTogether(t *testing.T) {
	entries, err := read(t, "", `{"role": "user", "content": "one", "conversation": "a"}
{"role": "user", "content": "other", "conversation": "b"}
{"role": "user", "content": "two", "conversation": "a"}
{"messages": [{"role": "user", "content": "c"}], "conversation": "c"}
{"messages": [{"role": "user", "content": "c"}], "conversation": "c"}
{"messages": [{"role": "user", "content": "d"}], "conversation": "c"}
`)
	if err != nil || len(entries) != 6 {
		t.Fatalf("%+v, %v", entries, err)
	}
	for i, want := range []string{"", "", `more of the conversation "a"`, "", "", `more of the conversation "c"`} {
		if got := entries[i].Err; (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("%s: %v, want %q", entries[i].Place, got, want)
		}
	}
}

// Lines with a message each are one conversation, or those that they name.
func TestLineMayBeAMessage(t *testing.T) {
	entries, err := read(t, "", `{"role": "user", "content": "one", "created_at": 1709654400}
{"role": "assistant", "content": "two"}
{"role": "user", "content": "three", "conversation": "019df0a2-0000-7000-8000-000000000001", "title": "Named", "at": "2026-03-02T19:40:00Z"}
{"role": "assistant", "content": "hidden", "conversation": "019df0a2-0000-7000-8000-000000000001", "state": "replaced"}
{"role": "assistant", "content": "four", "conversation": "019df0a2-0000-7000-8000-000000000001", "state": "stopped", "finish_reason": "stop"}
{"role": "assistant", "content": "five", "conversation": "019df0a2-0000-7000-8000-000000000001", "finish_reason": "length"}
`)
	if err != nil || len(entries) != 2 || entries[1].Place != "the conversation from line 3 on" {
		t.Fatalf("%+v, %v", entries, err)
	}
	if got := conversationText(entries[0].Conversation); !strings.HasPrefix(got, "one, 2024-03-05 16:00:00") || !strings.HasSuffix(got, "16:00:00 assistant: two\n") {
		t.Error(got)
	}
	named := entries[1].Conversation
	want := "Named, 2026-03-02 19:40:00 to 2026-03-02 19:40:00\n19:40:00 user: three\n19:40:00 assistant: four\n19:40:00 assistant: five\n"
	if got := conversationText(named); got != want || named.ID != "019df0a2-0000-7000-8000-000000000001" || !named.Messages[1].Stopped {
		t.Errorf("%s: %s", named.ID, got)
	}
	if four, five := named.Messages[1].FinishReason, named.Messages[2].FinishReason; four != "" || five != steps.FinishLength {
		t.Errorf("finish reasons %q and %q", four, five)
	}
}

// A broken line is named with its number. If it is one of several lines of a conversation, that
// conversation is skipped, since no part of one is imported.
func TestBrokenLinesAreNamed(t *testing.T) {
	entries, err := read(t, JSONL, `{"messages": [{"role": "user", "content": "good"}]}
{"messages": [{"role": "user", "content": "bad
{"messages": [{"role": "user", "content": 7}]}
{"messages": [{"role": "user"}, {"role": "critic"}]}
{"messages": "text"}
{"neither": 1}
{"messages": []}
{"role": "user", "content": "begins", "conversation": "a"}
[1]
{"role": "user", "content": "goes on", "conversation": "a"}
{"role": "user", "content": "another", "conversation": "b"}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ place, err string }{
		{"line 1", ""},
		{"line 2", "unexpected end of JSON input"},
		{"line 3", "message 1: content: found 7, allowed: a text, null or a list of parts"},
		{"line 4", `message 2: role: found "critic", allowed: user, assistant, tool`},
		{"line 5", "messages: found a JSON string"},
		{"line 6", `found neither "messages" nor "role"`},
		{"line 7", "nothing is said in it"},
		{"the conversation from line 8 on", "line 9: "},
		{"the conversation from line 11 on", ""},
	}
	if len(entries) != len(want) {
		t.Fatalf("%d entries: %+v", len(entries), entries)
	}
	for i, e := range entries {
		got := ""
		if e.Err != nil {
			got = e.Err.Error()
		}
		if e.Place != want[i].place || (got == "") != (want[i].err == "") || !strings.Contains(got, want[i].err) {
			t.Errorf("%s: %s; want %s: %s", e.Place, got, want[i].place, want[i].err)
		}
	}
}

// TestConversationsThatAreTooLargeAreSkipped imports the others. A conversation that unpacks to
// gigabytes is never in memory.
func TestConversationsThatAreTooLargeAreSkipped(t *testing.T) {
	defer func(was int) { maxConversation = was }(maxConversation)
	maxConversation = 1 << 20
	huge := strings.Repeat(`\"]}`, maxConversation/4) // a quoted end does not end the conversation
	line := `{"messages": [{"role": "user", "content": "good"}]}` + "\n"
	message := `{"role": "user", "conversation": "long", "content": "` + strings.Repeat("x", maxConversation/2) + `"}` + "\n"
	node := `"n": {"message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["good"]}}}`
	chat := `{"id": "a", "current_node": "n", "mapping": {` + node + `}}`
	for name, tc := range map[string]struct {
		format Format
		text   string
	}{
		"a line":                {JSONL, line + `{"role": "` + huge + `"}` + "\n" + line},
		"a line without an end": {JSONL, line + line + "{" + huge},
		"many lines":            {JSONL, line + message + message + message + line},
		"an element":            {ChatGPT, "[" + chat + `, {"id": "` + huge + `", "mapping": {}}, ` + chat + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			entries, err := read(t, tc.format, tc.text)
			if err != nil || len(entries) != 3 {
				t.Fatalf("%d entries, %v; want 3", len(entries), err)
			}
			left := 0
			for _, e := range entries {
				switch {
				case errors.Is(e.Err, errTooLarge):
					left++
				case e.Err != nil || len(e.Conversation.Messages) != 1 || e.Conversation.Messages[0].Content != "good":
					t.Errorf("%s: %v, %d messages", e.Place, e.Err, len(e.Conversation.Messages))
				}
			}
			if left != 1 {
				t.Errorf("%d conversations were left out, want the one that is too large", left)
			}
		})
	}
}
