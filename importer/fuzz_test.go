package importer

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"parley/conversation"
	"parley/conversation/transcript"
)

// zipOf returns an archive of stored members, so that their bytes can be changed.
func zipOf(f *testing.F, members ...string) []byte {
	f.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		member, err := w.CreateHeader(&zip.FileHeader{Name: members[i], Method: zip.Store})
		if err == nil {
			_, err = io.WriteString(member, members[i+1])
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}

// Whatever a file holds, each conversation of it can be stored and sent to a model, and is not many times
// as long as the file.
func FuzzRead(f *testing.F) {
	export, err := os.ReadFile("testdata/conversations.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(export),
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}},{"id":"1","function":{"name":"g h"}}]},{"role":"tool","tool_call_id":"1","content":[{"type":"image_url"},{"type":"text","text":"b"}]}]}`,
		"{\"role\":\"user\",\"content\":\"a\",\"conversation\":\"x\",\"at\":\"9999-01-01T00:00:00Z\"}\n{\"role\":\"function\",\"name\":\"f\",\"content\":\"b\",\"conversation\":\"x\"}\n",
		"{\"type\":\"session\",\"version\":1,\"session\":\"cli:a\"}\n{\"type\":\"conversation\",\"id\":\"01890a5d-ac96-774b-bcce-b302099a8057\",\"conversation\":\"01890a5d-ac96-774b-bcce-b302099a8057\"}\n{\"conversation\":\"01890a5d-ac96-774b-bcce-b302099a8057\",\"role\":\"user\",\"content\":\"hi\"}\n",
		"{\n\"session\":\"cli:a\",\"version\":1,\"conversations\":[\n{\"id\":\"01890a5d-ac96-774b-bcce-b302099a8057\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}]}",
		"{\n\"conversations\":[{\"id\":\"a\",\"title\":\"t\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}]}",
	} {
		f.Add([]byte(seed))
	}
	// Names that the importer makes itself, and marks that all name one long reference.
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"id":"imported_1","function":{"name":"f"}},{"function":{"name":"g"}}]}]}`))
	f.Add([]byte(`[{"current_node":"a","mapping":{"a":{"message":{"author":{"role":"assistant"},"content":{"parts":["` + strings.Repeat(`\ue200a\ue201`, 300) + `"]},` +
		`"metadata":{"content_references":[{"matched_text":"\ue200a\ue201","alt":"` + strings.Repeat("long ", 1000) + `"}]}}}}}]`))
	f.Add(zipOf(f, "conversations.json", string(export), "conversation_asset_file_names.json", `{"file-a.dat":"cat.png"}`, "file-a.dat", "x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var file *File
		var err error
		if archive, notZip := zip.NewReader(bytes.NewReader(data), int64(len(data))); notZip == nil {
			if file, err = newArchive(archive, func() error { return nil }); err == nil && file.size > 1<<20 {
				return // its members say more of their sizes than the file has
			}
		} else {
			file, err = newFile(io.NopCloser(bytes.NewReader(data)), int64(len(data)), "")
		}
		if err != nil {
			return
		}
		size := 0
		_ = file.Read(key, now, func(int) {}, func(e Entry) error {
			if e.Archived != nil {
				for _, err := range e.Archived.Records {
					if err != nil {
						break
					}
				}
			} else if e.Err == nil {
				size += checkImported(t, e)
			}
			return nil
		})
		if size > 64*len(data)+1<<10 {
			t.Errorf("%d bytes became %d", len(data), size)
		}
	})
}

// checkImported checks a conversation, and returns how many bytes it has.
func checkImported(t *testing.T, e Entry) (size int) {
	t.Helper()
	c := e.Conversation
	if id, err := uuid.Parse(c.ID); err != nil || id.Version() != 7 {
		t.Errorf("the id %q is no UUIDv7", c.ID)
	}
	if utf8.RuneCountInString(c.Title) > maxTitle || !utf8.ValidString(c.Title) {
		t.Errorf("the title %q", c.Title)
	}
	if len(c.Messages) == 0 || c.UpdatedAt.After(now) {
		t.Errorf("%d messages until %v", len(c.Messages), c.UpdatedAt)
	}
	var open []string // IDs of calls without a result
	for _, m := range c.Messages {
		if _, err := json.Marshal([]any{m.At, c.CreatedAt, c.UpdatedAt}); err != nil {
			t.Error(err)
		}
		if !utf8.ValidString(m.Content) || !utf8.ValidString(m.SourceID) {
			t.Errorf("the message %q is no UTF-8", m.Content)
		}
		size += len(m.Content)
		switch {
		case m.Role == conversation.RoleTool && slices.Contains(open, m.ToolCallID):
			open = slices.DeleteFunc(open, func(id string) bool { return id == m.ToolCallID })
		case m.Role == conversation.RoleTool:
			t.Errorf("a result of %q, while %q are open", m.ToolCallID, open)
		case len(open) > 0:
			t.Errorf("%q have no results", open)
		}
		for _, call := range m.ToolCalls {
			if slices.Contains(open, call.ID) {
				t.Errorf("two calls of a message have the id %q", call.ID)
			}
			open = append(open, call.ID)
			size += len(call.Arguments)
			if call.Name == "" || call.Name != toolName(call.Name) {
				t.Errorf("the call %q", call.Name)
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("%q have no results at the end", open)
	}
	return size
}

// Whatever people, models and tools write, an export of it reads back as it was.
func FuzzExportReadsBack(f *testing.F) {
	f.Add("a question", "an answer", "Ada", `{"q":1}`, "a result")
	f.Add("\x00\xff\u2028{\"role\":\"user\"}\n", "```\r\n\x1b[2J", "\u202eevil\n", "no JSON \xf0\x9f", "</script>\\u0000")
	f.Fuzz(func(t *testing.T, question, answer, sender, arguments, result string) {
		valid := func(text string) string { return strings.ToValidUTF8(text, "\uFFFD") } // as the store has all texts
		messages := []conversation.Message{
			{Role: conversation.RoleUser, Content: "?" + valid(question), Sender: conversation.Sender{ID: "1", Name: valid(sender)}},
			{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "call " + valid(sender), Name: "f", Arguments: valid(arguments)}}},
			{Role: conversation.RoleTool, ToolCallID: "call " + valid(sender), ToolName: "f", Content: valid(result)},
			{Role: conversation.RoleAssistant, Content: "!" + valid(answer)},
		}
		for i := range messages {
			messages[i].At = now.UTC()
		}
		for _, format := range []transcript.Format{transcript.JSONL, transcript.JSON} {
			var out bytes.Buffer
			c := conversation.Conversation{ID: "01890a5d-ac96-774b-bcce-b302099a8057", Title: valid(answer), CreatedAt: now, UpdatedAt: now}
			w := transcript.NewWriter(&out, format, key, "")
			err := transcript.Copy(w, c, func(yield func(conversation.Message, error) bool) {
				for _, m := range messages {
					if !yield(m, nil) {
						return
					}
				}
			})
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			file, err := newFile(io.NopCloser(&out), 0, "")
			if err != nil {
				t.Fatal(err)
			}
			var read []Entry
			err = file.Read(key, now, func(int) {}, func(e Entry) error { read = append(read, e); return e.Err })
			if err != nil || len(read) != 1 {
				t.Fatalf("%s: %d conversations, %v", format, len(read), err)
			}
			for i := range read[0].Conversation.Messages {
				read[0].Conversation.Messages[i].At = now.UTC()
			}
			if diff := cmp.Diff(messages, read[0].Conversation.Messages, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", format, diff)
			}
		}
	})
}
