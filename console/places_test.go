package console_test

import (
	"net/http"
	"testing"

	"parley/conversation"
	"parley/conversation/places"
)

// The new key of a place that has moved, which the platform and the log name, leads to its session. It led to "no such session".
func TestKeyOfAPlaceThatHasMovedShowsItsSession(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	d.talk(chat, ada, "hello", "hi", nil)
	const now = conversation.Key("telegram:chat:-1005")
	_, err := places.New(d.store).MovePlace(t.Context(), chat, now, func(address string) string { return address })
	d.must(err)
	status, page, _ := d.browser.Get("/console/session?key=" + string(now))
	if status != http.StatusOK {
		t.Errorf("the page answers %d", status)
	}
	d.shows(page, ">"+string(chat)+"</h1>")
}
