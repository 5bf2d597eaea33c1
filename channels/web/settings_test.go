package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

// Instructions from the form are sent to the model, in this chat alone, until they are removed. The page
// shows them as text, whatever they contain.
func TestInstructionsOfAChatAreChangedOnItsPage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("rules", "hello")
	const hostile = `</textarea><script>alert("x")</script> Answer in rhymes.`
	save := func(fields url.Values) (status int, page string) {
		return h.post("/chat/rules/instructions", fields, true)
	}
	status, page := save(url.Values{"text": {hostile}})
	if status != http.StatusOK || strings.Contains(page, "<script>alert") || !strings.Contains(page, "&lt;/textarea&gt;&lt;script&gt;") || !strings.Contains(page, "They hold from the next answer on.") {
		t.Errorf("after saving: %d, %s", status, page)
	}
	told := func(chat string) bool {
		h.ask(chat, "and now?")
		calls := h.model.Calls()
		return slices.ContainsFunc(calls[len(calls)-1].Messages, func(m llm.Message) bool { return strings.Contains(m.Content, "Answer in rhymes.") })
	}
	if !told("rules") || told("other") {
		t.Error("the model is not told the instructions in their chat alone")
	}
	status, page = save(url.Values{"text": {strings.Repeat("long ", 4000)}})
	if status != http.StatusUnprocessableEntity || !strings.Contains(page, "they have 19999 bytes, and 16384 are allowed. Nothing was changed.") || !strings.Contains(page, "long long") {
		t.Errorf("too long: %d, %.300s", status, page)
	}
	if _, page = save(url.Values{"text": {hostile}, "clear": {"true"}}); !strings.Contains(page, "The instructions are removed.") || told("rules") {
		t.Error("the instructions are not removed")
	}
}

// The menu of a chat without messages leads to its instructions, which are sent with the first message.
// Only a chat with messages can be renamed, exported or deleted.
func TestANewChatHasInstructions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	shown := func(page, entry string) bool {
		_, entry, found := strings.Cut(page, entry)
		attributes, _, _ := strings.Cut(entry, ">")
		return found && !strings.Contains(attributes, "hidden")
	}
	entries := []string{`action="/chat/new/rename"`, `action="/chat/new/archive"`, `href="/chat/new/export"`, `href="/chat/new/delete"`}
	page := h.browser.Page("/chat/new")
	if !shown(page, `id="menu"`) || !shown(page, `href="/chat/new/settings"`) {
		t.Errorf("the menu of a new chat does not lead to its instructions: %s", page)
	}
	for _, entry := range entries {
		if shown(page, entry) {
			t.Errorf("the menu of a new chat has %s", entry)
		}
	}
	if status, page := h.post("/chat/new/instructions", url.Values{"text": {"Answer in rhymes."}}, true); status != http.StatusOK || !strings.Contains(page, "Answer in rhymes.") {
		t.Errorf("after saving: %d, %s", status, page)
	}
	h.ask("new", "hello")
	if call := h.model.Calls()[0]; !slices.ContainsFunc(call.Messages, func(m llm.Message) bool { return strings.Contains(m.Content, "Answer in rhymes.") }) {
		t.Errorf("the model is told %+v", call.Messages)
	}
	page = h.browser.Page("/chat/new")
	for _, entry := range entries {
		if !shown(page, entry) {
			t.Errorf("the menu of a chat lacks %s", entry)
		}
	}
}

func TestRemindersOfAChatAreDeletedOnItsPage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("plans", "hello")
	berlin, err := schedule.Zone("Europe/Berlin")
	h.must(err)
	at := time.Date(2036, 5, 2, 9, 0, 0, 0, berlin)
	set := func(person, text string) {
		_, err := reminders.New(h.store).Add(t.Context(), conversation.Inbound{Key: "web:plans", Sender: conversation.Sender{ID: person}}, "",
			reminders.Reminder{Text: text, Schedule: schedule.Schedule{Start: at, Rule: "FREQ=WEEKLY"}, Next: at})
		h.must(err)
	}
	set("web", "call <b>Ben</b>")
	set("somebody", "a secret")
	page := h.browser.Page("/chat/plans/settings")
	for _, want := range []string{"call &lt;b&gt;Ben&lt;/b&gt;", "Friday, 2 May 2036, 09:00, Europe/Berlin", "<code>FREQ=WEEKLY</code>"} {
		if !strings.Contains(page, want) || strings.Contains(page, "a secret") {
			t.Errorf("the page lacks %s, or shows another person's: %s", want, page)
		}
	}
	h.post("/chat/plans/reminders/delete", url.Values{"number": {"2"}}, true)
	if _, page := h.post("/chat/plans/reminders/delete", url.Values{"number": {"1"}}, true); !strings.Contains(page, "The reminder is deleted.") || strings.Contains(page, "call &lt;b&gt;") {
		t.Errorf("after deleting: %s", page)
	}
	if all, err := reminders.New(h.store).All(t.Context(), "web:plans"); err != nil || len(all) != 1 || all[0].Person.ID != "somebody" {
		t.Errorf("left are %+v: %v", all, err)
	}
}

// A page shows a reply even if no message of the chat contains it.
func TestReminderIsShownWhenTheModelFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("plans", "hello")
	h.end()
	store := storetest.Open(t, h.gw.Database)
	due := time.Now().Add(-time.Hour)
	_, err := reminders.New(store).Add(t.Context(), conversation.Inbound{Key: "web:plans", Sender: conversation.Sender{ID: "web"}}, "",
		reminders.Reminder{Text: "call Ben", Schedule: schedule.Schedule{Start: due}, Next: due})
	h.must(err)
	h.must(store.Close())
	h.model.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: http.StatusUnauthorized} })
	h.start()
	gatewaytest.Await(t, "the reminder", func() bool {
		page := h.browser.Page("/chat/plans")
		return strings.Contains(page, "call Ben") && strings.Contains(page, "I will answer when it is back.")
	})
}
