package console_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/dbhealth"
)

// Every page of the console says that the database was taken away, so that the operator notices.
func TestEveryPageSaysThatTheDatabaseWasTakenAway(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	d.talk(chat, ada, "hello", "hi", nil)
	d.browser.Page("/console/sessions") // so that a connection for reading is open
	d.must(os.Rename(d.store.Path(), d.store.Path()+".away"))
	if _, err := d.store.Accept(t.Context(), nil, conversation.Inbound{Key: chat, SourceID: "late", Text: "late"}); err == nil {
		t.Fatal("a message was accepted although the database was taken away")
	}
	for _, path := range []string{"/console/", "/console/sessions", "/console/log"} {
		_, page, _ := d.browser.Get(path)
		d.shows(page, "was taken away from the running process", d.store.Path()+".away")
	}
	d.must(os.Rename(d.store.Path()+".away", d.store.Path()))
	d.must(dbhealth.New(d.store).Probe(t.Context()))
	if status, page, _ := d.browser.Get("/console/"); status != http.StatusOK || strings.Contains(page, "was taken away") {
		t.Errorf("the overview answers %d although the database is back, or tells of it still", status)
	}
}
