package agentloop

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/runs"
	"parley/conversation/settings"
	"parley/conversation/storetest"
	"parley/conversation/usage"
	"parley/internal/waittest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// withModel adds a model whose answers begin with its name, and returns its server.
func withModel(t *testing.T, deps *Deps, name string, allow ...string) *llmtest.Server {
	t.Helper()
	server := llmtest.New(t)
	server.Reply(func(c llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: name + ": " + c.LastUser()} })
	client := llm.NewClient(llm.Config{BaseURL: server.URL(), Model: name, RetryBase: time.Millisecond, MaxTries: 2}, nil)
	deps.Models = append(deps.Models, NamedModel{Name: name, Model: client, Budget: 4000, Allow: allow})
	return server
}

func TestAModelIsChosenForTheSessionAndStays(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) {
		withModel(t, d, "large", "cli:room")
		withModel(t, d, "secret", "telegram:42")
	})
	if got := h.ask(room, "/model"); !strings.Contains(got, "**fake**") || !strings.Contains(got, "- large") || strings.Contains(got, "secret") {
		t.Errorf("/model says %q", got)
	}
	if got := h.ask(room, "/model secret"); !strings.Contains(got, "There is no model “secret” to choose here") || !strings.Contains(got, "- large") {
		t.Errorf("a model of others: %q", got)
	}
	if got := h.ask(room, "/model FAKE"); !strings.Contains(got, "the model is fake") {
		t.Errorf("the usual model by its name: %q", got)
	}
	h.ask(room, "/model LARGE")
	if got := h.ask(room, "one"); got != "large: one" {
		t.Errorf("after the switch the answer is %q", got)
	}
	h.ask(room, "/new")
	if got := h.ask(room, "two"); got != "large: two" {
		t.Errorf("after /new the answer is %q", got)
	}
	h.end()
	h.start()
	if got := h.ask(room, "three"); got != "large: three" {
		t.Errorf("after a restart the answer is %q", got)
	}
	if got := h.ask("cli:other", "four"); got != "echo: four" {
		t.Errorf("in another session the answer is %q", got)
	}
	if got := h.ask(room, "/status"); !strings.Contains(got, "**Model:** large") {
		t.Errorf("/status says %q", got)
	}
	h.ask(room, "/model default")
	if got := h.ask(room, "five"); got != "echo: five" {
		t.Errorf("after going back the answer is %q", got)
	}
	if got := h.ask(room, "/model default"); !strings.Contains(got, "Nothing else was chosen") {
		t.Errorf("going back twice: %q", got)
	}
	h.ask(room, "/model large")
	if got := h.ask(room, "/model"); !strings.Contains(got, "- default — the usual one, fake") {
		t.Errorf("/model says %q", got)
	}
	if got := h.ask(room, "/model fake"); !strings.Contains(got, "usual model again") {
		t.Errorf("going back by the name: %q", got)
	}
}

func TestModelSwitchAppliesFromTheNextMessageOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) { withModel(t, d, "large", "*") })
	h.say(room, "one", "/model large", "two")
	var said []string
	for range 3 {
		said = append(said, h.reply(room))
	}
	if said[0] != "echo: one" || said[2] != "large: two" {
		t.Errorf("the replies are %q", said)
	}
}

func TestRemovalOfTheChosenModelIsReportedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	model, agent := "gone", "away"
	if err := settings.Set(t.Context(), h.store, room, settings.Change{Model: &model, Agent: &agent}); err != nil {
		t.Fatal(err)
	}
	got := h.ask(room, "one")
	for _, want := range []string{"echo: one", "The model gone is not offered any more. This chat uses fake now.", "The agent away is not offered any more."} {
		if !strings.Contains(got, want) {
			t.Errorf("the answer lacks %q: %q", want, got)
		}
	}
	if got := h.ask(room, "two"); got != "echo: two" {
		t.Errorf("the next answer is %q", got)
	}
	if n := storetest.Count(t, h.store, `SELECT count(*) FROM sessions WHERE coalesce(model, '') <> '' OR coalesce(agent, '') <> ''`); n > 0 {
		t.Errorf("%d sessions still have a model or an agent of their own", n)
	}
}

func TestUnknownModelOrAgentIsNamedWhereNothingCanBeChosen(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for _, thing := range []string{"model", "agent"} {
		got := h.ask(room, "/"+thing+" nobody")
		for _, want := range []string{"There is no " + thing + " “nobody” to choose here", "The " + thing + " of this chat is **", "There is no other one to choose here."} {
			if !strings.Contains(got, want) {
				t.Errorf("/%s nobody lacks %q: %q", thing, want, got)
			}
		}
	}
}

func TestAMessageMayNameItsModel(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) { withModel(t, d, "large") })
	in := h.inbound(room, "one")
	in.Options.Model = "large"
	h.accept(in)
	if got := h.reply(room); got != "large: one" {
		t.Errorf("the answer is %q", got)
	}
	if got := h.ask(room, "two"); got != "echo: two" {
		t.Errorf("the next answer is %q", got)
	}
}

func TestAnswerOfAFallbackIsReportedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) {
		server := llmtest.New(t)
		answer := func(c llmtest.Call) llmtest.Answer {
			if c.Model == "main" && strings.Contains(c.LastUser(), "down") {
				return llmtest.Answer{Status: http.StatusBadGateway}
			}
			return llmtest.Answer{Text: c.Model + " says"}
		}
		server.Reply(answer)
		d.Model = llm.NewClient(llm.Config{BaseURL: server.URL(), Model: "main", FallbackModels: []string{"spare"}, RetryBase: time.Millisecond}, nil)
	})
	const note = "\n\n↪ *Answered by spare, since main is in trouble.*"
	for _, c := range []struct{ text, want string }{
		{"up", "main says"}, {"down", "spare says" + note}, {"still down", "spare says"}, {"up", "main says"}, {"down", "spare says" + note},
	} {
		if got := h.ask(room, c.text); got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
	if last := h.history(room); last[len(last)-1] != "assistant: spare says" {
		t.Errorf("the archive has the note: %q", last)
	}
	if found := h.runsOf(room); found[1].Model != "spare" || found[0].Model != "main" {
		t.Errorf("%+v", found)
	}
}

// runsOf returns the runs of a session's conversation, oldest first.
func (h *harness) runsOf(key conversation.Key) []runs.Record {
	h.t.Helper()
	trace, err := usage.New(h.store).Trace(h.t.Context(), usage.TraceQuery{Conversation: h.conversation(key).ID, Limit: 100})
	if err != nil {
		h.t.Fatal(err)
	}
	return trace.Runs
}

func (h *harness) conversation(key conversation.Key) conversation.Conversation {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func TestFallbackWithASmallContextDoesNotAdvanceTheWindow(t *testing.T) {
	t.Parallel()
	small, large := llmtest.New(t), llmtest.New(t)
	small.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "small"} })
	window1000 := 1500
	h := newHarness(t, func(d *Deps) {
		models, err := llm.ChooseAll(t.Context(), llm.Config{BaseURL: large.URL(), Model: "large", FallbackModels: []string{"small"}, RetryBase: time.Millisecond},
			map[string]llm.ModelConfig{"small": {BaseURL: small.URL(), ContextWindow: &window1000}}, func(string) string { return "" }, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Model = models.List()[0].Model
		d.BudgetFor = func(contextWindow int) int { return window.Budget(32000, contextWindow, 200) }
	})
	for n := range 8 {
		h.ask(room, fmt.Sprint(n, strings.Repeat(" word", 200)))
	}
	before := h.conversation(room).Window
	large.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: http.StatusBadGateway} })
	if got := h.ask(room, "now"); !strings.HasPrefix(got, "small") {
		t.Fatalf("the answer is %q", got)
	}
	whole, cut := large.Calls()[len(large.Calls())-1].Messages, small.Calls()[0].Messages
	if len(cut) >= len(whole) || len(cut) < 2 {
		t.Errorf("the fallback got %d messages, the model %d", len(cut), len(whole))
	}
	if after := h.conversation(room).Window; after != before {
		t.Errorf("the window went from %+v to %+v", before, after)
	}
}

// agent returns an agent with a prompt and tools.
func agent(name, prompt string, registry *tools.Registry) Agent {
	return Agent{Name: name, Description: "the " + name, Prompt: func() string { return prompt }, Tools: registry, MaxToolRounds: 8}
}

// systemOf returns the system prompt of the newest call.
func (h *harness) systemOf() string {
	calls := h.server.Calls()
	return calls[len(calls)-1].Messages[0].Content
}

func TestARouteChoosesTheAgent(t *testing.T) {
	t.Parallel()
	warm := 0.25
	h := newHarness(t, func(d *Deps) {
		pirate := agent("pirate", "You are a pirate.", d.Tools.Only(func(name string) bool { return name == "fails" }))
		pirate.Temperature = &warm
		d.Agents = []Agent{pirate}
		d.Route = func(in conversation.Inbound) string {
			if in.Key == "cli:ship" {
				return "pirate"
			}
			return ""
		}
	})
	h.ask("cli:ship", "ahoy")
	call := h.server.Calls()[0]
	if !strings.HasPrefix(h.systemOf(), "You are a pirate.") || call.Temperature == nil || *call.Temperature != warm {
		t.Errorf("%+v", call)
	}
	if len(call.Tools) != 1 || call.Tools[0].Name != "fails" {
		t.Errorf("the agent is offered %+v", call.Tools)
	}
	h.ask(room, "hello")
	if strings.Contains(h.systemOf(), "pirate") || len(h.server.Calls()[1].Tools) != 2 {
		t.Errorf("elsewhere: %+v", h.server.Calls()[1])
	}
	if ship, here := h.runsOf("cli:ship"), h.runsOf(room); ship[0].Agent != "pirate" || here[0].Agent != "" {
		t.Errorf("%+v, %+v", ship, here)
	}
}

func TestAnAgentCallsOnlyItsOwnTools(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) {
		d.Agents = []Agent{agent("pirate", "You are a pirate.", d.Tools.Only(func(name string) bool { return name != "fails" }))}
		d.Route = func(conversation.Inbound) string { return "pirate" }
	})
	h.server.Script(llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "1", Name: "fails", Arguments: "{}"}}}, llmtest.Answer{Text: "no"})
	h.ask(room, "try it")
	list := h.server.Calls()[1].Messages
	if got := list[len(list)-1].Content; !strings.Contains(got, "there is no tool \"fails\"") {
		t.Error(got)
	}
}

func TestAnAgentIsChosenWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) {
		pirate, cook := agent("pirate", "You are a pirate.", d.Tools), agent("cook", "You are a cook.", d.Tools)
		pirate.Switch = []string{"cli:*"}
		d.Agents = []Agent{pirate, cook}
	})
	if got := h.ask(room, "/agent"); !strings.Contains(got, "pirate — the pirate") || strings.Contains(got, "cook") {
		t.Errorf("/agent says %q", got)
	}
	h.ask(room, "one")
	h.ask(room, "/agent pirate")
	h.ask(room, "two")
	h.ask(room, "/new")
	h.ask(room, "three")
	if !strings.HasPrefix(h.systemOf(), "You are a pirate.") {
		t.Errorf("the prompt is %q", h.systemOf())
	}
	if got := h.ask(room, "/agent cook"); !strings.Contains(got, "There is no agent “cook” to choose here") || !strings.Contains(got, "- pirate") {
		t.Errorf("an agent that may not be chosen: %q", got)
	}
	calls := h.server.Calls()
	if len(calls[1].Messages) != 4 {
		t.Errorf("the history does not go over to the agent: %+v", calls[1].Messages)
	}
	h.ask(room, "/agent default")
	h.ask(room, "four")
	if strings.Contains(h.systemOf(), "pirate") {
		t.Errorf("the prompt is %q", h.systemOf())
	}
}

func TestChangedPromptIsUsedFromTheNextCallOn(t *testing.T) {
	t.Parallel()
	prompts := make(chan string, 1)
	prompts <- "You are a pirate."
	h := newHarness(t, func(d *Deps) {
		pirate := agent("pirate", "", d.Tools)
		pirate.Prompt = func() string {
			prompt := <-prompts
			prompts <- prompt
			return prompt
		}
		d.Agents, d.Route = []Agent{pirate}, func(conversation.Inbound) string { return "pirate" }
	})
	h.ask(room, "one")
	waittest.Receive(t, prompts, "nobody reads the prompt")
	prompts <- "You are a parrot."
	h.ask(room, "two")
	if !strings.HasPrefix(h.systemOf(), "You are a parrot.") {
		t.Errorf("the prompt is %q", h.systemOf())
	}
}

func TestInstructionsAreSetInTheChat(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	if got := h.ask(room, "/instructions"); !strings.Contains(got, "has no instructions") {
		t.Errorf("without any: %q", got)
	}
	h.ask(room, "/instructions set Answer in\nrhymes.")
	h.ask(room, "one")
	h.ask(room, "/new")
	h.ask(room, "two")
	if !strings.Contains(h.systemOf(), "Answer in\nrhymes.") {
		t.Errorf("the prompt is %q", h.systemOf())
	}
	if got := h.ask(room, "/instructions"); !strings.Contains(got, "Answer in\nrhymes.") {
		t.Errorf("shown: %q", got)
	}
	h.ask(room, "/instructions clear")
	h.ask(room, "three")
	if strings.Contains(h.systemOf(), "rhymes") {
		t.Errorf("the prompt is %q", h.systemOf())
	}
	if got := h.ask(room, "/instructions set "+strings.Repeat("long ", 4000)); !strings.Contains(got, "at most") {
		t.Errorf("too long: %q", got)
	}
	if got := h.ask(room, "/instructions frobnicate"); !strings.Contains(got, "`/instructions` can't do that") {
		t.Errorf("another word: %q", got)
	}
}

func TestRunRepeatedAfterACrashUsesTheSameModel(t *testing.T) {
	t.Parallel()
	var large *llmtest.Server
	h := newHarness(t, func(d *Deps) { large = withModel(t, d, "large", "*") })
	h.ask(room, "/model large")
	h.end()
	stored, err := h.store.Accept(t.Context(), nil, h.inbound(room, "one")) // while nobody answers
	if err != nil || len(stored) != 1 {
		t.Fatal(err)
	}
	h.start()
	if got := h.reply(room); got != "large: one" {
		t.Errorf("the answer is %q", got)
	}
	if n := large.Served(); n != 1 || slices.ContainsFunc(h.server.Calls(), func(c llmtest.Call) bool { return c.LastUser() == "one" }) {
		t.Errorf("%d calls of the model", n)
	}
}
