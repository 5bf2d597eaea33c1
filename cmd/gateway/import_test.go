package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
)

func file(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What was said in ChatGPT stands among the earlier conversations of one's
// terminal, once, however often the file is imported.
func TestAChatGPTExportIsImportedOnce(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	export := "../../importer/testdata/conversations.json"
	if out := o.mustCall("import", export, "--dry-run"); out != "To be imported: 2 conversations into cli:default, with 8 messages and 122 tokens; 0 there already, 0 left out.\n" {
		t.Errorf("dry run: %s", out)
	}
	if out := o.mustCall("sessions", "list"); out != "There are no such sessions.\n" {
		t.Errorf("a dry run left: %s", out)
	}
	if out := o.mustCall("import", export); out != "Imported 2 conversations into cli:default, with 8 messages and 122 tokens; 0 there already, 0 left out.\n" {
		t.Errorf("imported: %s", out)
	}
	list, _, err := catalog.New(o.daemon).Conversations(t.Context(), catalog.ConversationQuery{Key: "cli:default", Limit: 10})
	if err != nil || len(list) != 2 || list[0].Title != "Tidying photos" || list[0].Active || list[0].UpdatedAt.Unix() != 1709658000 || list[1].Title != "Hello" {
		t.Errorf("/history list: %+v, %v", list, err)
	}
	before := o.mustCall("sessions", "export", "cli:default", "--format", "json")
	for _, args := range [][]string{{"import", export}, {"import", export, "--dry-run"}} {
		if out := o.mustCall(args...); !strings.Contains(out, " 0 conversations into cli:default, with 0 messages and 0 tokens; 2 there already") {
			t.Errorf("again: %s", out)
		}
	}
	if diff := cmp.Diff(before, o.mustCall("sessions", "export", "cli:default", "--format", "json")); diff != "" {
		t.Errorf("importing again changed: %s", diff)
	}
	if out := o.mustCall("sessions", "search", "blurred"); !strings.Contains(out, "cli:default") {
		t.Errorf("found: %s", out)
	}
}

// An export of one gateway can be imported by another, and reads the same.
func TestAnExportCanBeImported(t *testing.T) {
	t.Parallel()
	from, to := newOperator(t), newOperator(t)
	for i := range 3 {
		from.talks(adasChat, "", fmt.Sprintf("question %d", i), "answer "+escaping)
		if i == 1 {
			from.mustCall("sessions", "archive", string(adasChat))
		}
	}
	path := file(t, "chat.json", "")
	from.mustCall("sessions", "export", string(adasChat), "-o", path)
	if out := to.mustCall("import", path, "--session", "cli:moved"); !strings.HasPrefix(out, "Imported 2 conversations into cli:moved, with 6 messages") {
		t.Errorf("imported: %s", out)
	}
	same := newOperator(t)
	if out := same.mustCall("import", path, "--same-session"); !strings.HasPrefix(out, "Imported 2 conversations into the sessions they are of, with 6 messages") {
		t.Errorf("imported: %s", out)
	}
	again := file(t, "again.json", "")
	same.mustCall("sessions", "export", string(adasChat), "-o", again)
	if diff := cmp.Diff(exportText(t, path), exportText(t, again)); diff != "" {
		t.Error(diff)
	}
	want, _, _ := catalog.New(from.daemon).Conversations(t.Context(), catalog.ConversationQuery{Key: adasChat, Limit: 10})
	got, _, _ := catalog.New(to.daemon).Conversations(t.Context(), catalog.ConversationQuery{Key: "cli:moved", Limit: 10})
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Title != want[i].Title || got[i].Messages != want[i].Messages {
			t.Errorf("%+v became %+v", want[i], got[i])
		}
		if diff := cmp.Diff(said(t, from.daemon, want[i].ID), said(t, to.daemon, got[i].ID)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestImportSaysThatItsTargetsExcludeEachOther(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	_, err := o.call("", "import", "../../importer/testdata/conversations.json", "--session", "cli:a", "--same-session")
	if err == nil || err.Error() != "found --session and --same-session, allowed: one of them" {
		t.Error(err)
	}
}

func exportText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// said is what a conversation holds, with who said it and when.
func said(t *testing.T, store *conversation.Store, id string) (list []string) {
	t.Helper()
	for r, err := range store.AllMessages(t.Context(), conversation.MessageQuery{Conversation: id, View: conversation.ViewAll}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%d %s %s %d: %s", r.Seq, r.Role, r.Sender.Name, r.At.UnixMilli(), r.Content))
	}
	return list
}

func TestImportListsWhatItLeftOut(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	good := `{"messages": [{"role": "user", "content": "good"}]}` + "\n"
	out, err := o.call("", "import", file(t, "lines.jsonl", good+strings.Repeat("{\x1b[2J}\n", maxBroken+5)))
	if err == nil {
		t.Error("the command reports success although conversations were left out")
	}
	if !strings.HasPrefix(out, "Imported 1 conversation into") || !strings.Contains(out, fmt.Sprintf("%d left out.\n", maxBroken+5)) ||
		!strings.Contains(out, "left out: line 2: ") || !strings.HasSuffix(out, "left out: 5 more\n") || strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	cut, err := os.ReadFile("../../importer/testdata/conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	out, err = o.call("", "import", file(t, "cut.json", string(cut[:len(cut)-100])))
	if err == nil || !strings.Contains(err.Error(), "conversation 2, after byte") || !strings.HasPrefix(out, "Imported 1 conversation into") {
		t.Errorf("a truncated file: %s, %v", out, err)
	}
}

// Who imports what the configuration deletes the next night is told so.
func TestImportWarnsOfRetention(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	if out := o.mustCall("import", file(t, "old.jsonl", `{"role": "user", "content": "hi", "at": "0000-01-01T00:00:00+14:00"}`), "--dry-run"); strings.Contains(out, "cleanup") {
		t.Errorf("conversations are kept for ever, and it says %s", out)
	}
	settings, err := os.OpenFile(o.config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := settings.WriteString("[conversation]\nretention = \"8760h\"\n"); err != nil {
		t.Fatal(err)
	}
	if err := settings.Close(); err != nil {
		t.Fatal(err)
	}
	out := o.mustCall("import", "../../importer/testdata/conversations.json", "--dry-run")
	if !strings.Contains(out, "the next cleanup deletes 2 conversations of these") {
		t.Errorf("got %s", out)
	}
}

func TestImportSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.talks(adasChat, "", "hello", "hello")
	lines := file(t, "lines.jsonl", `{"role": "user", "content": "hello"}`)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"import", lines + ".missing"}, "there is no file " + lines + ".missing: name one"},
		{[]string{"import", filepath.Dir(lines)}, "found a folder, allowed: a file"},
		{[]string{"import", lines, "--session", "telegram:chat:41"}, "did you mean telegram:chat:42?"},
		{[]string{"import", lines, "--session", "cli:a b"}, `session name "a b"`},
		{[]string{"import", lines, "--format", "xml"}, `found "xml", allowed: chatgpt, jsonl`},
		{[]string{"import", lines, "--format", "chatgpt"}, "found { at the beginning"},
	} {
		if out, err := o.call("", tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %q, %v; want %s", tt.args, out, err, tt.want)
		}
	}
	if out := o.mustCall("import", lines, "--session", string(adasChat)); !strings.HasPrefix(out, "Imported 1 conversation into telegram:chat:42") {
		t.Errorf("into a known session: %s", out)
	}
}
