package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// The console as it looks, with a month of talks in it: make screenshots.
func TestConsoleLooks(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no folder for pictures was given: make screenshots")
	}
	g := startConsole(t)
	b := openTab(t)
	b.do(chromedp.EmulateViewport(1280, 900))
	shots := func(suffix string) {
		b.open(g.URL + "/console/?range=week")
		b.await("document.querySelector('.uplot')")
		b.shot("console" + suffix)
		for name, page := range map[string]string{
			"sessions": "sessions", "deliveries": "deliveries", "pairing": "pairing", "tools": "tools", "configuration": "configuration", "log": "log",
			"search": "search?q=lisbon", "session": "session?key=discord:thread:99120", "confirm": "confirm?do=delete&key=discord:thread:99120",
		} {
			b.open(g.URL + "/console/" + page)
			b.await("document.querySelector('h1')")
			b.shot("console-" + name + suffix)
		}
		b.open(g.URL + "/console/session?key=telegram:chat:5550101")
		address := eval[string](b, "document.querySelector('tbody th a').href")
		for name, path := range map[string]string{"transcript": "", "trace": "/trace", "window": "/window"} {
			b.open(address + path)
			b.await("document.querySelector('.messages, .runs')")
			b.shot(name + suffix)
		}
	}
	b.prefer("light")
	shots("")
	b.prefer("dark")
	shots("-dark")
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateScale(2)))
	shots("-phone")
}
