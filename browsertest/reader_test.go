package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"parley/conversation"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// paragraphs is a text that is much higher than a screen.
func paragraphs(n int) string { return strings.Repeat("One paragraph of several.\n\n", n) }

const (
	scroller = "document.getElementById('scroll')"
	fromEnd  = "(" + scroller + ".scrollHeight - " + scroller + ".scrollTop - " + scroller + ".clientHeight)"
)

// Who reads above is left alone while an answer grows below, also when the gateway is slow to
// say that it has the message; who is at the end sees it grow; and who sends something sees that.
func TestTheReaderIsNotMoved(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	defer close(goOn)
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "slow" {
			<-goOn
			return slowly(paragraphs(60), 40, 20*time.Millisecond)
		}
		return llmtest.Answer{Text: paragraphs(60)}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("Write")
	b.answers(1)
	b.await(fromEnd + " < 2")
	eval[bool](b, holdReplies)
	b.say("slow")
	b.await("window.taken && !document.getElementById('answer').hidden && " + fromEnd + " < 2")
	// Further up than "Sending…" is high, which leaves the page with the reply.
	eval[bool](b, "window.noticed = false, "+scroller+".addEventListener('scroll', () => { window.noticed = true }), ("+scroller+".scrollTop -= 300) > 0")
	b.await("window.noticed && " + fromEnd + " >= 250") // the page hears of it before this does
	before := eval[float64](b, scroller+".scrollTop")
	eval[bool](b, "window.taken(), true")
	b.await("window.told")
	goOn <- struct{}{}
	b.answers(2)
	if after := eval[float64](b, scroller+".scrollTop"); after != before {
		t.Errorf("the reader was moved from %v to %v", before, after)
	}
	b.await("!document.getElementById('to-end').hidden")
	b.say("/status")
	b.awaitText("#messages .asked", "/status")
	b.await(fromEnd + " < 2")
	b.clean()
}

// Who has moved up a little, and is at the end only since a message that was being sent has left it, does not
// follow the answer.
func TestTheReaderDoesNotFollowWhenTheEndComesNearer(t *testing.T) {
	t.Parallel()
	goOn, answer := waittest.Gate(t)
	g := startGateway(t, func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "slow" {
			<-goOn
		}
		return llmtest.Answer{Text: paragraphs(60)}
	})
	b := openTab(t)
	b.open(g.URL)
	b.say("Write")
	b.answers(1)
	b.await(fromEnd + " < 2 && !document.querySelector('#unsent > li')")
	eval[bool](b, holdReplies)
	b.say("slow")
	b.await("window.taken && !document.getElementById('answer').hidden && document.querySelector('#unsent > li') && " + fromEnd + " < 2")
	eval[bool](b, "window.noticed = false, "+scroller+".addEventListener('scroll', () => { window.noticed = true }), ("+scroller+".scrollTop -= 10) > 0")
	b.await("window.noticed && " + fromEnd + " >= 5")
	eval[bool](b, "(window.noticed = false, window.taken(), true)")
	b.await("window.noticed && !document.querySelector('#unsent > li') && " + fromEnd + " < 2")
	answer()
	b.answers(2)
	if left := eval[float64](b, fromEnd); left < 1000 {
		t.Errorf("the reader was moved to %v above the end", left)
	}
	b.await("!document.getElementById('to-end').hidden")
	b.clean()
}

// Earlier messages come when one moves up to them, and what one reads stays
// where it is.
func TestEarlierMessagesComeByScrolling(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says("x"))
	store := g.Store()
	var said []conversation.Message
	for n := range 100 {
		said = append(said, conversation.Message{Role: conversation.RoleUser, Content: fmt.Sprintf("number %d.", n), Tokens: 1},
			conversation.Message{Role: conversation.RoleAssistant, Content: "noted", Tokens: 1})
	}
	if _, err := store.Append(t.Context(), "web:long", "", said...); err != nil {
		t.Fatal(err)
	}
	b := openTab(t)
	b.open(g.URL + "/chat/long")
	b.awaitText("#messages .bubble", "number 99.")
	b.await(fromEnd + " < 2")
	for range 3 {
		b.await("!document.querySelector('[data-earlier]') || document.querySelector('[data-earlier]').ariaBusy !== 'true'")
		n := eval[int](b, "document.querySelectorAll('#messages > li').length")
		// The reader moves up again where the page, while it loads, has moved back to the end.
		b.await(fmt.Sprintf("document.querySelectorAll('#messages > li').length > %d && %s.scrollTop > 1000 || (%s.scrollTop = 300) && false", n, scroller, scroller))
	}
	b.awaitText("#messages .bubble", "number 0.")
	b.await("!document.querySelector('[data-earlier]')")
	b.clean()
}

// A message that was found is in sight, marked, and nothing of the page is
// pushed out of the window.
func TestAFoundMessageIsInSight(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says(paragraphs(40)+"The heron stood there.\n\n"+paragraphs(40)))
	b := openTab(t)
	b.open(g.URL)
	b.say("Tell me of birds")
	b.answers(1)
	b.say("And again")
	b.answers(2)
	b.open(g.URL + "/search?q=heron")
	b.await("document.querySelector('.found a')")
	b.open(eval[string](b, "document.querySelector('.found li:last-child a:last-child').href"))
	b.await("document.querySelector('.messages > :target')")
	b.await("Math.abs(document.querySelector('.messages > :target').getBoundingClientRect().top) < innerHeight")
	for _, element := range []string{"document.documentElement", "document.body", "document.getElementById('main')"} {
		if top := eval[float64](b, element+".scrollTop"); top != 0 {
			t.Errorf("%s is moved up by %v pixels", element, top)
		}
	}
}

// What is wanted right to left reads so, and code never does.
func TestRightToLeft(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says("مرحبا بالعالم.\n\n> اقتباس\n\n```go\nfunc main() {}\n```\n\nAn English paragraph."))
	b := openTab(t)
	b.open(g.URL)
	b.say("مرحبا")
	b.answers(1)
	for expression, want := range map[string]string{
		"getComputedStyle(document.querySelector('#messages .code pre')).direction":                "ltr",
		"getComputedStyle(document.querySelector('#messages .prose')).direction":                   "rtl",
		"getComputedStyle(document.querySelector('#messages .prose blockquote')).borderRightWidth": "3px",
		"getComputedStyle(document.querySelector('#messages .prose p:last-child')).unicodeBidi":    "plaintext",
		"getComputedStyle(document.querySelector('#messages .prose blockquote')).borderLeftWidth":  "0px",
	} {
		if got := eval[string](b, expression); got != want {
			t.Errorf("%s is %s, want %s", expression, got, want)
		}
	}
}

// What a screen reader can reach has a name.
func TestEverythingHasAName(t *testing.T) {
	t.Parallel()
	g := startGateway(t, using("current_time", "{}", "Done.\n\n```go\nx\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |"))
	b := openTab(t)
	b.open(g.URL)
	b.say("Use a tool")
	b.answers(1)
	b.say("/export")
	b.awaitText("#messages .asked", "/export")
	b.do(chromedp.Click("#menu summary"))
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, node := range tree.Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		switch role := strings.Trim(string(node.Role.Value), `"`); role {
		case "button", "link", "textbox", "searchbox", "combobox", "list", "navigation", "dialog", "DisclosureTriangle", "image":
			if node.Name == nil || strings.Trim(string(node.Name.Value), `" `) == "" {
				if role != "list" { // of an answer
					t.Errorf("a %s has no name: %+v", role, node)
				}
			} else {
				named++
			}
		}
	}
	if named < 15 {
		t.Errorf("only %d things have a name", named)
	}
}

// Escape leaves the question whether to delete, in one stroke.
func TestEscapeKeepsTheConversation(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says("x"))
	b := openTab(t)
	b.open(g.URL)
	b.say("Keep me")
	b.answers(1)
	b.do(chromedp.Click("#menu summary"), chromedp.Click("[data-delete]"))
	b.await("document.getElementById('delete-dialog').open && !document.getElementById('menu').open")
	b.do(typed(kb.Escape))
	b.await("!document.getElementById('delete-dialog').open")
	b.clean()
}
