package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/llm/llmtest"
)

const shownAnswer = "A **context** carries deadlines and cancellation down a call. Three habits keep it simple:\n\n" +
	"1. Pass it first, and never store it in a struct.\n2. Call `cancel` where you made it, with `defer`.\n3. Ask `ctx.Err()` only *after* something has failed.\n\n" +
	"```go\nfunc fetch(ctx context.Context, url string) ([]byte, error) {\n\tctx, cancel := context.WithTimeout(ctx, 5*time.Second)\n\tdefer cancel() // frees the timer early\n\n\treq, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)\n\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"fetch %s: %w\", url, err)\n\t}\n\treturn do(req)\n}\n```\n\n" +
	"| call | returns when | error |\n| :-- | :-- | --: |\n| `WithCancel` | you say so | `Canceled` |\n| `WithTimeout` | the time is over | `DeadlineExceeded` |\n\n" +
	"> The [documentation](https://pkg.go.dev/context) has more."

// The pages as they look, for those who change their looks: make screenshots.
func TestLooks(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no folder for pictures was given: make screenshots")
	}
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		switch said := c.LastUser(); {
		case strings.Contains(said, "context"):
			if c.Messages[len(c.Messages)-1].Role != "tool" {
				return using("current_time", "{}", "")(c)
			}
			return llmtest.Answer{Text: shownAnswer}
		case strings.Contains(said, "fail"):
			return llmtest.Answer{Status: 400}
		case strings.Contains(said, "long"):
			return llmtest.Answer{Text: "Here you are.\n\n```python\n" + strings.Repeat("print('a line of code that is rather long, so that it has to be moved sideways to be read in full, which is fine')\n", 12) + "```\n\n- [x] done\n- [ ] to do\n  - and below\n\n## A heading\n\nText behind it."}
		}
		return llmtest.Answer{Text: "Of course. What shall we begin with?"}
	})
	b := openTab(t)
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		b.open(g.URL)
		b.await("document.getElementById('empty')")
		b.shot("empty-" + scheme)
	}
	b.prefer("light")
	for _, title := range []string{"Plan a week in Lisbon", "A birthday poem for Ada", "Why does my build fail on arm64?"} {
		b.open(g.URL)
		b.say(title)
		b.await("document.querySelector('#messages .assistant, #messages .notice') && document.getElementById('answer').hidden")
	}
	b.shot("failed")
	b.do(chromedp.Click("#menu summary"))
	b.shot("menu")
	b.open(g.URL)
	b.say("How do I use a context well in Go?")
	b.answers(1)
	b.await("document.querySelector('.hljs-keyword')")
	b.do(chromedp.EmulateViewport(1280, 1000))
	b.shot("chat")
	b.do(chromedp.EmulateViewport(1280, 800))
	b.do(chromedp.Focus("#text-field"), typed("/"))
	b.shot("commands")
	b.do(typed("\b"))
	b.say("/status")
	b.await("document.querySelector('#messages .notice')")
	b.say("show me long code")
	b.answers(2)
	b.await("document.querySelectorAll('code .hljs-string').length > 3")
	b.prefer("dark")
	b.shot("long-dark")
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateScale(2)))
	b.shot("long-dark-phone")
	eval[float64](b, "document.getElementById('scroll').scrollTop = 0")
	b.shot("chat-dark-phone")
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateScale(2)))
	b.shot("chat-dark-narrow")
	b.do(chromedp.Click(".open-side"), chromedp.Sleep(400e6))
	b.shot("drawer-dark-phone")
	b.await("(document.querySelector('#chats .line-more').click(), !document.getElementById('line-menu').hidden)")
	b.shot("line-menu-phone")
	b.prefer("light")
	b.shot("drawer-phone")
	b.do(chromedp.EmulateViewport(1280, 800, chromedp.EmulateScale(1)))
	for _, page := range []string{"search?q=context", "import"} {
		b.open(g.URL + "/" + page)
		b.await("document.querySelector('h1')")
		b.shot(page[:6])
	}
}
