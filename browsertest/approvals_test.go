package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools/mcp/mcptest"
)

// A question about a tool call comes into the open chat with its buttons, and a press answers
// it.
func TestAQuestionIsAnsweredByAButton(t *testing.T) {
	t.Parallel()
	g := startGatewayIn(t, t.TempDir(), gatewaytest.OpenToAll+"[tools]\nask = [\"current_time\"]\napprove_remember = true\n", using("current_time", `{"zone": "<b>x</b>"}`, "It is late."))
	b := openTab(t)
	b.open(g.URL)
	b.say("What time is it?")
	b.awaitText("#waiting .notice", "May I do this?")
	b.awaitText("#waiting .notice", "<b>x</b>")
	if got := b.text("#waiting .notice .offers"); !strings.Contains(got, "Allow") || !strings.Contains(got, "Deny") || !strings.Contains(got, "Always allow here") {
		t.Errorf("the buttons: %q", got)
	}
	b.shot("question")
	b.do(chromedp.Click("#waiting .notice .offers form:first-child button"))
	b.answers(1)
	b.awaitText("#messages .assistant", "It is late.")
	if got := b.text("#waiting"); got != "" {
		t.Errorf("the question stays: %q", got)
	}
	if got := b.parts(); !slices.Equal(got, []string{"user", "notice", "tools", "assistant"}) {
		t.Errorf("the page shows %v: the notice of the answer stands before the message that it was asked for", got)
	}
	b.clean()
}

// Where a run asks twice, the page shows the message, what was answered to the first question, and
// the second one, in this order, also when it is loaded anew. At the end, only the answer can be
// copied and made anew, not what the model thought on the way.
func TestTwoQuestionsOfARunStayInOrder(t *testing.T) {
	t.Parallel()
	g := startGatewayIn(t, t.TempDir(), gatewaytest.OpenToAll+"[tools]\nask = [\"current_time\"]\n", func(c llmtest.Call) llmtest.Answer {
		results := 0
		for _, m := range c.Messages {
			if m.Role == "tool" {
				results++
			}
		}
		if results == 2 {
			return llmtest.Answer{Text: "It is late."}
		}
		return llmtest.Answer{Reasoning: "I look at a clock.", ToolCalls: []llm.ToolCall{{ID: fmt.Sprint("call-", results), Name: "current_time", Arguments: "{}"}}}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("What time is it?")
	b.awaitText("#waiting .notice", "May I do this?")
	b.do(chromedp.Click("#waiting .notice .offers button"))
	b.awaitText("#waiting .notice .asked", "/approve 1")
	b.awaitText("#waiting .notice .offers", "Allow")
	waiting := []string{"user", "notice", "notice"}
	if got := b.parts(); !slices.Equal(got, waiting) {
		t.Errorf("while the second question waits, the page shows %v", got)
	}
	b.open(eval[string](b, "location.href"))
	if got := b.parts(); !slices.Equal(got, waiting) || !strings.Contains(b.text("#waiting .notice"), "Allowed by you") {
		t.Errorf("loaded anew, the page shows %v", got)
	}
	b.do(chromedp.Click("#waiting .notice:last-child .offers button"))
	b.awaitText("#messages .assistant", "It is late.")
	settled := []string{"user", "notice", "notice", "assistant", "tools", "assistant", "tools", "assistant"}
	b.await("!document.querySelector('#waiting *')")
	if got := b.parts(); !slices.Equal(got, settled) {
		t.Errorf("at the end, the page shows %v", got)
	}
	if n := eval[int](b, "document.querySelectorAll('#messages .assistant .below').length"); n != 1 {
		t.Errorf("%d parts of the answer have a line of their own with a time and buttons, want one", n)
	}
	b.open(eval[string](b, "location.href"))
	if got := b.parts(); !slices.Equal(got, settled) {
		t.Errorf("loaded anew at the end, the page shows %v", got)
	}
	b.clean()
}

// A form of a tool server stands at the end of the chat as it is now, with the only buttons. Answers
// to its fields are told above it, without the whole form.
func TestAFormIsFilledInThePage(t *testing.T) {
	t.Parallel()
	shop, err := mcptest.Section("shop", "2025", t.TempDir(), "eager = true")
	if err != nil {
		t.Fatal(err)
	}
	g := startGatewayIn(t, t.TempDir(), gatewaytest.OpenToAll+shop,
		using("shop_ask", `{"id": "1"}`, "It is ordered."))
	b := openTab(t)
	b.open(g.URL)
	b.say("Order one.")
	b.awaitText("#waiting .notice", "Colour")
	b.say("/answer 1 2 5")
	b.awaitText("#waiting .asked", "/answer 1 2 5")
	b.do(chromedp.Click("#waiting .notice:last-child .offers form:first-child button")) // Crimson
	b.await("document.querySelectorAll('#waiting .asked').length === 2")
	if got := b.parts(); !slices.Equal(got, []string{"user", "notice", "notice", "notice"}) {
		t.Errorf("the page shows %v", got)
	}
	if n := eval[int](b, "document.querySelectorAll('#waiting .notice:has(.asked) button').length"); n != 0 {
		t.Errorf("%d buttons of answers that are given", n)
	}
	if said := b.text("#waiting .notice:has(.asked)"); !strings.Contains(said, "size: 5") || strings.Contains(said, "The tool server") {
		t.Errorf("what was answered reads %q", said)
	}
	b.say("/approve")
	b.answers(1)
	b.awaitText("#messages .assistant", "It is ordered.")
	b.clean()
}

// parts returns the kinds of what a chat shows, from top to bottom.
func (b *tab) parts() []string {
	b.t.Helper()
	return strings.Fields(eval[string](b, "[...document.querySelectorAll('#messages > li, #waiting > li')].map((e) => e.classList[0]).join(' ')"))
}
