package agentloop

import (
	"strings"
	"testing"

	"parley/conversation/state"
)

func (h *harness) wantTold(part string, want bool) {
	h.t.Helper()
	h.ask(room, "hello")
	if told := strings.Contains(h.told(), part); told != want {
		h.t.Errorf("told of %q: %t, want %t: %s", part, told, want, h.told())
	}
}

func (h *harness) wantReply(text string, parts ...string) {
	h.t.Helper()
	got := h.ask(room, text)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			h.t.Errorf("%s lacks %q: %s", text, part, got)
		}
	}
}

// newCarryingHarness returns a state harness in which a new conversation takes over the rules
// of the one before.
func newCarryingHarness(t *testing.T) *harness {
	return newStateHarness(t, func(p *Deps) { p.Limits.Carry.Rules = true })
}

func TestPeopleAddAndStrikeRules(t *testing.T) {
	t.Parallel()
	h := newStateHarness(t, nil)
	h.wantReply("/state", "No rule and no decision", "/state add rule: TEXT")
	h.wantReply("/state add rule: never use  an ORM", "Rule 1 is kept: “never use an ORM”", "/state strike 1")
	h.useTool("session_state", `{"kind":"constraint","text":"only metric units"}`)
	h.wantReply("/state Add Decision the boat is blue", "Decision 3 is kept")
	h.wantReply("/state", "- 1. Rule: never use an ORM\n", "- 2. Rule: only metric units\n", "- 3. Decision: the boat is blue\n", "```yaml")
	h.wantTold("never use an ORM", true)
	h.wantReply("/state strike 1, #3", "Struck: rule 1, “never use an ORM”; decision 3, “the boat is blue”.")
	h.wantTold("never use an ORM", false)
	h.wantTold("the boat is blue", false)
	h.wantTold("only metric units", true)
	h.wantReply("/state strike 1", "no rule or decision “1”")
	h.wantReply("/state strike Only metric units", "Struck: rule 2")
	h.wantReply("/state add rule: be short", "Rule 4")
	for _, wrong := range []string{"/state strike", "/state add rule:", "/state sing", "/state add rule: " + strings.Repeat("x", 401)} {
		if got := h.ask(room, wrong); strings.Contains(got, "is kept") || strings.Contains(got, "Struck") {
			t.Errorf("%.30s: %s", wrong, got)
		}
	}
	h.end()
	h.start()
	h.wantTold("be short", true)
	kept := strings.Join(h.archive(), "\n")
	for _, part := range []string{"internal system: [/state: rule 1 was added: never use an ORM]", "[/state: struck rule 1: never use an ORM; decision 3"} {
		if !strings.Contains(kept, part) {
			t.Errorf("the archive lacks %q:\n%s", part, kept)
		}
	}
}

// Rules that a person has set stay when an answer is taken back or repeated.
func TestRulesOfPeopleOutliveUndoAndRetry(t *testing.T) {
	t.Parallel()
	h := newStateHarness(t, nil)
	h.ask(room, "hello")
	h.ask(room, "/state add rule: be short")
	h.ask(room, "/retry")
	if !strings.Contains(h.told(), "be short") {
		t.Errorf("the answer is made anew without the rule: %s", h.told())
	}
	h.ask(room, "/undo")
	h.wantTold("be short", true)
}

func TestRulesSurviveNew(t *testing.T) {
	t.Parallel()
	h := newCarryingHarness(t)
	h.ask(room, "hello")
	h.useTool("session_state", `{"kind":"constraint","text":"never use an ORM"}`)
	h.useTool("session_state", `{"kind":"decision","text":"the boat is blue"}`)
	h.wantReply("/new Trip", "A new conversation begins: “Trip”.", "- 1. Rule: never use an ORM", "`/state strike 1`", "`/new keep nothing`")
	h.wantTold("never use an ORM", true)
	h.wantTold("the boat is blue", false)
	h.ask(room, "/undo") // it is of no turn here
	h.wantTold("never use an ORM", true)
	h.ask(room, "/state add decision: we meet on Monday")
	h.wantReply("/new keep decisions", "Rule: never use an ORM", "Decision: we meet on Monday")
	h.wantTold("we meet on Monday", true)
	h.wantReply("/state strike 1", "Struck: rule 1")
	h.ask(room, "/new keep decisions: Later")
	h.wantTold("never use an ORM", false)
	h.wantTold("we meet on Monday", true)
	if got := h.title(); got != "Later" {
		t.Errorf("the title: %q", got)
	}
	h.ask(room, "/state add rule: be short")
	h.ask(room, "/new KEEP NOTHING")
	h.wantTold("be short", false)
	h.ask(room, "/new keep nothingness")
	if got := h.title(); got != "keep nothingness" {
		t.Errorf("the title: %q", got)
	}
}

// Two /new in a row lose nothing, and an empty conversation can still be emptied.
func TestRulesOfAnEmptyConversation(t *testing.T) {
	t.Parallel()
	h := newCarryingHarness(t)
	h.ask(room, "/state add rule: be short")
	h.ask(room, "/new")
	h.wantReply("/new", "Rule: be short")
	h.wantReply("/new Trip", "Rule: be short")
	h.wantTold("be short", true)
	h.ask(room, "/new")
	h.ask(room, "/new keep nothing")
	h.wantTold("be short", false)
}

func TestRulesAreNotCarriedOverWhereThatIsOff(t *testing.T) {
	t.Parallel()
	h := newStateHarness(t, nil)
	h.ask(room, "/state add rule: be short")
	h.ask(room, "/new")
	h.wantTold("be short", false)
	h.ask(room, "/state add rule: be kind")
	h.ask(room, "/new keep rules")
	h.wantTold("be kind", true)
}

// Deleting a conversation deletes its rules.
func TestClearLeavesNoRules(t *testing.T) {
	t.Parallel()
	h := newCarryingHarness(t)
	h.ask(room, "/state add rule: be short")
	h.ask(room, "hello")
	h.ask(room, "/clear yes")
	h.wantTold("be short", false)
}

// The conversation that follows one at the message limit has the same rules.
func TestMessageLimitBeginsAnotherConversation(t *testing.T) {
	t.Parallel()
	h := newStateHarness(t, func(p *Deps) { p.Limits = state.Limits{Messages: 4, Carry: state.Carry{Rules: true}} })
	h.ask(room, "one")
	h.ask(room, "two")
	if got, want := h.ask(room, "three"), "A new conversation begins: the last one has reached 4 messages. /history list has it.\n\necho: three"; got != want {
		t.Errorf("%q", got)
	}
	h.ask(room, "/state add rule: be short") // the third message of this one
	h.ask(room, "four")
	if got := h.ask(room, "five"); !strings.HasPrefix(got, "A new conversation begins: the last one has reached 5 messages. /history list has it. Its rules carry over: /state.\n\n") {
		t.Errorf("%q", got)
	}
	if !strings.Contains(h.told(), "be short") {
		t.Errorf("the rule is gone: %s", h.told())
	}
	h.end()
	h.start()
	if got := h.ask(room, "six"); got != "echo: six" {
		t.Errorf("after a restart: %q", got)
	}
}
