package toolstate

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/state"
)

// transcript returns the messages of one call with its result.
func transcript(name, arguments, result string) []conversation.Message {
	return []conversation.Message{
		{Role: conversation.RoleUser, Content: "do it"},
		{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "c", Name: name, Arguments: arguments}}},
		{Role: conversation.RoleTool, ToolCallID: "c", ToolName: name, Content: result},
	}
}

var kinds = map[state.EventKind]string{
	state.Constrained: "rule", state.Decided: "decided", state.Withdrawn: "withdrawn", state.Touched: "wrote",
	state.Failed: "failed", state.Succeeded: "ok", state.Answered: "model", state.Entered: "in", state.Cloned: "repository",
}

func lines(events []state.Event) (list []string) {
	for _, e := range events {
		line := kinds[e.Kind] + " " + e.Text
		if e.Error != "" {
			line += ": " + e.Error
		}
		list = append(list, line)
	}
	return list
}

func TestTranscriptEventsKnowCommonTools(t *testing.T) {
	t.Parallel()
	r := New(BuiltinNames())
	for _, c := range []struct {
		name, arguments, result string
		want                    []string
	}{
		{"write_file", `{"path":"a.go"}`, "ok", []string{"wrote a.go", "ok write_file a.go"}},
		{"Edit", `{"file_path":"/srv/b.go"}`, "ok", []string{"wrote /srv/b.go", "ok Edit /srv/b.go"}},
		{"mcp__fs__create_file", `{"filename":"c"}`, "ok", []string{"wrote c", "ok mcp__fs__create_file c"}},
		{"str_replace_based_edit_tool", `{"command":"str_replace","path":"d"}`, "ok", []string{"wrote d", "ok str_replace_based_edit_tool d"}},
		{"str_replace_editor", `{"command":"view","path":"d"}`, "text", []string{"ok str_replace_editor"}},
		{"apply_patch", `{"input":"*** Begin Patch\n*** Update File: x/e.go\n@@\n*** Add File: f.go\n*** End Patch"}`, "Done!",
			[]string{"wrote x/e.go", "wrote f.go", "ok apply_patch x/e.go f.go"}},
		{"write_file", `{"path":"a.go"}`, "Error: disk full\nat line 1", []string{"failed write_file a.go: disk full"}},
		{"edit_file", `{"path":"a.go"}`, `{"error":{"message":"no such file"}}`, []string{"failed edit_file a.go: no such file"}},
		{"read_file", `{"path":"a.go"}`, "ok", []string{"ok read_file"}},
		{"bash", `{"command":"make"}`, "exit status 2", []string{"failed $ make: exit status 2"}},
		{"shell", `{"command":["bash","-lc","git commit -m 'Begin'"],"workdir":"/srv/app"}`, "ok",
			[]string{"decided committed: Begin", "in /srv/app", "ok $ git commit -m 'Begin'"}},
		{"exec", `{"cmd":"cd /srv/app && git clone --depth 1 https://ann:secret@git.example/mill.git"}`, "ok",
			[]string{"in /srv/app", "repository https://git.example/mill.git", "ok $ cd /srv/app && git clone --depth 1 https://ann:secret@git.example/mill.git"}},
		{"run_command", `{"command":"cd sub; ls"}`, "ok", []string{"ok $ cd sub; ls"}},
		{"team__record_decision", `{"decision":"the boat is blue"}`, "noted", []string{"decided the boat is blue", "ok team__record_decision"}},
		{"session_state", `{"kind":"constraint","text":"no ORM"}`, "Kept.", []string{"rule no ORM"}},
		{"weather", `{"path":"a.go"}`, "sunny", []string{"ok weather"}},
		{"write_file", `not JSON`, "ok", []string{"ok write_file"}},
	} {
		if diff := cmp.Diff(c.want, lines(r.TranscriptEvents(transcript(c.name, c.arguments, c.result)))); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.name, c.arguments, diff)
		}
	}
}

// A run flags its failed calls, so that its results are not searched for errors.
func TestEventsTrustTheFailedFlagOfARun(t *testing.T) {
	t.Parallel()
	r := New(BuiltinNames())
	said := transcript("write_file", `{"path":"a"}`, "Error: is what the file says")
	if diff := cmp.Diff([]string{"wrote a", "ok write_file a"}, lines(r.Events(said))); diff != "" {
		t.Error(diff)
	}
	said[2].Failed, said[2].Content = true, "error: disk full"
	if diff := cmp.Diff([]string{"failed write_file a: disk full"}, lines(r.Events(said))); diff != "" {
		t.Error(diff)
	}
}

func TestMetadataNamesModelAndWorkspace(t *testing.T) {
	t.Parallel()
	messages := []conversation.Message{{
		Role: conversation.RoleUser, Content: "hi",
		Metadata: `{"model":"gpt-x","cwd":"/srv/app","repository":"ssh://git@git.example/mill"}`,
	}}
	want := []string{"in /srv/app", "repository ssh://git@git.example/mill", "model gpt-x"}
	if diff := cmp.Diff(want, lines(New(Names{}).TranscriptEvents(messages))); diff != "" {
		t.Error(diff)
	}
}

func TestPatternsMatchWholeNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"bash", "Bash", true}, {"bash", "bashful", false}, {"*_bash", "run_bash", true}, {"*_bash", "_bash", true}, {"*_bash", "bash", false},
		{"a*b*c", "axxbyyc", true}, {"a*b*c", "abc", true}, {"a*b*c", "acb", false}, {"*", "", true}, {"a*a", "a", false}, {"", "", true}, {"", "x", false},
	} {
		if got := newPatterns([]string{c.pattern}).match(c.name); got != c.want {
			t.Errorf("%s on %s: %t", c.pattern, c.name, got)
		}
	}
}

// Whatever a program appends, it is read without a crash.
func FuzzTranscriptEvents(f *testing.F) {
	f.Add("bash", `{"command":["a"]}`, `{"error":1}`)
	f.Add("write_file", `[]`, "error:")
	r := New(BuiltinNames())
	f.Fuzz(func(t *testing.T, name, arguments, result string) {
		for _, e := range r.TranscriptEvents(transcript(name, arguments, result)) {
			if e.Message < 0 || e.Message > 2 {
				t.Error(fmt.Sprint("event of no message: ", e))
			}
		}
	})
}
