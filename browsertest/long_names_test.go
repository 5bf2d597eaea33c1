package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/llm/llmtest"
)

// Names without a space have room on a phone: of files, where they are picked and where they were sent, of
// tools, and words that were searched for.
func TestLongNamesFitAPhone(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("unbroken", 8)
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.LastUser(), "tool") {
			return using(name, "{}", "There is none.")(c)
		}
		return echo(c)
	})
	b := openTab(t)
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	b.open(g.URL)
	b.await("document.activeElement.id === 'text-field'")
	fits := func(selector string) {
		t.Helper()
		if !eval[bool](b, "((e) => e.scrollWidth <= e.clientWidth)(document.querySelector('"+selector+"'))") {
			t.Errorf("a long name is wider than %s", selector)
		}
	}
	b.drop(name+name+".txt", "text/plain", "some notes")
	b.drop(name+name+".txt", "text/plain", "")
	b.awaitText("#trouble", "is empty.")
	fits("#picked")
	fits("#trouble")
	b.say("Here they are")
	b.answers(1)
	fits("#messages .enclosed summary")
	b.say("Use a tool")
	b.awaitText("#messages .assistant", "There is none.")
	fits("#messages .tools")
	fits("#scroll")
	b.open(g.URL + "/search?q=" + name + name)
	fits(".scroll")
	b.clean()
}
