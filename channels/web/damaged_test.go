package web_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/internal/dbdamage"
)

// In a chat whose messages can't be read, a person can still begin a new conversation.
func TestChatThatCannotBeReadOffersANewConversation(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for n := range 12 {
		h.ask("lost", fmt.Sprintf("%d %s", n, strings.Repeat("marble ", 100)))
	}
	h.ask("other", "hello")
	h.end()
	pages := slices.DeleteFunc(dbdamage.Leaves(t, h.gw.Database, "messages"), func(p dbdamage.Page) bool { return !p.Has("marble") })
	dbdamage.Destroy(t, h.gw.Database, pages[len(pages)/2])
	h.start()
	page := h.browser.Page("/chat/lost")
	for _, want := range []string{"can&#39;t be read", "New conversation", `name="text"`} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("the page lacks %q", want)
		}
	}
	h.ask("lost", "hello?")
	if page := h.browser.Page("/chat/lost"); !strings.Contains(page, "hello?") && !strings.Contains(page, "be read") {
		t.Error("the page shows neither what was said nor why not")
	}
	h.ask("lost", "/new")
	h.ask("lost", "hello again")
	if page := h.browser.Page("/chat/lost"); !strings.Contains(page, "hello again") || strings.Contains(page, "damaged") {
		t.Errorf("the new conversation is not shown: %s", page)
	}
	if status, page, _ := h.browser.Get("/chat/other"); status != http.StatusOK || !strings.Contains(page, "hello") {
		t.Errorf("another chat answers %d", status)
	}
}
