package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/conversation"
)

// Earlier messages, which come when one moves up, can be edited like the newest. Where they did not come at
// first, the link says so only until they do.
func TestEarlierMessagesCanBeEdited(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	var said []conversation.Message
	for n := range 100 {
		said = append(said, conversation.Message{Role: conversation.RoleUser, Content: fmt.Sprintf("number %d.", n), Tokens: 1},
			conversation.Message{Role: conversation.RoleAssistant, Content: "noted", Tokens: 1})
	}
	if _, err := g.Store().Append(t.Context(), "web:long", "", said...); err != nil {
		t.Fatal(err)
	}
	b := openTab(t)
	b.open(g.URL + "/chat/long")
	b.await("document.querySelector('[data-earlier]') && " + fromEnd + " < 2")
	eval[bool](b, "(window.load = window.fetch, window.fetch = () => Promise.reject(new TypeError('away')), document.querySelector('[data-earlier]').click(), true)")
	b.awaitText("[data-earlier]", "can't be loaded now")
	eval[bool](b, "(window.fetch = window.load, document.querySelector('[data-earlier]').click(), true)")
	b.awaitText("#messages .bubble", "number 60.")
	b.await("document.querySelector('[data-earlier]')?.textContent === 'Show earlier messages'")
	const pencil = "[...document.querySelectorAll('#messages > .user')].find((e) => e.textContent.includes('number 60.'))?.querySelector('[data-edit]:not([hidden])')"
	b.await("(" + pencil + "?.click(), !document.getElementById('editing').hidden)")
	b.do(chromedp.SetValue("#text-field", "changed"), chromedp.Focus("#text-field"), typed("\r"))
	b.awaitText("#messages .assistant", "To: changed")
	b.await("document.querySelector('#messages > .user .versions span')?.textContent === '2 / 2'")
	b.clean()
}

// Who chooses another version of a message stays at that message.
func TestChoosingAVersionStaysAtTheMessage(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says(paragraphs(40)))
	b := openTab(t)
	b.open(g.URL)
	for n, said := range []string{"one", "two"} {
		b.say(said)
		b.answers(n + 1)
	}
	b.await("(document.querySelector('#messages > .user .edit').click(), !document.getElementById('editing').hidden)")
	b.do(typed(" and more"), typed("\r"))
	b.await("document.querySelector('#messages > .user .versions span')?.textContent === '2 / 2'")
	b.answers(1)
	b.do(chromedp.Click("#messages > .user .versions button:first-child"))
	b.leadsTo("1 / 2")
	b.answers(2)
	b.await("Math.abs(document.querySelector('#messages > .user').getBoundingClientRect().top) < innerHeight / 2")
	b.clean()
}
