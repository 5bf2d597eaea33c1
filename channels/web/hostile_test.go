package web_test

import (
	"net/url"
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
	"parley/pages/pagestest"
)

// expectNoScript fails the test if a page contains something that a browser would run.
func expectNoScript(t *testing.T, what, page string) {
	t.Helper()
	for _, harm := range pagestest.Harm(page) {
		t.Errorf("%s: %s", what, harm)
	}
}

// No text of people, models, tools or files becomes a script in a page, the list of chats, the stream or
// a search.
func TestTextOfMessagesNeverBecomesScript(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it says every hostile text")
	}
	t.Parallel()
	h := newHarness(t)
	hostile := pagestest.Hostile()
	h.model.Reply(func(c llmtest.Call) llmtest.Answer {
		said := c.LastUser()
		if last := c.Messages[len(c.Messages)-1]; strings.HasPrefix(said, "tool ") && last.Role != "tool" {
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "1", Name: strings.TrimPrefix(said, "tool "), Arguments: said}, {ID: "2", Name: "show", Arguments: said}}}
		}
		return llmtest.Answer{Text: said, Pieces: 3}
	})
	s := h.follow("hostile", "/0/0")
	told := func(u update) {
		for _, html := range []*string{u.Waiting, u.Calls, u.Blocks, u.Chats} {
			if html != nil {
				expectNoScript(t, "the stream", *html)
			}
		}
		if u.Entries != nil {
			for _, e := range *u.Entries {
				expectNoScript(t, "the stream", e.HTML)
			}
		}
	}
	for _, text := range append(hostile[:len(hostile):len(hostile)], strings.Join(hostile, "\n"), "tool "+hostile[0], "tool "+hostile[1], "/"+hostile[2], "/search "+hostile[0]) {
		h.ask("hostile", text)
		s.until(func(u update) bool { told(u); return u.Entries != nil }) // else the stream would fall too far behind
	}
	h.say("hostile", "the last one", sent{hostile[1], "text/plain", []byte(strings.Join(hostile, "\n"))}, sent{hostile[0] + ".png", "image/png", pngOf(2)})
	s.until(func(u update) bool { told(u); return u.brings(">the last one<") })
	h.await("hostile")
	for path := "/chat/hostile"; path != ""; {
		page := h.browser.Page(path)
		expectNoScript(t, path, page)
		_, rest, _ := strings.Cut(page, `<a class="button small" href="`)
		path, _, _ = strings.Cut(rest, `"`)
	}
	for _, text := range hostile {
		name := "title"
		h.ask(name, "Begin")
		h.post("/chat/"+name+"/rename", url.Values{"title": {text}}, false)
		expectNoScript(t, "a title", h.browser.Page("/chat/"+name))
		expectNoScript(t, "a question", h.browser.Page("/chat/"+name+"/delete"))
		page := h.browser.Page("/search?q=" + url.QueryEscape(text))
		expectNoScript(t, "a search", page)
	}
}
