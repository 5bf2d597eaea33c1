package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// newStateHarness returns a harness with file and shell tools and a session state.
func newStateHarness(t *testing.T, change func(*Deps)) *harness {
	fails := map[string]bool{}
	shell := func(_ context.Context, arguments json.RawMessage) (string, error) {
		var given struct{ Command string }
		if err := json.Unmarshal(arguments, &given); err != nil {
			return "", err
		}
		command := given.Command
		if !fails[command] && strings.HasPrefix(command, "go test") {
			fails[command] = true
			return "FAIL\nexit status 1", nil
		}
		return "ok\nexit status 0", nil
	}
	write := func(_ context.Context, arguments json.RawMessage) (string, error) {
		if strings.Contains(string(arguments), "/etc/passwd") {
			return "", errors.New("/etc/passwd can't be written")
		}
		return "written", nil
	}
	object := json.RawMessage(`{"type":"object"}`)
	return newHarness(t, func(p *Deps) {
		var err error
		p.Tools, err = tools.NewRegistry(tools.SessionState(),
			tools.Tool{Name: "shell_execute", Parameters: object, Call: tools.Text(shell)},
			tools.Tool{Name: "write_file", Parameters: object, Call: tools.Text(write)})
		if err != nil {
			t.Fatal(err)
		}
		p.StateBudget = 800
		if change != nil {
			change(p)
		}
	})
}

// useTool makes the model call a tool and then answer "done".
func (h *harness) useTool(name, arguments string) {
	h.t.Helper()
	h.server.Script(llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "c", Name: name, Arguments: arguments}}}, llmtest.Answer{Text: "done"})
	if got := h.ask(room, name); got != "done" {
		h.t.Fatalf("%s: %q", name, got)
	}
	h.server.Reply(llmtest.Echo)
}

// told returns the gateway's own words in the latest call: the system prompt and the note in front of
// the newest message.
func (h *harness) told() string {
	calls := h.server.Calls()
	list := calls[len(calls)-1].Messages
	told := list[0].Content
	for _, m := range list[1:] {
		if m.Note != "" {
			told += "\n\n" + m.Note
		}
	}
	return told
}

func TestStateIsTakenFromTheToolCalls(t *testing.T) {
	t.Parallel()
	h := newStateHarness(t, nil)
	h.useTool("session_state", `{"kind":"constraint","text":"never use an ORM"}`)
	h.useTool("write_file", `{"path":"main.go"}`)
	h.useTool("write_file", `{"path":"/etc/passwd"}`)
	h.useTool("shell_execute", `{"command":"go test ./..."}`)
	h.useTool("shell_execute", `{"command":"git commit -am \"Begin\""}`)
	h.useTool("session_state", `{"kind":"wish","text":"cake"}`)
	h.useTool("shell_execute", `{"command":"go test ./..."}`)
	h.ask(room, "what now?\nnothing else")
	for _, part := range []string{
		"turns: 7\n",
		"constraints:\n  - {turn: 1, text: \"never use an ORM\"}\n",
		"decisions:\n  - {turn: 5, text: \"committed: Begin\"}\n",
		"files:\n  - {turn: 2, text: \"main.go\"}\n",
		"- {turn: 3, in: \"write_file /etc/passwd\", error: \"/etc/passwd can't be written\", resolved: false}\n",
		"- {turn: 4, in: \"$ go test ./...\", error: \"exit status 1\", resolved: true}\n",
	} {
		if !strings.Contains(h.told(), part) {
			t.Errorf("the model is not told %q: %s", part, h.told())
		}
	}
	if strings.Contains(h.told(), "cake") {
		t.Error("a record of an unknown kind was kept")
	}
	if got := h.ask(room, "/state"); !strings.Contains(got, "```yaml\nconversation: ") || !strings.Contains(got, "never use an ORM") || !strings.Contains(got, "turns: 8") {
		t.Errorf("/state: %q", got)
	}
}

// Tools of other names count where the configuration names them.
func TestStateKnowsConfiguredTools(t *testing.T) {
	t.Parallel()
	object := json.RawMessage(`{"type":"object"}`)
	done := func(context.Context, json.RawMessage) (string, error) { return "done", nil }
	h := newStateHarness(t, func(p *Deps) {
		p.Config.FileTools, p.Config.ShellTools = []string{"press_*"}, []string{"conjure"}
		var err error
		p.Tools, err = tools.NewRegistry(tools.Tool{Name: "press_page", Parameters: object, Call: tools.Text(done)}, tools.Tool{Name: "conjure", Parameters: object, Call: tools.Text(done)})
		if err != nil {
			t.Fatal(err)
		}
	})
	h.useTool("press_page", `{"path":"page.svg"}`)
	h.useTool("conjure", `{"command":"git commit -m 'A page'","cwd":"/srv/press"}`)
	h.ask(room, "hello")
	for _, part := range []string{"model: \"fake\"\n", "workspace: \"/srv/press\"\n", "files:\n  - {turn: 1, text: \"page.svg\"}\n", "committed: A page"} {
		if !strings.Contains(h.told(), part) {
			t.Errorf("the model is not told %q: %s", part, h.told())
		}
	}
}

// The state is the same after a restart, and empty in a new conversation.
func TestStateBelongsToItsConversation(t *testing.T) {
	t.Parallel()
	h := newStateHarness(t, nil)
	h.useTool("session_state", `{"kind":"decision","text":"the boat is blue"}`)
	h.end()
	h.start()
	h.ask(room, "hello")
	if !strings.Contains(h.told(), "the boat is blue") {
		t.Errorf("forgotten by a restart: %s", h.told())
	}
	h.ask("cli:elsewhere", "hello")
	if strings.Contains(h.told(), "blue") {
		t.Error("another session is told of it")
	}
	h.ask(room, "/new")
	h.ask(room, "hello")
	if strings.Contains(h.told(), "blue") {
		t.Error("the next conversation is told of it")
	}
	h.ask(room, "/resume 2")
	h.ask(room, "hello")
	if !strings.Contains(h.told(), "the boat is blue") {
		t.Errorf("the resumed conversation has lost it: %s", h.told())
	}
}

func TestUndoneTurnIsRemovedFromTheState(t *testing.T) {
	t.Parallel()
	h := newStateHarness(t, nil)
	h.ask(room, "hello")
	h.useTool("session_state", `{"kind":"constraint","text":"only metric units"}`)
	h.ask(room, "/undo")
	h.ask(room, "again")
	if c, err := h.store.Active(t.Context(), room); err != nil || c.State.Turns != 2 || strings.Contains(h.told(), "metric") {
		t.Errorf("after /undo: %d turns, %v: %s", c.State.Turns, err, h.told())
	}
	h.useTool("session_state", `{"kind":"constraint","text":"Only metric units"}`)
	h.useTool("session_state", `{"kind":"withdraw","text":"only metric units"}`)
	h.ask(room, "hello")
	if strings.Contains(h.told(), "metric") {
		t.Errorf("withdrawn, and still told: %s", h.told())
	}
}

// A rule is still told after five thousand turns.
func TestRuleIsSentAfterFiveThousandTurns(t *testing.T) {
	t.Parallel()
	h := newStateHarness(t, nil)
	h.ask(room, "hello")
	h.useTool("session_state", `{"kind":"constraint","text":"never use an ORM"}`)
	h.end()
	for range 10 {
		h.fill(500, "and what about the weather?")
	}
	h.start()
	h.useTool("session_state", `{"kind":"decision","text":"use SQL"}`)
	if got := h.told(); !strings.Contains(got, "never use an ORM") || !strings.Contains(got, "are not shown") {
		t.Errorf("the model is told: %s", got)
	}
}
