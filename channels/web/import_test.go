package web_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
)

// importFile imports a file in the background, and returns the page that says how it ended.
func (h *harness) importFile(name string, data []byte) (page string) {
	h.t.Helper()
	if status, body := h.post("/import", nil, true, sent{name, "application/json", data}); status != http.StatusOK {
		h.t.Fatalf("the import is answered %d: %s", status, body)
	}
	return h.awaitImport()
}

// awaitImport waits until no import is under way.
func (h *harness) awaitImport() (page string) {
	h.t.Helper()
	gatewaytest.Await(h.t, "the end of the import", func() bool {
		page = h.browser.Page("/import")
		return !strings.Contains(page, "data-under-way")
	})
	return page
}

// Each conversation of a ChatGPT export becomes a chat, once, which can be continued and exported again.
func TestImportAndExport(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	data, err := os.ReadFile("../../importer/testdata/conversations.json")
	h.must(err)
	body := h.importFile("conversations.json", data)
	if !strings.Contains(body, "in your list of chats now") || !strings.Contains(body, "conversations.json, ") {
		t.Fatalf("the import ended with %s", body)
	}
	_, list, _ := strings.Cut(body, `data-list="open"`)
	list, _, _ = strings.Cut(list, "</ul>")
	chats := hrefs(list)
	if len(chats) < 2 || strings.Contains(list, `datetime="`+time.Now().Format("2006")) {
		t.Fatalf("the list has not the chats with the dates of their messages: %s", list)
	}
	if body = h.importFile("conversations.json", data); !strings.Contains(body, "Nothing new was imported") {
		t.Errorf("a second import ended with %s", body)
	}
	name := strings.TrimPrefix(chats[len(chats)-1], "/chat/")
	if at := h.active(name).UpdatedAt; time.Since(at) > time.Hour {
		t.Errorf("the chat counts as unused since %s, and expires", at)
	}
	h.ask(name, "Let us go on")
	page := h.browser.Page("/chat/" + name)
	if !strings.Contains(page, "Let us go on") {
		t.Errorf("the chat reads %s", page)
	}
	if _, list, _ = strings.Cut(page, `data-list="open"`); hrefs(list)[0] != chats[len(chats)-1] {
		t.Errorf("the chat with the newest message is not the first of %v", hrefs(list))
	}
	for format, want := range map[string]string{"md": "Let us go on", "json": `"messages":`} {
		_, file, _ := h.browser.Get("/chat/" + name + "/export?format=" + format)
		if !strings.Contains(file, want) {
			t.Errorf("exported as %s it reads %s", format, file)
		}
	}
	for _, bad := range []string{"", "no JSON"} {
		if _, body := h.post("/import", nil, true, sent{"x.json", "application/json", []byte(bad)}); !strings.Contains(body, "be imported: ") || strings.Contains(body, "/tmp") {
			t.Errorf("a file with %q is answered %s", bad, body)
		}
	}
}

// fileOfConversations returns a file of conversations, each of one question.
func fileOfConversations(n int) []byte {
	var file strings.Builder
	for i := range n {
		line, _ := json.Marshal(map[string]any{"id": i, "messages": []map[string]string{{"role": "user", "content": strings.Repeat("What? ", i+1)}}})
		file.Write(append(line, '\n'))
	}
	return []byte(file.String())
}

// An import goes on when its page is closed, and after a restart of the gateway. A chat that was deleted
// meanwhile stays deleted, and another file is refused until the first one is done. A person can stop
// an import and continue it later.
func TestImportContinuesInTheBackground(t *testing.T) {
	t.Parallel()
	const talks = 150
	h := newHarness(t)
	file := sent{"talks.jsonl", "application/json", fileOfConversations(talks)}
	h.post("/import", nil, true, file)
	chat := h.awaitImported()
	if status, body := h.post(chat+"/delete", nil, true); status != http.StatusOK {
		t.Fatalf("the deletion of a chat is answered %d: %s", status, body)
	}
	h.end()
	h.start()
	if _, body := h.post("/import", nil, true, file); !strings.Contains(body, "Another file is being imported") {
		t.Errorf("a second file is answered %s", body)
	}
	if body := h.awaitImport(); !strings.Contains(body, "150 conversations are in your list of chats now.") || strings.Contains(body, "there already") {
		t.Errorf("the import ended with %s", body)
	}
	if status, _, _ := h.browser.Get(chat + "/export"); status != http.StatusNotFound {
		t.Error("the chat that was deleted is there again")
	}
	if body := h.importFile("talks.jsonl", file.data); !strings.Contains(body, "1 conversation is") || !strings.Contains(body, "149 were there already") {
		t.Errorf("the second import of the file ended with %s", body)
	}

	file.data = fileOfConversations(talks * 3)
	h.post("/import", nil, true, file)
	h.post("/import/stop", nil, true)
	if body := h.awaitImport(); !strings.Contains(body, "was stopped") {
		t.Errorf("the import that was stopped ended with %s", body)
	}
	h.end()
	h.start()
	if body := h.browser.Page("/import"); !strings.Contains(body, "was stopped") {
		t.Error("the import's result is not shown after a restart")
	}
}

// awaitImported waits for the first chat of an import, and returns its address.
func (h *harness) awaitImported() (chat string) {
	h.t.Helper()
	gatewaytest.Await(h.t, "the first imported chat", func() bool {
		page := h.browser.Page("/import")
		if !strings.Contains(page, "data-under-way") {
			h.t.Fatal("the import has ended already")
		}
		_, list, _ := strings.Cut(page, `data-list="open"`)
		list, _, _ = strings.Cut(list, "</ul>")
		if chats := hrefs(list); len(chats) > 0 {
			chat = chats[0]
		}
		return chat != ""
	})
	return chat
}
