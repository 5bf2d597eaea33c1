package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/channels/cli"
	"parley/channels/cli/clitest"
	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/internal/waittest"
	"parley/llm/llmtest"
	"parley/tools"
)

const columns, rows = 60, 20

// TestMain sets the type of a usual terminal, and a time zone in which no time reads as in UTC.
func TestMain(m *testing.M) {
	os.Setenv("TERM", "xterm")
	time.Local = time.FixedZone("Asia/Kathmandu", 5*3600+45*60)
	os.Exit(m.Run())
}

// terminalUser types in a terminal chat of a whole gateway.
type terminalUser struct {
	*gatewaytest.Gateway
	t       *testing.T
	keys    *os.File // the terminal's other end
	program *os.File // the terminal
	screen  *clitest.Screen
	tool    chan struct{} // closed lets a call of the tool "wait" end
}

// openChat opens a chat whose model gives these answers. config is TOML that is added to the
// gateway's configuration.
func openChat(t *testing.T, answer func(question string) llmtest.Answer, config ...string) *terminalUser {
	t.Helper()
	t.Parallel()
	return openChatIn(t, t.TempDir(), answer, config...)
}

// openChatIn opens a chat with a gateway whose files are in dir, maybe from an earlier gateway.
func openChatIn(t *testing.T, dir string, answer func(question string) llmtest.Answer, config ...string) *terminalUser {
	t.Helper()
	p := &terminalUser{t: t, tool: make(chan struct{})}
	p.keys, p.program = clitest.OpenPTY(t, columns, rows)
	p.screen = clitest.NewScreen(columns, rows)
	go func() { _, _ = io.Copy(p.screen, p.keys) }() // ends when the terminal is closed
	p.Gateway = gatewaytest.New(t, gatewaytest.Options{
		Dir: dir, InProcess: true, Terminal: p.program, Config: gatewaytest.OpenToAll + "[log]\nlevel = \"debug\"\n[agent]\ndrain_timeout = \"10ms\"\n" + strings.Join(config, "\n"),
		Tools: []tools.Tool{{Name: "wait", Parameters: json.RawMessage(`{"type":"object"}`), Call: tools.Text(p.wait)}},
	})
	p.Model.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Messages[len(c.Messages)-1].Role == "tool" {
			return llmtest.Answer{Text: "fine"}
		}
		return answer(c.LastUser())
	})
	p.Start()
	p.atRest()
	return p
}

func (p *terminalUser) wait(ctx context.Context, _ json.RawMessage) (string, error) {
	select {
	case <-p.tool:
		return "done", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// types presses keys.
func (p *terminalUser) types(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.keys, keys); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits until the terminal shows a text, or has scrolled it out.
func (p *terminalUser) sees(want string) {
	p.t.Helper()
	p.awaits(fmt.Sprintf("%q", want), func(text string) bool { return strings.Contains(text, want) })
}

// atRest waits for an empty prompt and the end of all work that is shown above it.
func (p *terminalUser) atRest() {
	p.t.Helper()
	p.awaits("the empty line", func(text string) bool {
		return strings.HasSuffix(text, "\n›") && !strings.Contains(text, "thinking …") && !strings.Contains(text, "stopping …")
	})
}

func (p *terminalUser) awaits(what string, is func(text string) bool) {
	p.t.Helper()
	for deadline := time.Now().Add(waittest.Patience); !is(p.screen.Text()); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("waited in vain for %s on the screen:\n%s", what, p.screen.Text())
		}
	}
}

// newest returns the newest message of a role in the terminal's session, as it is stored;
// "" for none.
func (p *terminalUser) newest(role conversation.Role) string {
	p.t.Helper()
	active, err := p.Store().Active(p.t.Context(), cli.Key(cli.DefaultSession))
	if errors.Is(err, conversation.ErrNotFound) {
		return ""
	}
	if err != nil {
		p.t.Fatal(err)
	}
	page, err := p.Store().Messages(p.t.Context(), conversation.MessageQuery{Conversation: active.ID})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, m := range slices.Backward(page.Messages) {
		if m.Role == role {
			return m.Content
		}
	}
	return ""
}

// since returns what the terminal shows after the last occurrence of mark.
func (p *terminalUser) since(mark string) string {
	text := p.screen.Text()
	return text[strings.LastIndex(text, mark)+len(mark):]
}

// asks sends a question and waits until it is answered.
func (p *terminalUser) asks(question string) {
	p.t.Helper()
	p.types(question + "\r")
	p.awaits("the answer to "+question, func(text string) bool {
		at := strings.LastIndex(text, "› "+question)
		return at >= 0 && strings.Count(text[at:], "\n") > 1 && strings.HasSuffix(text, "\n›") &&
			!strings.Contains(text, "thinking …") && !strings.Contains(text, "(waits)")
	})
}

// resizes changes the size of the terminal's window.
func (p *terminalUser) resizes(width, height uint16) {
	p.t.Helper()
	clitest.Resize(p.t, p.program, width, height)
	p.screen.SetSize(int(width), int(height))
}

// leaves waits for the end of the gateway.
func (p *terminalUser) leaves() {
	p.t.Helper()
	p.awaits("the end of the gateway", func(string) bool { return p.HasEnded() })
}

// expectNoControlSequences fails the test if the terminal got escape sequences that the chat does
// not use.
func (p *terminalUser) expectNoControlSequences() {
	p.t.Helper()
	if unknown := p.screen.Unknown(); len(unknown) > 0 {
		p.t.Errorf("the terminal was sent %q", unknown)
	}
}
