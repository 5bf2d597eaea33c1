package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/state"
	"parley/conversation/steps"
)

var talk = conversation.Conversation{
	ID: "019df0a2-0000-7000-8000-000000000001", Key: "telegram:chat:42", Title: "Lisbon", Active: true, Messages: 8, Tokens: 99,
	CreatedAt: at(0), UpdatedAt: at(30),
	State: state.State{Turns: 2, Constraints: []state.Note{{Text: "never use an ORM", Turn: 1}}},
}

func at(hours int) time.Time {
	return time.Date(2026, 3, 2, 19, 40, 0, 0, time.UTC).Add(time.Duration(hours) * time.Hour)
}

func records() []conversation.Message {
	messages := []conversation.Message{
		{Role: conversation.RoleUser, Content: "What time is it there?", Sender: conversation.Sender{ID: "1", Name: "Mira\nthe first"}, SourceID: "7", At: at(0)},
		{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "c1", Name: "current_time", Arguments: `{"timezone":"Europe/Lisbon"}`}}, At: at(0)},
		{Role: conversation.RoleTool, Content: "Monday\n\n# 20:47", ToolCallID: "c1", ToolName: "current_time", At: at(0)},
		{Role: conversation.RoleAssistant, Content: "an answer that was replaced", At: at(0)},
		{Role: conversation.RoleAssistant, Content: "It is **20:47**.", At: at(0)},
		{Role: conversation.RoleUser, Content: "\x1b[2Jlook\u202e\r\nhere 👩‍🚀", Images: []media.Image{{Name: "cat.png", MediaType: "image/png", Size: 5}}, At: at(30)},
		{Role: conversation.RoleUser, Content: "a note", At: at(30)},
		{Role: conversation.RoleAssistant, Content: "```go\nfunc main() {", Stopped: true, At: at(30)},
	}
	var list []conversation.Message
	for i, m := range messages {
		m.Seq, m.Tokens = int64(i+1), 3
		list = append(list, m)
	}
	list[3].State, list[6].Internal, list[7].State = "replaced", true, "stopped"
	return list
}

func write(t *testing.T, format Format, conversations int) string {
	t.Helper()
	var out strings.Builder
	w := NewWriter(&out, format, "telegram:chat:42", "Mira's \x1b]0;x\a chat")
	for range conversations {
		if err := w.Conversation(talk); err != nil {
			t.Fatal(err)
		}
		for _, r := range records() {
			if err := w.Message(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The formats of the files do not change by accident: users see such a change, and in JSON it breaks their
// programs.
func TestFormatsOfTranscriptsDoNotChange(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{Markdown, JSON, JSONL} {
		golden := "testdata/talk." + string(format)
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), write(t, format, 1)); diff != "" {
			t.Errorf("%s: %s", golden, diff)
		}
	}
}

func TestJSONOfManyConversationsIsOneDocument(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		var document struct {
			Session       string
			Conversations []struct {
				ID       string
				Messages []Message
			}
		}
		text := write(t, JSON, n)
		if err := json.Unmarshal([]byte(text), &document); err != nil {
			t.Fatalf("%d conversations: %v\n%s", n, err, text)
		}
		if len(document.Conversations) != n || document.Session != "telegram:chat:42" {
			t.Errorf("%d conversations: %+v", n, document)
		}
		for _, c := range document.Conversations {
			if len(c.Messages) != 8 || c.Messages[5].Content != records()[5].Content {
				t.Errorf("the messages changed: %+v", c.Messages)
			}
		}
	}
}

// Pictures are exported unchanged on request. Otherwise the file names them.
func TestPicturesAreExportedWithTheirBytesOnRequest(t *testing.T) {
	t.Parallel()
	record := records()[5]
	for _, data := range [][]byte{nil, []byte("\x89PNG<&>")} {
		record.Images[0].Data = data
		line, err := Marshal(NewMessage(record))
		if err != nil {
			t.Fatal(err)
		}
		var read Message
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatal(err)
		}
		if got := read.Images[0]; got.Name != "cat.png" || !bytes.Equal(got.Data, data) {
			t.Errorf("%s", line)
		}
	}
}

func TestCutAnswerSaysSo(t *testing.T) {
	t.Parallel()
	record := conversation.Message{
		Seq: 2, Role: conversation.RoleAssistant, Content: "Once upon a", FinishReason: steps.FinishLength, At: at(0),
	}
	for format, want := range map[Format]string{
		Markdown: "**Assistant** · 19:40 · cut off at the length limit\n\nOnce upon a\n", JSONL: `"finish_reason":"length"`, JSON: `"finish_reason":"length"`,
	} {
		var out strings.Builder
		w := NewWriter(&out, format, "telegram:chat:42", "")
		if err := errors.Join(w.Conversation(talk), w.Message(record), w.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s", out.String())
		}
	}
}

// A transcript ends with an error if the messages can't all be read.
func TestCopyEndsWithTheErrorOfTheReader(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk failed")
	read := func(yield func(conversation.Message, error) bool) {
		if yield(records()[0], nil) {
			yield(conversation.Message{}, broken)
		}
	}
	var out strings.Builder
	err := Copy(NewWriter(&out, JSONL, talk.Key, ""), talk, read)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), talk.ID) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v, after %q", err, out.String())
	}
}

// A transcript that is printed contains nothing that controls the terminal.
func TestTranscriptsHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{Markdown, JSON, JSONL} {
		if text := write(t, format, 2); strings.ContainsAny(text, "\x1b\a\r\u202e\u009b") {
			t.Errorf("%s: %q", format, text)
		}
	}
}

func TestUnknownFormatsAreNamed(t *testing.T) {
	t.Parallel()
	if _, err := ParseFormat("pdf"); err == nil || !strings.Contains(err.Error(), `found "pdf", allowed: md, json, jsonl`) {
		t.Errorf("got %v", err)
	}
}
