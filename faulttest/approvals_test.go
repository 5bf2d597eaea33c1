package faulttest

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools/mcp/mcptest"
)

// approvalWorld is a world whose model answers a message with the name of a tool: it calls the tool, which a person must
// allow, and then repeats the result.
type approvalWorld struct {
	*world
	folder string
	server string
}

func newApprovalWorld(t *testing.T, kind, keys string) *approvalWorld {
	c := &approvalWorld{world: newWorld(t, settings{}), folder: t.TempDir()}
	var err error
	c.server, err = mcptest.Section("shop", kind, c.folder, keys)
	c.must(err)
	c.model.Quiet()
	c.model.Reply(func(call llmtest.Call) llmtest.Answer {
		if last := call.Messages[len(call.Messages)-1]; last.Role == "tool" {
			return llmtest.Answer{Text: "It says: " + last.Content}
		}
		return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "c", Name: call.LastUser(), Arguments: `{"id": "1"}`}}}
	})
	return c
}

func (c *approvalWorld) open() *gatewaytest.Process {
	c.t.Helper()
	c.gw.Configure(c.config(settings{}) + c.server)
	return c.startServing()
}

// awaitSent waits for a message to the first chat that contains a text.
func (c *approvalWorld) awaitSent(text string) {
	c.t.Helper()
	gatewaytest.Await(c.t, "a message with "+text, func() bool { return c.sent(text) > 0 })
}

// sent returns how many messages to the first chat contain a text.
func (c *approvalWorld) sent(text string) (n int) {
	for _, m := range c.platform.sent(1) {
		if !strings.HasPrefix(m, unfinishedMark) && strings.Contains(m, text) {
			n++
		}
	}
	return n
}

func (c *approvalWorld) effects() []string { return mcptest.Lines(c.folder, "effects") }

// expectOnce checks that the message was answered once, that the server had these effects, and that no question is open.
func (c *approvalWorld) expectOnce(says string, effects ...string) {
	c.t.Helper()
	c.awaitSent("It says: " + says)
	if n := c.sent("It says: "); n != 1 {
		c.t.Errorf("there are %d answers", n)
	}
	if done := c.effects(); !slices.Equal(done, effects) {
		c.t.Errorf("the server has done %q, want %q", done, effects)
	}
	if open := c.count(`SELECT count(*) FROM approvals WHERE state = 'open'`); open != 0 {
		c.t.Errorf("%d questions are open", open)
	}
}

// TestKilledAroundAnApproval kills the gateway before the answer to a question, right after it, and during the call: the
// call is made once, or the model is told that its outcome is unknown; a refused call is never made.
func TestKilledAroundAnApproval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer, says string
		effects            []string
		during             bool // the call is under way when it is killed
	}{
		{"allowed while it was down", "/approve 1", "did pay", []string{"pay 1"}, false},
		{"refused while it was down", "/deny 1", "error: not run: the call was refused", nil, false},
		{"during the call", "/approve 1", "outcome unknown", []string{"pay 1"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newApprovalWorld(t, "plain", "approve = \"ask\"")
			p := c.open()
			c.awaitLog("MCP server ready")
			c.say(1, "shop_pay")
			c.awaitSent("May I do this?")
			if tt.during {
				c.must(os.WriteFile(filepath.Join(c.folder, mcptest.Hold), nil, 0o600))
				c.say(1, tt.answer)
				gatewaytest.Await(t, "the call", func() bool { return len(c.effects()) == 1 })
				p.Kill()
				c.must(os.Remove(filepath.Join(c.folder, mcptest.Hold)))
			} else {
				p.Kill()
				c.say(1, tt.answer)
			}
			p = c.open()
			c.expectOnce(tt.says, tt.effects...)
			p.Stop()
			c.gw.MustRun("verify")
		})
	}
}

// TestAnswersKilledAtRandom kills the gateway at a random instant while a yes and a no to the same question arrive.
func TestAnswersKilledAtRandom(t *testing.T) {
	t.Parallel()
	seed := fromEnv(t, "FAULT_SEED", time.Now().UnixNano())
	t.Logf("FAULT_SEED=%d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 3))
	c := newApprovalWorld(t, "plain", "approve = \"ask\"")
	p := c.open()
	c.awaitLog("MCP server ready")
	c.say(1, "shop_pay")
	c.awaitSent("May I do this?")
	c.say(1, "/approve 1")
	c.say(1, "/deny 1")
	for range fromEnv(t, "FAULT_KILLS", 4) {
		time.Sleep(time.Duration(random.IntN(25)) * time.Millisecond)
		c.killInAStep(p)
		p = c.open()
	}
	c.awaitSent("It says: ")
	said, done := c.sent("did pay")+c.sent("outcome unknown"), len(c.effects())
	if refused := c.sent("It says: error: not run"); c.sent("It says: ") != 1 || done > 1 || said != 1 || refused != 0 {
		t.Errorf("the call was made %d times; the model was told %d times that it was done, and %d times that it was refused", done, said, refused)
	}
	p.Stop()
	c.gw.MustRun("verify")
}

// TestKilledWhileAServerAsks kills the gateway while the question of a server is open. With the newer protocol, the
// question can be answered after the restart. With the older one the call ended with the gateway, and the reply says so.
func TestKilledWhileAServerAsks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, tool, answer, says string
		effects                  []string
	}{
		{"plain", "shop_choose", "/answer 1 1 blue", "choosing accept blue", []string{"choose"}},
		{"2025", "shop_ask", "", "outcome unknown", nil},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			c := newApprovalWorld(t, tt.kind, "")
			p := c.open()
			c.awaitLog("MCP server ready")
			c.say(1, tt.tool)
			c.awaitSent("The tool server shop asks")
			p.Kill()
			before := c.effects()
			p = c.open()
			if tt.answer == "" {
				c.awaitSent("It can't be answered any more")
			} else {
				c.say(1, tt.answer)
			}
			c.awaitSent("It says: " + tt.says)
			if done := c.effects()[len(before):]; !slices.Equal(done, tt.effects) && len(done)+len(tt.effects) > 0 {
				t.Errorf("the server has done %q after %q", done, before)
			}
			p.Stop()
			c.gw.MustRun("verify")
		})
	}
}

// TestRunEndsWhenTheAgentOrServerOfItsQuestionIsGone kills the gateway while a question is open. The next
// configuration lacks the agent that asked, or the tool's server: the run goes on without it, and the chat is answered.
func TestRunEndsWhenTheAgentOrServerOfItsQuestionIsGone(t *testing.T) {
	t.Parallel()
	const agent = "[agents.shopper]\nsystem_prompt = \"You are the shopper.\"\n[[route]]\nagent = \"shopper\"\nperson = \"telegram:1\"\n"
	for _, tt := range []struct {
		name, says string
		keepServer bool
		effects    []string
	}{
		{"the agent", "did pay", true, []string{"pay 1"}},
		{"the server", "error: there is no tool \"shop_pay\"", false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newApprovalWorld(t, "plain", "approve = \"ask\"")
			server := c.server
			c.server += agent
			p := c.open()
			c.awaitLog("MCP server ready")
			c.say(1, "shop_pay")
			c.awaitSent("May I do this?")
			p.Kill()
			c.say(1, "/approve 1")
			if c.server = server; !tt.keepServer {
				c.server = ""
			}
			p = c.open()
			c.expectOnce(tt.says, tt.effects...)
			p.Stop()
		})
	}
}
