package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/llm/llmtest"
)

// shownMessages returns the messages on the page of a chat, with "2/3" behind one that is one of several
// versions.
func (h *harness) shownMessages(name string) (list []string) {
	h.t.Helper()
	_, transcript, _ := strings.Cut(h.browser.Page("/chat/"+name), `id="messages"`)
	transcript, _, _ = strings.Cut(transcript, `id="live"`)
	for _, entry := range strings.Split(transcript, "<li class=")[1:] {
		said := regexp.MustCompile(`dir="auto">(?:<p>)?([^<]*)`).FindStringSubmatch(entry)[1]
		if v := regexp.MustCompile(`<span>(\d+) / (\d+)</span>`).FindStringSubmatch(entry); v != nil {
			said += " " + v[1] + "/" + v[2]
		}
		list = append(list, said)
	}
	return list
}

func (h *harness) expectMessages(when, name string, want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.shownMessages(name)); diff != "" {
		h.t.Errorf("%s: %s", when, diff)
	}
}

// choose switches to a version, which is named by its first message.
func (h *harness) choose(name, seq string) {
	h.t.Helper()
	if status, body := h.post("/chat/"+name+"/version", url.Values{"seq": {seq}}, false); status != http.StatusNoContent {
		h.t.Fatalf("choosing %s is answered %d: %s", seq, status, body)
	}
}

func (h *harness) edit(name, seq, text string) {
	h.t.Helper()
	if status, body := h.post("/chat/"+name+"/edit", url.Values{"seq": {seq}, "text": {text}}, false); status != http.StatusAccepted {
		h.t.Fatalf("the edit is answered %d: %s", status, body)
	}
	h.await(name)
}

// shownLast returns the messages of the last model call in one line.
func (h *harness) shownLast() string {
	calls := h.model.Calls()
	var said []string
	for _, m := range calls[len(calls)-1].Messages[1:] {
		said = append(said, m.Content)
	}
	return strings.Join(said, "|")
}

// Any message can be edited and any answer repeated. The earlier version stays, with all that followed
// it, and can be chosen again, also after a restart. The model is shown the chosen versions alone.
func TestVersionsOfEditedAndRepeatedMessages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Reply(llmtest.Echo)
	h.ask("v", "a")                                               // 1, 2
	h.ask("v", "b", sent{"n.txt", "text/plain", []byte("notes")}) // 3, 4
	h.ask("v", "c")                                               // 5, 6
	h.expectMessages("at first", "v", "a", "echo: a", "b", "echo: b", "c", "echo: c")

	h.edit("v", "1", "A") // 7, 8
	h.expectMessages("after an edit of the first message", "v", "A 2/2", "echo: A")
	if shown := h.shownLast(); shown != "A" {
		t.Errorf("the model is shown %s", shown)
	}
	h.ask("v", "d") // 9, 10
	h.choose("v", "1")
	h.expectMessages("back at the first version", "v", "a 1/2", "echo: a", "b", "echo: b", "c", "echo: c")
	if c := h.active("v"); c.State.Turns != 3 || c.State.Asked {
		t.Errorf("%d turns, asked %t", c.State.Turns, c.State.Asked)
	}
	h.end()
	h.start()
	h.ask("v", "e") // 11, 12
	if shown := h.shownLast(); strings.Contains(shown, "A") || !strings.HasSuffix(shown, "c|echo: c|e") {
		t.Errorf("then the model is shown %s", shown)
	}
	h.ask("v", "/retry") // 13
	h.expectMessages("after an answer was made anew", "v", "a 1/2", "echo: a", "b", "echo: b", "c", "echo: c", "e", "echo: e 2/2")
	h.choose("v", "12")
	h.expectMessages("at its first version", "v", "a 1/2", "echo: a", "b", "echo: b", "c", "echo: c", "e", "echo: e 1/2")

	h.edit("v", "3", "B") // 14, 15
	h.expectMessages("after an edit in the middle", "v", "a 1/2", "echo: a", "B 2/2", "echo: B")
	if page := h.browser.Page("/chat/v"); !strings.Contains(page, "n.txt") {
		t.Error("the edited message has lost its file")
	}
	h.choose("v", "7")
	h.expectMessages("at the other version of the first message", "v", "A 2/2", "echo: A", "d", "echo: d")
	h.choose("v", "1")
	h.expectMessages("at the version that was shown last, with its newest branch", "v", "a 1/2", "echo: a", "B 2/2", "echo: B")
	h.choose("v", "3")
	h.expectMessages("at the first version of the second message", "v", "a 1/2", "echo: a", "b 1/2", "echo: b", "c", "echo: c", "e", "echo: e 2/2")
	if c := h.active("v"); c.State.Turns != 4 {
		t.Errorf("%d turns", c.State.Turns)
	}
	for _, seq := range []string{"2", "99", "x", "-1"} {
		if status, _ := h.post("/chat/v/version", url.Values{"seq": {seq}}, false); status != http.StatusNotFound {
			t.Errorf("choosing %s is answered %d", seq, status)
		}
	}
	h.ask("v", "/undo")
	h.expectMessages("after /undo", "v", "a 1/2", "echo: a", "b 1/2", "echo: b", "c", "echo: c",
		"Taken back: “e” and what followed. The assistant does not see it any more.")
	if found := h.browser.Page("/search?q=d"); strings.Contains(found, "echo: d") {
		t.Error("the search finds messages of versions that are not chosen")
	}
	if refused := h.model.Refusals(); len(refused) > 0 {
		t.Errorf("the model refused %v", refused)
	}
}

// A message with versions has its switch also where it is the first of the page, and so does one of an
// earlier page that a script asks for.
func TestVersionsOfTheFirstMessageOfAPage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Reply(llmtest.Echo)
	h.talk("v", 20)
	h.edit("v", "39", "again") // seq 41 and 42
	h.talk("v", 29)
	page := h.browser.Page("/chat/v")
	if strings.Contains(page, `id="m40"`) || !strings.Contains(page, `id="m41"`) {
		t.Fatal("the page does not begin with the edited message, so that this test shows nothing")
	}
	if !strings.Contains(page, "<span>2 / 2</span>") {
		t.Error("the first message of the page has no versions")
	}
	h.talk("v", 10)
	earlier := regexp.MustCompile(`/chat/v/conversation/[^"]*before=\d+`).FindString(h.browser.Page("/chat/v"))
	if _, body, _ := h.browser.Get(earlier); !strings.Contains(body, "<span>2 / 2</span>") || !strings.Contains(body, "data-edit") {
		t.Errorf("the messages at %s can't be edited", earlier)
	}
	if body := h.browser.Page(earlier); strings.Contains(body, "data-edit") {
		t.Error("a page that can only be read has buttons to edit")
	}
}

// talk adds messages and their answers to a chat.
func (h *harness) talk(name string, n int) {
	h.t.Helper()
	for range n {
		_, err := h.store.Append(h.t.Context(), conversation.Key("web:"+name), "",
			conversation.Message{Role: conversation.RoleUser, Content: "said", Tokens: 1}, conversation.Message{Role: conversation.RoleAssistant, Content: "noted", Tokens: 1})
		h.must(err)
	}
}
