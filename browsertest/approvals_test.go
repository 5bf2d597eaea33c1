package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/gateway/gatewaytest"
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
	b.clean()
}
