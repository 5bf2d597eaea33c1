package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
	"parley/tools/mcp/mcptest"
)

// startConsole runs a gateway with Telegram over a copy of the database of a month.
func startConsole(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	if chrome == nil {
		t.Skip(skipped)
	}
	dir := t.TempDir()
	copyWorld(t, dir)
	platform := telegramtest.New(t)
	files, err := mcptest.Section("files", "hostile", t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return startGatewayIn(t, dir, gatewaytest.OpenToAll+fmt.Sprintf(`
[telegram]
token = %q
api_url = %q
[llm.prices]
"gpt-5-mini" = { input = 0.25, output = 2.0 }
"claude-sonnet-4-5" = { input = 3.0, output = 15.0 }
%s[mcp.gone]
command = "/there/is/no/such/program/anywhere/on/this/machine/whatever/its/name"
`, telegramtest.Token, platform.URL, files), says("hello"))
}

// consolePages are all pages, of the conversation at an address.
func consolePages(g *gatewaytest.Gateway, conversation string) []string {
	list := []string{conversation, conversation + "/trace", conversation + "/window"}
	for _, page := range []string{"?range=hour", "?range=year", "sessions", "session?key=discord:thread:99120", "search?q=lisbon",
		"confirm?do=delete&key=discord:thread:99120", "deliveries", "pairing", "tools", "configuration", "log"} {
		list = append(list, g.URL+"/console/"+page)
	}
	return list
}

func conversationURL(b *tab, g *gatewaytest.Gateway) string {
	b.t.Helper()
	b.open(g.URL + "/console/session?key=telegram:chat:5550101")
	return eval[string](b, "document.querySelector('tbody th a').href")
}

// Every page of the console loads without a complaint, asks no other host for
// anything, and has room on a screen of any size.
func TestConsolePagesFitEveryScreen(t *testing.T) {
	t.Parallel()
	g := startConsole(t)
	b := openTab(t)
	pages := consolePages(g, conversationURL(b, g))
	for _, width := range []int64{1280, 820, 360} {
		b.do(chromedp.EmulateViewport(width, 800))
		for _, page := range pages {
			b.open(page)
			b.await("document.readyState === 'complete' && document.querySelector('h1')")
			if strings.HasSuffix(page, "/tools") {
				b.shot(fmt.Sprintf("tools-%d", width))
			}
			if wide := eval[float64](b, "document.documentElement.scrollWidth"); wide > float64(width) {
				t.Errorf("%s is %v wide on a screen of %d", page, wide, width)
			}
			if width > 360 && !eval[bool](b, "[...document.querySelectorAll('table.wrapped')].every((t) => t.offsetWidth <= t.parentElement.clientWidth)") {
				t.Errorf("%s: long names make a table wider than a screen of %d", page, width)
			}
		}
	}
	for _, address := range b.asked() {
		if !strings.HasPrefix(address, g.URL) && !strings.HasPrefix(address, "about:") && !strings.HasPrefix(address, "data:") {
			t.Errorf("a page asked for %s", address)
		}
	}
	b.clean()
}

// The plots are drawn of the table's numbers, and again in other colours.
func TestTheOverviewDrawsItsPlots(t *testing.T) {
	t.Parallel()
	g := startConsole(t)
	b := openTab(t)
	b.open(g.URL + "/console/?range=month")
	b.await("document.querySelectorAll('.plots .uplot canvas').length === 4")
	b.do(chromedp.Click("[data-theme-switch]"))
	b.await("document.documentElement.dataset.theme && document.querySelectorAll('.plots .uplot canvas').length === 4")
	if loaded := b.loaded(); loaded > 150_000 {
		t.Errorf("the page loads %v bytes", loaded)
	}
	b.clean()
}

// A gateway that has just begun has one bucket of numbers. Each plot shows it, also that of the
// times to answer, in which no line leads there.
func TestAPlotOfASingleValueShowsAPoint(t *testing.T) {
	t.Parallel()
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "fail" {
			return llmtest.Answer{Status: 400}
		}
		return echo(c)
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("hello")
	b.answers(1)
	b.say("fail")
	b.awaitText("#messages .failed", "/retry")
	b.open(g.URL + "/console/?range=month")
	// drawn counts the pixels of a plot that have one of the colours of its lines.
	const drawn = `[...document.querySelectorAll(".plots [data-plot]")].map((place) => {
		const canvas = place.querySelector("canvas");
		const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
		const colors = ["--plot-1", "--plot-2", "--plot-3"].map((name) => {
			const line = document.createElement("i");
			line.style.color = ` + "`var(${name})`" + `;
			place.append(line);
			probe.fillStyle = getComputedStyle(line).color;
			line.remove();
			probe.fillRect(0, 0, 1, 1);
			return [...probe.getImageData(0, 0, 1, 1).data];
		});
		const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		let n = 0;
		for (let i = 0; i < data.length; i += 4) if (colors.some((color) => color.every((value, k) => data[i + k] === value))) n++;
		return n;
	})`
	b.await("document.querySelectorAll('.plots .uplot canvas').length === 4 && " + drawn + ".every((pixels) => pixels >= 9)")
	if rows := eval[int](b, "[...document.querySelectorAll('#points tbody tr')].filter((row) => [...row.cells].some((cell) => Number(cell.dataset.v) > 0)).length"); rows != 1 {
		t.Errorf("%d buckets have numbers, so that this test shows nothing", rows)
	}
	b.shot("plot-single-value")
	b.clean()
}

// A reply that failed is sent again by the keyboard alone, and the log tells of
// it while one looks.
func TestTheKeyboardSendsAReplyAgainAndTheLogGoesOn(t *testing.T) {
	t.Parallel()
	g := startConsole(t)
	b, log := openTab(t), openTab(t)
	log.open(g.URL + "/console/log?q=reply+not+delivered")
	log.await("document.getElementById('live').textContent === 'live'")
	before := eval[int](log, "document.querySelectorAll('#lines > li').length")
	b.open(g.URL + "/console/deliveries")
	b.await("document.querySelector('.item form button')")
	b.do(chromedp.Focus(".item form button"), typed("\r"))
	b.leadsTo("The reply is on its way again.")
	log.await(fmt.Sprintf("document.querySelectorAll('#lines > li').length > %d", before)) // its address is none of Telegram's
	b.clean()
	log.clean()
}

// Code and formulas of a transcript look as they do in the chat: code has its colours and a button
// that copies it.
func TestATranscriptShowsCodeLikeTheChat(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says("```go\npackage main\n```\n\nAnd \\(x^2\\)."))
	b := openTab(t)
	b.open(g.URL)
	b.say("Show me code")
	b.answers(1)
	b.open(g.URL + "/console/sessions")
	b.open(eval[string](b, "document.querySelector('tbody th a').href"))
	b.open(eval[string](b, "document.querySelector('tbody th a').href"))
	b.await("document.querySelector('.prose .code .copy:not([hidden])') && document.querySelector('.prose .hljs-keyword') && document.querySelector('.prose .math .katex')")
	b.clean()
}

// The log does not say that it goes on where the server has refused its stream for good.
func TestTheLogSaysWhenItHasStopped(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	g := startGatewayIn(t, t.TempDir(), "", echo)
	b := openTab(t)
	b.open(g.MustRun("token", "link"))
	b.leadsTo("What is on your mind?")
	b.open(g.URL + "/console/log")
	b.await("document.getElementById('live').textContent === 'live'")
	g.MustRun("token", "rotate")
	b.awaitText("#live", "Stopped. Reload the page to see new lines.")
}
