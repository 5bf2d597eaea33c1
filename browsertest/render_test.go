package browsertest

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"parley/llm/llmtest"
)

const mathAnswer = `The roots are \(x_{1,2} = \frac{-b \pm \sqrt{b^2-4ac}}{2a}\,\), and it costs $5 to $10.

\[
\int_0^\infty e^{-x^2} \, dx = \frac{\sqrt{\pi}}{2}
\]

A mistake stays as it is: \(\frac{1\).`

// Versions of messages are made with the pencil and the arrow, also of earlier ones, and
// chosen below them; another tab follows. What a model thinks is folded.
func TestVersionsOfMessages(t *testing.T) {
	t.Parallel()
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "<think>Let me see.</think>\nTo: " + c.LastUser()}
	})
	b := openTab(t)
	b.open(g.URL)
	for n, said := range []string{"one", "two"} {
		b.say(said)
		b.answers(n + 1)
	}
	b.await("document.querySelectorAll('#messages details.thought:not([open])').length === 2")
	two := b.another()
	two.answers(2)
	b.await("(document.querySelector('#messages > .user .edit').click(), !document.getElementById('editing').hidden)")
	b.do(typed(" and more"), typed("\r"))
	b.await("document.querySelectorAll('#messages > .user').length === 1 && document.querySelector('#messages > .user .versions span').textContent === '2 / 2'")
	b.answers(1)
	two.await("document.querySelector('#messages > .user .versions span')?.textContent === '2 / 2'")
	b.shot("versions")
	b.do(chromedp.Click("#messages > .user .versions button:first-child"))
	b.leadsTo("1 / 2")
	b.answers(2)
	two.leadsTo("1 / 2")
	two.answers(2)
	b.await("(document.querySelector('#messages > .assistant .retry button').click(), true)") // of the earlier answer
	b.await("document.querySelector('#messages > .user .versions span')?.textContent === '3 / 3'")
	b.answers(1)
	b.await("(document.querySelector('#messages > .assistant .retry button').click(), true)") // of the last one
	b.await("document.querySelector('#messages > .assistant .versions span')?.textContent === '2 / 2'")
	b.clean()
}

// The end of an answer stays in sight when its formulas get higher by being typeset.
func TestEndStaysInSightWhenFormulasAreTypeset(t *testing.T) {
	t.Parallel()
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.LastUser(), "matrices") {
			return llmtest.Answer{Text: strings.Repeat("They grow:\n\n$$\\begin{matrix}1\\\\2\\\\3\\\\4\\\\5\\end{matrix}$$\n\n", 12) + "This is the end."}
		}
		return llmtest.Answer{Text: "No formula here."}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("Hello")
	b.answers(1)
	b.say("Show me matrices.")
	b.answers(2)
	b.await("document.querySelectorAll('#messages .math.display .katex-display').length === 12")
	b.await("((scroll) => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 2)(document.getElementById('scroll'))")
	b.clean()
}

// Formulas are typeset, and what loads for them is loaded for nothing else. Times are in
// the zone of the browser, not in that of the server.
func TestFormulasAndTimes(t *testing.T) {
	t.Parallel()
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.LastUser(), "roots") {
			return llmtest.Answer{Text: mathAnswer, Pieces: 10}
		}
		return llmtest.Answer{Text: "No formula here."}
	})
	b := openTab(t)
	zone := emulation.SetTimezoneOverrideParams{TimezoneID: "Pacific/Kiritimati"} // 14 hours ahead of UTC
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, zone); err != nil {
		t.Fatal(err)
	}
	b.open(g.URL)
	b.say("Hello")
	b.answers(1)
	for _, address := range b.asked() {
		if strings.Contains(address, "katex") {
			t.Errorf("a page without a formula loads %s", address)
		}
	}
	b.say("What are the roots?")
	b.answers(2)
	b.await("document.querySelectorAll('#messages .assistant .math .katex').length === 2")
	b.await("document.querySelector('#messages .math.display .katex-display')")
	b.awaitText("#messages .assistant", "costs $5 to $10")
	b.awaitText("#messages .assistant", `\(\frac{1\)`)
	b.shot("math")
	there := time.Now().UTC().Add(14 * time.Hour)
	b.await("new Date(document.querySelector('#messages time').dateTime).toLocaleString('en-GB', { day: 'numeric', timeZone: 'Pacific/Kiritimati' }) === '" + there.Format("2") + "'")
	b.await(`[...document.querySelectorAll('#messages time, #chats time')].every((time) => time.textContent ===
		new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" }).format(new Date(time.dateTime)))`)
	b.clean()
}
