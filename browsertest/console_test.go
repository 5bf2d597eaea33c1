package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
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
	return startGatewayIn(t, dir, gatewaytest.OpenToAll+fmt.Sprintf(`
[telegram]
token = %q
api_url = %q
[llm.prices]
"gpt-5-mini" = { input = 0.25, output = 2.0 }
"claude-sonnet-4-5" = { input = 3.0, output = 15.0 }
`, telegramtest.Token, platform.URL), says("hello"))
}

// consolePages are all pages, of the conversation at an address.
func consolePages(g *gatewaytest.Gateway, conversation string) []string {
	list := []string{conversation, conversation + "/trace", conversation + "/window"}
	for _, page := range []string{"?range=hour", "?range=year", "sessions", "session?key=discord:thread:99120", "search?q=lisbon",
		"confirm?do=delete&key=discord:thread:99120", "deliveries", "pairing", "configuration", "log"} {
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
			if wide := eval[float64](b, "document.documentElement.scrollWidth"); wide > float64(width) {
				t.Errorf("%s is %v wide on a screen of %d", page, wide, width)
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
	b.do(chromedp.Focus(".item form button"), chromedp.KeyEvent("\r"))
	b.leadsTo("The reply is on its way again.")
	log.await(fmt.Sprintf("document.querySelectorAll('#lines > li').length > %d", before)) // its address is none of Telegram's
	b.clean()
	log.clean()
}
