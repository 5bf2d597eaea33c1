package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// concurrencyGauge measures how many calls of a tool run at the same time.
type concurrencyGauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *concurrencyGauge) call(_ context.Context, arguments json.RawMessage) (string, error) {
	g.add(1)
	time.Sleep(time.Millisecond) // so that calls which may overlap do
	g.add(-1)
	return "result of " + string(arguments), nil
}

func (g *concurrencyGauge) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

// A server names its model and a tool call with a NUL character, which PostgreSQL does not store: the person gets the answer,
// and the session goes on.
func TestNamesWithNULAreStored(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	stream := func(delta string) llmtest.Answer {
		return llmtest.Answer{Body: `data: {"model":"x\u0000y","choices":[{"index":0,"delta":` + delta + `}]}` + "\n\ndata: [DONE]\n\n"}
	}
	h.server.Script(stream(`{"tool_calls":[{"index":0,"id":"a\u0000b","function":{"name":"current_time","arguments":"{}"}}]}`), stream(`{"content":"Half past nine."}`), llmtest.Answer{Text: "Yes."})
	if got := h.ask(room, "how late is it?"); got != "Half past nine." {
		t.Errorf("the answer is %q", got)
	}
	if got := h.ask(room, "still there?"); got != "Yes." {
		t.Errorf("the next answer is %q", got)
	}
}

// A model may call a tool by a name that no tool can have. It is told so, and the conversation goes
// on, although servers refuse requests that contain such a name.
func TestCallOfAnInvalidToolNameIsAnswered(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"functions.clock now", "Uhr:später", strings.Repeat("long", 100), "shop/../pay\n"} {
		h := newHarness(t, nil)
		h.server.Script(llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: name, Arguments: "{}"}}}, llmtest.Answer{Text: "There is none."}, llmtest.Answer{Text: "Yes."})
		if got := h.ask(room, "how late is it?"); got != "There is none." {
			t.Errorf("%q: the answer is %q", name, got)
		}
		if got := h.ask(room, "still there?"); got != "Yes." {
			t.Errorf("%q: the next answer is %q", name, got)
		}
	}
}

// The model fails after it has had a bill paid. Its result stays, the chat is told so, and /continue does not pay again.
func TestFailureOfTheModelKeepsWhatToolsHaveDone(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"/continue", "what about the bill?"} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			paid := 0
			h := newHarness(t, func(d *Deps) {
				registry, err := tools.NewRegistry(tools.Tool{Name: "pay", Parameters: json.RawMessage(`{"type":"object"}`),
					Call: tools.Text(func(context.Context, json.RawMessage) (string, error) { paid++; return "paid", nil })})
				if err != nil {
					t.Fatal(err)
				}
				d.Tools = registry
			})
			h.server.Script(llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "pay", Arguments: "{}"}}},
				llmtest.Answer{Status: 400, Body: `{"error":{"message":"no"}}`}, llmtest.Answer{Text: "The bill is paid."})
			got := h.ask(room, "pay the bill")
			for _, want := range []string{"1 tool call is done (pay). The results are kept.", "/continue goes on with it", "/retry begins again"} {
				if !strings.Contains(got, want) {
					t.Errorf("the reply does not say %q: %s", want, got)
				}
			}
			if diff := cmp.Diff([]string{"user: pay the bill", "assistant: ", "tool: paid"}, h.archive()); diff != "" {
				t.Error(diff)
			}
			if got := h.ask(room, next); got != "The bill is paid." || h.server.Refused() > 0 {
				t.Errorf("the reply to %s: %q; refused: %v", next, got, h.server.Refusals())
			}
			calls := h.server.Calls()
			last := calls[len(calls)-1].Messages
			if !slices.ContainsFunc(last, func(m llm.Message) bool { return m.Role == "tool" && m.Text() == "paid" }) || paid != 1 {
				t.Errorf("the bill is paid %d times; the model is sent %+v", paid, last)
			}
		})
	}
}

// A person ends the run while its tools are at work. The conversation keeps what was done, and the
// model is told of the calls whose outcome nobody knows, so that it repeats none of them blindly.
func TestStopKeepsWhatToolsHaveDone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *harness){
		"by /stop":      func(h *harness) { h.say(room, "/stop") },
		"by its number": func(h *harness) { h.router.Cancel(room, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waits := make(chan struct{})
			h := newHarness(t, func(p *Deps) {
				p.Config.MaxParallelTools = 2
				tool := func(name string, call func(ctx context.Context) (string, error)) tools.Tool {
					return tools.Tool{Name: name, Parameters: json.RawMessage(`{"type":"object"}`),
						Call: tools.Text(func(ctx context.Context, _ json.RawMessage) (string, error) { return call(ctx) })}
				}
				registry, err := tools.NewRegistry(
					tool("pay", func(context.Context) (string, error) { return "paid", nil }),
					tool("ship", func(ctx context.Context) (string, error) {
						close(waits)
						<-ctx.Done()
						return "", ctx.Err()
					}),
					tool("thank", func(ctx context.Context) (string, error) {
						<-ctx.Done()
						return "", ctx.Err()
					}),
					tool("rate", func(context.Context) (string, error) { return "rated", nil }))
				if err != nil {
					t.Fatal(err)
				}
				p.Tools = registry
			})
			h.server.Script(llmtest.Answer{ToolCalls: []llm.ToolCall{
				{ID: "a", Name: "pay", Arguments: "{}"}, {ID: "b", Name: "ship", Arguments: "{}"}, {ID: "c", Name: "thank", Arguments: "{}"}, {ID: "d", Name: "rate", Arguments: "{}"},
			}}, llmtest.Answer{Text: "I look first."})
			h.say(room, "order it")
			<-waits
			until(t, "two calls under way and one ended", func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return len(h.called) == 4 // their beginnings, and the end of pay
			})
			end(h)
			if got := h.reply(room); got != stopped {
				t.Errorf("the reply: %q", got)
			}
			want := []string{"user: order it", "assistant: ", "tool: paid", "tool: " + callInterrupted, "tool: " + callInterrupted, "tool: " + callStopped}
			if diff := cmp.Diff(want, h.archive()); diff != "" {
				t.Error(diff)
			}
			if got := h.ask(room, "go on"); got != "I look first." || h.server.Refused() > 0 {
				t.Errorf("the next answer: %q; refused: %v", got, h.server.Refusals())
			}
		})
	}
}

// When a model asks for a hundred calls at once, only some are run, a few at a time, and
// it is told which were not run.
func TestCallsOfOneRoundAreBounded(t *testing.T) {
	t.Parallel()
	running := &concurrencyGauge{}
	h := newHarness(t, func(p *Deps) {
		p.Config.MaxParallelTools, p.Budget = 3, 20_000
		registry, err := tools.NewRegistry(tools.Tool{Name: "count", Parameters: json.RawMessage(`{"type":"object"}`), Call: tools.Text(running.call)})
		if err != nil {
			t.Fatal(err)
		}
		p.Tools = registry
	})
	const asked = 100
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		var results []string
		for _, m := range c.Messages {
			if m.Role == "tool" {
				results = append(results, m.ToolCallID+": "+m.Content)
			}
		}
		if len(results) > 0 {
			return llmtest.Answer{Text: strings.Join(results, "\n")}
		}
		var calls []llm.ToolCall
		for i := range asked {
			calls = append(calls, llm.ToolCall{ID: fmt.Sprintf("call%d", i), Name: "count", Arguments: fmt.Sprintf(`{"n":%d}`, i)})
		}
		return llmtest.Answer{ToolCalls: calls}
	})
	results := strings.Split(h.ask(room, "go"), "\n")
	if len(results) != asked || h.server.Refused() > 0 {
		t.Fatalf("%d results of %d calls; refused: %v", len(results), asked, h.server.Refusals())
	}
	for i, got := range results {
		want := fmt.Sprintf(`call%d: result of {"n":%d}`, i, i)
		if i >= maxCalls {
			want = fmt.Sprintf("call%d: error: not run, because at most 32 calls are taken at once; ask again for what is still needed", i)
		}
		if got != want {
			t.Errorf("result %d is %q, want %q", i, got, want)
		}
	}
	if running.most > 3 {
		t.Errorf("%d calls ran at the same time, 3 were allowed", running.most)
	}
}

// Whether a call failed is known from its flag, not from the text of its result.
func TestFailedCallsAreFlagged(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) {
		registry, err := tools.NewRegistry(tools.Tool{Name: "lookup", Parameters: json.RawMessage(`{"type":"object"}`),
			Call: tools.Text(func(context.Context, json.RawMessage) (string, error) { return "error: is the name of a song", nil })})
		if err != nil {
			t.Fatal(err)
		}
		p.Tools = registry
	})
	h.server.Script(
		llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "lookup", Arguments: "{}"}, {ID: "b", Name: "missing", Arguments: "{}"}}},
		llmtest.Answer{Text: "done"},
	)
	h.ask(room, "look it up")
	c, err := h.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]bool{}
	for m, err := range h.store.AllMessages(t.Context(), conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll}) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Role == conversation.RoleTool {
			failed[m.ToolName] = m.Failed
		}
	}
	if want := map[string]bool{"lookup": false, "missing": true}; !maps.Equal(failed, want) {
		t.Errorf("failed: %v", failed)
	}
	if f := c.State.Failures; len(f) != 1 || f[0].Text != "missing" {
		t.Errorf("the session state has %+v", f)
	}
}
