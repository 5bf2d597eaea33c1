package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"parley/llm/llmtest"
)

// A page shows the waiting question, the answer while it is written, and then both in the chat.
func TestStreamShowsAnAnswerWhileItIsWritten(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	hold := make(chan struct{})
	h.model.Reply(func(llmtest.Call) llmtest.Answer {
		<-hold
		return llmtest.Answer{Text: "First paragraph.\n\nSecond paragraph.", Pieces: 6}
	})
	s := h.follow("live", "/0/0")
	s.next()
	h.say("live", "Hello")
	s.until(func(u update) bool { return u.Waiting != nil && strings.Contains(*u.Waiting, "Hello") })
	close(hold)
	u := s.until(func(u update) bool { return u.brings("Second paragraph.") })
	if !u.brings(">Hello<") || u.Waiting == nil || *u.Waiting != "" || u.Title == nil || *u.Title != "Hello" {
		t.Errorf("the answer comes with %+v", u)
	}
}

// A page that reconnects, even after a restart of the gateway, misses nothing and gets nothing twice.
func TestStreamContinuesAfterTheLastEvent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("broken", "One")
	s := h.follow("broken", "/0/0")
	s.until(func(u update) bool { return u.brings("echo: One") })
	s.body.Close()
	h.ask("broken", "Two")
	h.ask("broken", "/status")
	h.end()
	h.start()

	again := h.follow("broken", s.at)
	u := again.next()
	if u.brings(">One<") || !u.brings(">Two<") || !u.brings("echo: Two") || !u.brings(`class="asked">/status`) {
		t.Errorf("after the break the page is told %+v", u)
	}
	if u.Working == nil || *u.Working || u.Blocks == nil || *u.Blocks != "" || u.Waiting == nil || *u.Waiting != "" {
		t.Errorf("the beginning of the unfinished answer is not removed from the page: %+v", u)
	}
	var ids []string
	for _, e := range *u.Entries {
		ids = append(ids, e.ID)
	}
	if len(ids) != 5 || ids[0] != "m1" || ids[1] != "m2" {
		t.Errorf("the chat consists of %v", ids)
	}
	again.body.Close()
	if u := h.follow("broken", again.at).next(); u.brings("<li") {
		t.Errorf("a page that has all of it is told %+v", u)
	}
}

// A page says that the model is busy, and how long the wait still is, before the next attempt: the second call gets no
// answer until the page has said so.
func TestStreamReportsABusyModel(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	said := make(chan struct{})
	var calls atomic.Int64
	h.model.Reply(func(llmtest.Call) llmtest.Answer {
		if calls.Add(1) > 1 {
			<-said
		}
		return llmtest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"25"}}}
	})
	defer close(said)
	s := h.follow("busy", "/0/0")
	h.say("busy", "Hello")
	u := s.until(func(u update) bool { return u.Blocks != nil && strings.Contains(*u.Blocks, "The model is busy.") })
	left := regexp.MustCompile(`Trying again <time datetime="PT\d+S" data-form="left">in \d+ seconds</time>\.`)
	if !left.MatchString(*u.Blocks) {
		t.Errorf("the page is told %s", *u.Blocks)
	}
	if page := h.browser.Page("/chat/busy"); !left.MatchString(page) {
		t.Errorf("the page that is opened now says %s", page)
	}
	h.post("/chat/busy/messages", url.Values{"text": {"/stop"}}, false)
	s.until(func(u update) bool { return u.Working != nil && !*u.Working })
}

// Messages that are taken back disappear from all pages.
func TestStreamRemovesMessagesThatWereTakenBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("back", "One")
	h.ask("back", "Two")
	s := h.follow("back", "/0/0")
	s.until(func(u update) bool { return u.brings("echo: Two") })
	h.ask("back", "/undo")
	s.until(func(u update) bool { // perhaps not the first one: the answer before may be told once more
		return u.Entries != nil && !slices.ContainsFunc(*u.Entries, func(e struct{ ID, HTML string }) bool { return e.ID == "m3" || e.ID == "m4" })
	})
}

// A page that is open in another tab gets the messages of a version that is chosen, also when it was on
// the page before. It had to load again for them, and did not twice within ten seconds.
func TestStreamBringsAChosenVersionBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Reply(llmtest.Echo)
	h.ask("v", "One")
	h.edit("v", "1", "Two")
	s := h.follow("v", "/0/0")
	s.until(func(u update) bool { return u.brings("echo: Two") })
	for range 2 {
		h.choose("v", "1")
		s.until(func(u update) bool { return u.brings("echo: One") })
		h.choose("v", "3")
		s.until(func(u update) bool { return u.brings("echo: Two") })
	}
}

// A page is told to reload when a new conversation begins.
func TestStreamReportsANewConversation(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("next", "One")
	s := h.follow("next", "/0/0")
	s.until(func(u update) bool { return u.brings("echo: One") })
	h.ask("next", "/new")
	s.until(func(u update) bool { return u.Reload })
}

// A page that has missed too many events is told to reload.
func TestAPageThatMissedTooMuchLoadsAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("away", "One")
	s := h.follow("away", "/0/0")
	s.until(func(u update) bool { return u.brings("echo: One") })
	s.body.Close()
	for range 35 {
		h.ask("away", "more")
	}
	if u := h.follow("away", s.at).next(); !u.Reload {
		t.Errorf("the page is told %+v", u)
	}
}

func TestInvalidEventIDOfAStreamIsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, at := range []string{"", "x", "//", "a/b/c", "1/2/3/4", "a/" + strings.Repeat("9", 40) + "/1"} {
		status, _, _ := h.browser.Get("/chat/x/events?at=" + url.QueryEscape(at))
		if status != http.StatusBadRequest {
			t.Errorf("%q answers %d", at, status)
		}
	}
}
