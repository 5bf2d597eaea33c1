package importer

import (
	"archive/zip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/llm"
)

const key = conversation.Key("cli:default")

var now = time.Unix(2_000_000_000, 0)

// read returns the entries of a text, and the error that ends it.
func read(t *testing.T, format Format, text string) (entries []Entry, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return readPath(t, path, format)
}

func readPath(t *testing.T, path string, format Format) (entries []Entry, err error) {
	t.Helper()
	file, err := Open(path, format)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	bytes := 0
	err = file.Read(key, now, func(n int) { bytes += n }, func(e Entry) error {
		entries = append(entries, e)
		return nil
	})
	if err == nil && int64(bytes) < file.Size()/2 {
		t.Errorf("progress was told %d of %d bytes", bytes, file.Size())
	}
	return entries, err
}

// conversationText returns a conversation with a line for each message.
func conversationText(c archive.Imported) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s to %s\n", c.Title, c.CreatedAt.UTC().Format(time.DateTime), c.UpdatedAt.UTC().Format(time.DateTime))
	for _, m := range c.Messages {
		fmt.Fprintf(&b, "%s %s", m.At.UTC().Format("15:04:05"), m.Role)
		if m.ToolName != "" {
			fmt.Fprintf(&b, " %s for %s", m.ToolName, m.ToolCallID)
		}
		fmt.Fprintf(&b, ": %s", strings.ReplaceAll(m.Content, "\n", " / "))
		for _, call := range m.ToolCalls {
			fmt.Fprintf(&b, " -> %s(%s) as %s", call.Name, call.Arguments, call.ID)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// A conversation of ChatGPT is imported as its user saw it last: the chosen branch, without hidden messages.
func TestChatGPTConversationsReadAsTheirUserSawThem(t *testing.T) {
	entries, err := readPath(t, "testdata/conversations.json", "")
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	want := []string{
		`Tidying photos, 2024-03-05 16:00:00 to 2024-03-05 17:00:00
16:00:01 user: [image cat.png, not imported] / How many of these are blurred? / [file list.csv, not imported]
16:00:04 assistant:  -> python({"input":"print(len(blurred))"}) as n5
16:00:05 tool python for n5: 3 / [image file_plot, not imported]
16:00:06 assistant: Three of them.
16:00:06 assistant:  -> dalle_text2im({}) as imported_1
16:00:06 tool dalle_text2im for imported_1: a result that nothing asked for
`,
		`Hello, 2024-03-05 16:01:40 to 2024-03-05 16:01:41
16:01:40 user: Hello / there
16:01:41 assistant: Hi.
`,
	}
	for i, e := range entries {
		if e.Err != nil {
			t.Fatalf("%s: %v", e.Place, e.Err)
		}
		if diff := cmp.Diff(want[i], conversationText(e.Conversation)); diff != "" {
			t.Errorf("%s: %s", e.Place, diff)
		}
		if id, err := uuid.Parse(e.Conversation.ID); err != nil || id.Version() != 7 {
			t.Errorf("%s: the id %s is no UUIDv7, %v", e.Place, e.Conversation.ID, err)
		}
	}
}

// Exports of 2025 and 2026 contain voice, marks for sources and cards, quotes of pages, branches without
// a beginning, and sometimes no current node.
func TestNewerChatGPTConversations(t *testing.T) {
	t.Parallel()
	node := func(name, parent, role, content, more string) string {
		return fmt.Sprintf(`%q: {"id": %q, "parent": %s, "children": [], "message": {"id": %q, "author": {"role": %q, "name": null, "metadata": {}}, "create_time": 17600000%s, "update_time": null,
			"status": "finished_successfully", "end_turn": true, "weight": 1.0, "channel": null, "recipient": "all", "content": %s, "metadata": {"is_complete": true, "citations": [], %s "timestamp_": "absolute"}}}`,
			name, name, parent, name, role, name[1:], content, more)
	}
	text := func(words string) string { return `{"content_type": "text", "parts": [` + words + `]}` }
	cited := `"The mill closes at six \ue200cite\ue202turn0search3\ue202turn0search9\ue201. \ue200entity\ue202[\"company\",\"Mill & Sons\",\"a mill\"]\ue201 \ue200image_group\ue202{\"query\":[\"mill\"]}\ue201 says so, see \ue200url\ue202its page\ue202https://mill.example/\ue201 \ue200cite\ue202turn0news1\ue201\ue203."`
	references := `"content_references": [{"matched_text": "\ue200cite\ue202turn0search3\ue202turn0search9\ue201", "start_idx": 23, "end_idx": 60, "alt": "([Mill](https://mill.example/hours))", "type": "grouped_webpages"},
		{"matched_text": " ", "alt": "", "type": "sources_footnote"}, {"matched_text": "\ue200image_group\ue202{\"query\":[\"mill\"]}\ue201", "alt": null, "type": "hidden"}],`
	for name, c := range map[string]struct{ nodes, want []string }{
		"sources and cards": {
			[]string{node("n1", "null", "user", text(`"When?"`), ""), node("n2", `"n1"`, "assistant", text(cited), references)},
			[]string{"user: When?", "assistant: The mill closes at six ([Mill](https://mill.example/hours)). Mill & Sons says so, see [its page](https://mill.example/)."},
		},
		"voice": {
			[]string{
				node("n1", "null", "user", `{"content_type": "multimodal_text", "parts": [{"content_type": "audio_transcription", "text": "Good morning", "direction": "in"},
					{"content_type": "real_time_user_audio_video_asset_pointer", "frames_asset_pointers": [], "video_container_asset_pointer": null, "audio_asset_pointer": {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_9", "format": "wav"}}]}`, ""),
				node("n2", `"n1"`, "assistant", `{"content_type": "multimodal_text", "parts": [{"content_type": "audio_transcription", "text": "Good morning to you", "direction": "out"}]}`, ""),
			},
			[]string{"user: Good morning / [audio file_9, not imported]", "assistant: Good morning to you"},
		},
		"quotes and canvas output": {
			[]string{
				node("n1", "null", "user", text(`"Read it"`), ""),
				node("n2", `"n1"`, "assistant", `{"content_type": "tether_quote", "url": "https://a.example/", "domain": "a.example", "title": "A page", "text": "It says so."}`, ""),
				node("n3", `"n2"`, "assistant", `{"content_type": "citable_code_output", "output_str": "42"}`, ""),
			},
			[]string{"user: Read it", "assistant: A page / https://a.example/ / It says so.", "assistant: 42"},
		},
		"a deleted beginning": {
			[]string{node("n2", `"gone"`, "user", text(`"And now?"`), ""), node("n3", `"n2"`, "assistant", text(`"Now it rains."`), "")},
			[]string{"user: And now?", "assistant: Now it rains."},
		},
		"branches": {
			[]string{node("n1", "null", "user", text(`"Hi"`), ""), node("n2", `"n1"`, "assistant", text(`"older"`), ""), node("n3", `"n1"`, "assistant", text(`"newest"`), "")},
			[]string{"user: Hi", "assistant: newest"},
		},
	} {
		for _, current := range []string{"null", `"n9"`} { // which says nothing, or names what was deleted
			entries, err := read(t, ChatGPT, `[{"id": "x", "title": "T", "current_node": `+current+`, "is_archived": false, "gizmo_id": null, "voice": null, "mapping": {`+strings.Join(c.nodes, ",")+`}}]`)
			if err != nil || len(entries) != 1 || entries[0].Err != nil {
				t.Errorf("%s: %+v, %v", name, entries, err)
				continue
			}
			var got []string
			for _, m := range entries[0].Conversation.Messages {
				got = append(got, string(m.Role)+": "+strings.ReplaceAll(m.Content, "\n", " / "))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// ChatGPT's export, a .zip file, is imported without unpacking.
func TestZipArchiveIsImportedUnchanged(t *testing.T) {
	inside, err := os.ReadFile("testdata/conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "export.zip")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(file)
	for _, name := range []string{"data/conversations-001.json", "chat.html", "data/conversations-000.json"} {
		w, err := archive.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(inside); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := readPath(t, path, "")
	if err != nil || len(entries) != 4 || entries[0].Place != "data/conversations-000.json, conversation 1" {
		t.Fatalf("%+v, %v", entries, err)
	}
	if entries[0].Conversation.ID != entries[2].Conversation.ID || entries[0].Conversation.ID == entries[1].Conversation.ID {
		t.Error("ids do not stand for conversations")
	}
}

func chatGPT(mapping string) string {
	return `{"id": "x", "current_node": "a", "mapping": {` + mapping + `}}`
}

const goodNode = `"a": {"parent": null, "message": {"id": "a", "author": {"role": "user"}, "content": {"content_type": "text", "parts": ["good"]}}}`

// A broken conversation is named with the reason, and the others are imported.
func TestBrokenConversationsAreNamedAndSkipped(t *testing.T) {
	message := func(m string) string { return chatGPT(`"a": {"parent": null, "message": ` + m + `}`) }
	for broken, want := range map[string]string{
		chatGPT(`"a": {"parent": "b"}, "b": {"parent": "a"}`): `the message "a" follows on itself`,
		chatGPT(`"a": {"parent": "a"}`):                       `the message "a" follows on itself`,
		chatGPT(`"a": {"parent": "gone"}`):                    `nothing is said in it`,
		chatGPT(``):                                           `current_node: found "a"`,
		chatGPT(`"a": {"parent": 7}`):                         `mapping.parent: found a JSON number`,
		`{"mapping": [1, 2]}`:                                 `mapping: found a JSON array`,
		`{"title": {"a": 1}}`:                                 `title: found a JSON object`,
		`17`:                                                  `found a JSON number`,
		`null`:                                                `current_node: found ""`,
		`"text"`:                                              `found a JSON string`,
		message(`{"author": {"role": "critic"}}`):             `author.role: found "critic", allowed: user, assistant, tool, system`,
		message(`{"author": {"role": "user"}, "content": {"parts": [7]}}`):                            `content.parts`,
		message(`{"author": "user"}`):                                                                 `author: found a JSON string`,
		message(`{"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["  "]}}`): `nothing is said in it`,
		message(`null`): `nothing is said in it`,
	} {
		entries, err := read(t, ChatGPT, "["+chatGPT(goodNode)+","+broken+","+chatGPT(goodNode)+"]")
		if err != nil || len(entries) != 3 || entries[0].Err != nil || entries[2].Err != nil {
			t.Errorf("%s: %+v, %v", broken, entries, err)
			continue
		}
		if got := entries[1]; got.Place != "conversation 2" || got.Err == nil || !strings.Contains(got.Err.Error(), want) || strings.HasPrefix(got.Err.Error(), ":") {
			t.Errorf("%s:\n%s: %v, want %s", broken, got.Place, got.Err, want)
		}
	}
}

// A conversation that was used in the future would be the first in all lists for ever, and never be deleted for its age.
func TestNothingWasUsedInTheFuture(t *testing.T) {
	entries, err := read(t, ChatGPT, `[{"id": "c", "update_time": 253402300799, "current_node": "a", "mapping": {`+goodNode+`}}]`)
	if err != nil || len(entries) != 1 || !entries[0].Conversation.UpdatedAt.Equal(now) {
		t.Errorf("%+v, %v", entries, err)
	}
}

// Conversations before the end of a truncated file are imported, and the end is reported.
func TestTruncatedFileIsImportedUpToItsEnd(t *testing.T) {
	whole, err := os.ReadFile("testdata/conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(whole)-2; cut += 97 {
		entries, err := read(t, ChatGPT, string(whole[:cut]))
		if err == nil || !strings.Contains(err.Error(), "the file ends in the middle") {
			t.Fatalf("cut at %d: %d entries, %v", cut, len(entries), err)
		}
		for _, e := range entries {
			if e.Err != nil {
				t.Errorf("cut at %d: %v", cut, e.Err)
			}
		}
	}
}

func TestInvalidImportIsExplained(t *testing.T) {
	for text, want := range map[string]string{
		"":              "nothing to import",
		" \n":           "nothing to import",
		"PK\x03\x04cut": "found a .zip without its end",
		"hello there,":  `found "hello ther" at the beginning, allowed: ChatGPT's conversations.json`,
		"\uFEFF[]":      "",
		`{"a":1}`:       "",
	} {
		_, err := read(t, "", text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := read(t, ChatGPT, `{"a":1}`); err == nil || !strings.Contains(err.Error(), "found { at the beginning, allowed: [") {
		t.Errorf("an object for an array: %v", err)
	}
	if _, err := read(t, "xml", `[]`); err == nil || !strings.Contains(err.Error(), `found "xml", allowed: chatgpt, jsonl`) {
		t.Errorf("an unknown format: %v", err)
	}
}

// A conversation with a very long chain of messages is imported completely.
func TestALongConversationIsReadWhole(t *testing.T) {
	var b strings.Builder
	b.WriteString(`[{"id": "x", "current_node": "9999", "mapping": {`)
	for i := range 10_000 {
		parent := "null"
		if i > 0 {
			parent = fmt.Sprintf(`"%d"`, i-1)
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `"%d": {"parent": %s, "message": {"id": "%d", "author": {"role": "user"}, "content": {"content_type": "text", "parts": ["line %d"]}}}`, i, parent, i, i)
	}
	b.WriteString("}}]")
	entries, err := read(t, "", b.String())
	if err != nil || len(entries) != 1 || len(entries[0].Conversation.Messages) != 10_000 || entries[0].Conversation.Messages[9999].Content != "line 9999" {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if c := entries[0].Conversation; !c.CreatedAt.Equal(now) || !c.UpdatedAt.Equal(now) {
		t.Errorf("a conversation without any time is not one of today: %v, %v", c.CreatedAt, c.UpdatedAt)
	}
}

// Whatever a file contains, an imported conversation has no call without its result and no result without
// its call, which the model's API would refuse.
func TestToolCallsAndResultsAreAlwaysPaired(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	roles := []conversation.Role{conversation.RoleUser, conversation.RoleAssistant, conversation.RoleTool, conversation.RoleTool}
	for range 2000 {
		var list []conversation.Message
		for range random.IntN(12) {
			m := conversation.Message{Role: roles[random.IntN(len(roles))], Content: "x"}
			switch m.Role {
			case conversation.RoleTool:
				m.ToolCallID = []string{"", "a", "b", "c"}[random.IntN(4)]
			case conversation.RoleAssistant:
				for range random.IntN(3) {
					m.ToolCalls = append(m.ToolCalls, conversation.ToolCall{ID: []string{"", "a", "b"}[random.IntN(3)], Name: "a tool!"})
				}
			}
			list = append(list, m)
		}
		checkPaired(t, pairTools(list))
	}
}

func checkPaired(t *testing.T, list []conversation.Message) {
	t.Helper()
	open := map[string]bool{}
	for i, m := range list {
		if m.Role == conversation.RoleTool {
			if !open[m.ToolCallID] {
				t.Fatalf("message %d is a result without a call: %+v", i, list)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			t.Fatalf("message %d stands before the results %v: %+v", i, open, list)
		}
		for _, call := range m.ToolCalls {
			if call.ID == "" || open[call.ID] || call.Name != "a_tool_" && call.Name != "tool" {
				t.Fatalf("message %d has a call that the API refuses: %+v", i, call)
			}
			open[call.ID] = true
		}
	}
	if len(open) > 0 {
		t.Fatalf("calls without a result: %v in %+v", open, list)
	}
}

func TestIDsNameOneConversationInOneSession(t *testing.T) {
	at := time.UnixMilli(1709654400500)
	id := stableID(key, "x", at)
	if stableID(key, "x", at) != id || stableID(key, "y", at) == id || stableID("cli:other", "x", at) == id {
		t.Error("ids are not stable, or not one for each conversation and session")
	}
	parsed, err := uuid.Parse(id)
	if err != nil || parsed.Version() != 7 || parsed.Variant() != uuid.RFC4122 {
		t.Fatalf("%s is no UUIDv7: %v", id, err)
	}
	if seconds, _ := parsed.Time().UnixTime(); seconds != at.Unix() {
		t.Errorf("the id's time is %d, want %d", seconds, at.Unix())
	}
	if kept := "019df0a2-0000-7000-8000-000000000001"; stableID(key, kept, at) != kept {
		t.Error("an id of the gateway's own changed")
	}
}

func TestTokensAreCountedAsTheWindowCountsThem(t *testing.T) {
	counter := llm.NewCounter("gpt-4o")
	got := Tokens(counter)(conversation.Message{Role: conversation.RoleUser, Content: "hello there"})
	if want := counter.Message(llm.Message{Role: "user", Content: "hello there"}); got != want || want == 0 {
		t.Errorf("%d tokens, want %d", got, want)
	}
}
