package agentloop

import (
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/budgets"
	"parley/internal/waittest"
	"parley/llm"
	"parley/llm/llmtest"
)

// While the model is busy, the chat says so and for how long. A program is told nothing, since it
// would take that for the answer.
func TestChatShowsWhyItWaits(t *testing.T) {
	t.Parallel()
	for name, ofPrograms := range map[string]bool{"people": false, "programs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, func(d *Deps) { d.OfPrograms = func(conversation.Key) bool { return ofPrograms } })
			release, answer := waittest.Gate(t)
			h.server.Reply(func(c llmtest.Call) llmtest.Answer {
				if c.N == 1 {
					return llmtest.Answer{Status: 429, Header: map[string][]string{"Retry-After": {"1"}}}
				}
				<-release
				return llmtest.Answer{Text: "here at last"}
			})
			h.say(room, "hello")
			until(t, "the second try", func() bool { return h.server.Served() == 2 })
			shown := h.preview(room)
			if busy := strings.Contains(shown, "The model is busy. Trying again in a second."); busy == ofPrograms {
				t.Errorf("shown while it waits: %q", shown)
			}
			answer()
			if got := h.reply(room); got != "here at last" {
				t.Errorf("answer %q", got)
			}
		})
	}
}

// The operator's own terminal names server and key; other chats say what people can do.
func TestCauseOfAFailureIsForTheOperator(t *testing.T) {
	t.Parallel()
	for name, ofOperator := range map[string]bool{"terminal": true, "chat": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, func(d *Deps) { d.OfOperator = func(conversation.Key) bool { return ofOperator } })
			h.server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: 401} })
			h.say(room, "hello")
			text := h.reply(room)
			if strings.Contains(text, "does not accept the API key; check api_key in [llm]") != ofOperator ||
				strings.Contains(text, "tell whoever runs it") == ofOperator || !strings.Contains(text, "Your message is kept") {
				t.Errorf("the reply is %q", text)
			}
			if failed := h.committed(1).Error; !strings.Contains(failed, "check api_key in [llm]") {
				t.Errorf("the run keeps the error %q", failed)
			}
		})
	}
}

// The part of an answer that arrived before the stream broke off is stored, delivered and marked.
func TestAnswerThatBrokeOffIsKept(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "Once upon a time there was a fox", Pieces: 8, CutAfter: 7}
	})
	h.say(room, "a story")
	text := h.reply(room)
	if !strings.HasPrefix(text, "Once upon a time there") || !strings.Contains(text, "broke off here. /continue") {
		t.Errorf("the reply is %q", text)
	}
	run := h.committed(1)
	if last := run.Messages[len(run.Messages)-1]; run.Status != conversation.StatusDone || string(last.FinishReason) != llm.FinishCutOff || strings.Contains(last.Content, "broke off") {
		t.Errorf("stored as %s: %+v", run.Status, last)
	}
}

// A model that never answers in words is named as such.
func TestModelThatOnlyAsksForToolsIsNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) { d.Config.MaxToolRounds = 2 })
	h.server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "current_time", Arguments: "{}"}}}
	})
	h.say(room, "hello")
	if text := h.reply(room); !strings.Contains(text, "kept asking for tools") {
		t.Errorf("the reply is %q", text)
	}
	if failed := h.committed(1).Error; !strings.Contains(failed, "max_tool_rounds in [agent]") {
		t.Errorf("the run keeps the error %q", failed)
	}
}

// A reminder is delivered even if the model does not answer or must not be called.
func TestReminderIsSaidWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	remind := func(h *harness) string {
		in := h.inbound(room, "⏰ Reminder 1 is due:\ncall Ben")
		in.Options.Reminder = 1
		h.accept(in)
		return h.reply(room)
	}
	h := newHarness(t, nil)
	h.server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: 401} })
	capped := newCapped(t, budgets.Config{SessionTokens: 10})
	capped.server.Script(answerWithTokens("Yes.", 1000))
	capped.ask(room, "Are you there?")
	for name, got := range map[string]string{"failed": remind(h), "over budget": remind(capped)} {
		if !strings.HasPrefix(got, "⏰ Reminder 1 is due:\ncall Ben\n\n") || !strings.Contains(got, "Your message is kept") {
			t.Errorf("%s: answered with\n%s", name, got)
		}
	}
}
