package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/png"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parley/activity"
	"parley/channels/web"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
	"parley/httpserver"
	"parley/llm"
	"parley/llm/llmtest"
)

// A chat works in a browser without scripts.
func TestChatWorksWithoutScripts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "Certainly, **at once**."} })
	status, body := h.post("/chat/plain/messages", url.Values{"text": {"Do it"}}, true)
	if status != http.StatusOK || !strings.Contains(body, "Do it") {
		t.Fatalf("after sending, the browser is shown %d: %s", status, body)
	}
	h.await("plain")
	page := h.browser.Page("/chat/plain")
	for _, want := range []string{"<title>Do it · Parley</title>", `dir="auto">Do it</div>`, "<strong>at once</strong>", `<a href="/chat/plain" aria-current="page">`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s:\n%s", want, page)
		}
	}
}

func TestCutAnswerIsMarkedOnThePage(t *testing.T) {
	t.Parallel()
	for reason, words := range map[string]string{"length": "cut off at the length limit", "content_filter": "cut off by the content filter", "stop": ""} {
		h := newHarness(t)
		h.model.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "Once upon a", FinishReason: reason} })
		h.ask("cut", "a story")
		page := h.browser.Page("/chat/cut")
		if got := strings.Contains(page, `<span class="mark">`+words+`</span>`); got != (words != "") || strings.Contains(page, "✂") {
			t.Errorf("%s: %s", reason, page)
		}
	}
}

// A warning stays beside its answer, also on a page that is loaded later.
func TestWarningStaysWithItsAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "[budget]\nsession_tokens = 100")
	h.model.Script(
		llmtest.Answer{Text: "One.", Usage: &llm.Usage{Prompt: 84, Completion: 1}},
		llmtest.Answer{Text: "Two.", Usage: &llm.Usage{Prompt: 9, Completion: 1}},
	)
	h.ask("warned", "Go on.")
	h.ask("warned", "Go on.")
	page := h.browser.Page("/chat/warned")
	first, second, _ := strings.Cut(page, "Two.")
	const warning = `<div class="warning prose" dir="auto"><p>⚠️ This chat has used 85 % of today's 100 tokens; more from `
	if strings.Count(first, warning) != 1 || strings.Contains(second, "⚠️") {
		t.Errorf("the page shows\n%s", page)
	}
}

// The page says that a message waits for an earlier one.
func TestPageSaysThatAMessageWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "[budget]\nmessages_per_minute = 1")
	page := h.follow("queue", "/0/0")
	h.ask("queue", "one")
	h.say("queue", "two")
	page.until(func(u update) bool {
		return u.Blocks != nil && strings.Contains(*u.Blocks, "⏳ I answer 1 message of yours in a minute.")
	})
	h.say("queue", "/stop")
	h.await("queue")
}

// A page that is not sure whether its message arrived sends it again.
func TestARepeatedMessageIsTakenOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 3 {
		if status, body := h.post("/chat/twice/messages", url.Values{"text": {"Once"}, "id": {"0123456789abcdef"}}, false); status != http.StatusAccepted {
			t.Fatalf("answered %d: %s", status, body)
		}
	}
	h.await("twice")
	if n := strings.Count(h.browser.Page("/chat/twice"), `class="bubble" dir="auto">Once<`); n != 1 {
		t.Errorf("the message stands there %d times", n)
	}
	// Another chat may use the same name for a message.
	h.post("/chat/other/messages", url.Values{"text": {"Mine"}, "id": {"0123456789abcdef"}}, false)
	h.await("other")
	if !strings.Contains(h.browser.Page("/chat/other"), ">Mine<") {
		t.Error("a message of another chat was taken for a repeated one")
	}
}

func TestInvalidMessagesAreExplained(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	many := make([]sent, 11)
	for i := range many {
		many[i] = sent{fmt.Sprintf("%d.txt", i), "text/plain", []byte("x")}
	}
	for _, tt := range []struct {
		text  string
		files []sent
		want  string
	}{
		{" \n ", nil, "nothing to send"},
		{strings.Repeat("x", 256<<10+1), nil, "too long"},
		{"", []sent{{"big.png", "image/png", bytes.Repeat([]byte{0}, 8<<20+1)}}, "big.png is too large: a file may have 8 MiB"},
		{"", []sent{{"empty.txt", "text/plain", nil}}, "empty.txt is empty"},
		{"", many, "At most 10 files"},
	} {
		status, body := h.post("/chat/refused/messages", url.Values{"text": {tt.text}}, false, tt.files...)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, tt.want) {
			t.Errorf("answered %d %s, want %q", status, body, tt.want)
		}
	}
	if c := h.active("refused"); c.Messages != 0 {
		t.Errorf("something of it was taken: %+v", c)
	}
}

// A text of many lines may be as long as the field takes it: browsers send each line break as two
// characters, which counted twice.
func TestLineBreaksOfAMessageCountOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	lines := strings.Repeat("x\n", 128<<10-1) + "xx" // 256 KiB
	if status, body := h.post("/chat/long/messages", url.Values{"text": {strings.ReplaceAll(lines, "\n", "\r\n")}}, false); status != http.StatusAccepted {
		t.Errorf("%d %s", status, body)
	}
}

func pngOf(side int) []byte {
	var data bytes.Buffer
	_ = png.Encode(&data, image.NewGray(image.Rect(0, 0, side, side))) // into memory
	return data.Bytes()
}

// Text that looks like the mark of a file stays text.
func TestTypedFileMarksStayText(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	typed := "[file secret.txt]\nroot\n[end of file secret.txt]\n[file other.txt, 2 KiB, not shown]"
	h.ask("typed", typed, sent{"notes.txt", "text/plain", []byte("[end of file notes.txt]\nstill inside")})
	page := h.browser.Page("/chat/typed")
	if !strings.Contains(page, `dir="auto">`+typed+`</div>`) {
		t.Errorf("the page does not show what was typed:\n%s", page)
	}
	if !strings.Contains(page, "download>Download</a></p><pre tabindex=\"0\">[end of file notes.txt]\nstill inside</pre>") || strings.Contains(page, "secret.txt</summary>") {
		t.Errorf("the page shows other files than the one that was sent:\n%s", page)
	}
}

// A pasted picture is shown to the model, and in the chat when it is loaded again.
func TestAPictureIsShownToTheModelAndInTheChat(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	data := pngOf(8)
	h.ask("album", "What is this?", sent{"cat.png", "application/octet-stream", data}, sent{"notes.txt", "text/plain", []byte("line one\nline two")})
	calls := h.model.Calls()
	last := calls[len(calls)-1].Messages
	if got := last[len(last)-1]; len(got.Images) != 1 || !strings.Contains(got.Content, "line two") {
		t.Errorf("the model was shown %+v", got)
	}
	page := h.browser.Page("/chat/album")
	address := fmt.Sprintf("/chat/album/conversation/%s/image/1/0", h.active("album").ID)
	if !strings.Contains(page, `<img src="`+address+`" alt="cat.png"`) || !strings.Contains(page, "download>Download</a></p><pre tabindex=\"0\">line one\nline two</pre>") {
		t.Errorf("the page shows %s", page)
	}
	status, body, header := h.browser.Get(address)
	if status != http.StatusOK || header.Get("Content-Type") != "image/png" || header.Get("X-Content-Type-Options") != "nosniff" || body != string(data) {
		t.Errorf("the picture is answered %d, %v", status, header)
	}
	for _, other := range []string{"/image/1/1", "/image/2/0", "/image/x/0", "/image/1/-1"} {
		if status, _, _ := h.browser.Get(strings.TrimSuffix(address, "/image/1/0") + other); status != http.StatusNotFound {
			t.Errorf("%s answers %d", other, status)
		}
	}
}

// zeroFile is the contents of a file, and counts how many bytes were read.
type zeroFile struct{ left, read atomic.Int64 }

func (z *zeroFile) Read(p []byte) (int, error) {
	n := min(int64(len(p)), z.left.Load())
	if n == 0 {
		return 0, io.EOF
	}
	clear(p[:n])
	z.left.Add(-n)
	z.read.Add(n)
	return int(n), nil
}

// A file of 2 GB is refused before much of it was sent, even if the browser does not say how large it
// is.
func TestAHugeFileIsRefusedEarly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for name, isSaid := range map[string]bool{"said": true, "not said": false} {
		const head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"film.mkv\"\r\n\r\n"
		film := &zeroFile{}
		film.left.Store(2 << 30)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.browser.URL+"/chat/garden/messages", io.MultiReader(strings.NewReader(head), film))
		h.must(err)
		request.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		request.Header.Set("Accept", "application/json")
		if isSaid {
			request.ContentLength = int64(len(head)) + 2<<30
		}
		if answer, err := h.browser.Client.Do(request); err == nil { // else the server has ended the connection
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode/100 != 4 || !strings.Contains(string(text), "too large") {
				t.Errorf("%s: %d %s", name, answer.StatusCode, text)
			}
		}
		if read := film.read.Load(); read > 64<<20 {
			t.Errorf("%s: %d bytes were read", name, read)
		}
	}
}

// Files of any kind are accepted, and downloaded in a way in which no browser runs them. A file can't be
// reached through the address of another chat.
func TestFilesAreOfferedForDownload(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("drawer", "Keep this.", sent{"page.html", "text/html", []byte("<script>alert(1)</script>")}, sent{"tool.exe", "application/octet-stream", []byte{0x4d, 0x5a, 0xff, 0xfe}})
	base := "/conversation/" + h.active("drawer").ID + "/attachment/1/"
	page := h.browser.Page("/chat/drawer")
	for n, want := range []string{"<script>alert(1)</script>", "\x4d\x5a\xff\xfe"} {
		address := "/chat/drawer" + base + strconv.Itoa(n)
		if !strings.Contains(page, `<a href="`+address+`" download>`) {
			t.Errorf("the page does not offer %s:\n%s", address, page)
		}
		status, body, header := h.browser.Get(address)
		if status != http.StatusOK || body != want || header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(header.Get("Content-Disposition"), "attachment") ||
			header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s answers %d %q, %v", address, status, body, header)
		}
	}
	h.ask("cellar", "Hello.")
	for _, address := range []string{"/chat/cellar" + base + "0", "/chat/drawer" + base + "2", "/chat/drawer" + base + "-1", "/chat/drawer" + base + "x"} {
		if status, _, _ := h.browser.Get(address); status != http.StatusNotFound {
			t.Errorf("%s answers %d", address, status)
		}
	}
}

// An edit of the last message removes its first version and the answer to it from the page and the
// window.
func TestEditReplacesTheLastMessage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("edit", "First")
	h.ask("edit", "Secnod", sent{"cat.png", "image/png", pngOf(4)})
	if status, body := h.post("/chat/edit/edit", url.Values{"seq": {"2"}, "text": {"Other"}}, false); status != http.StatusUnprocessableEntity || !strings.Contains(body, "not there any more") {
		t.Errorf("an answer is changed: %d %s", status, body)
	}
	if status, body := h.post("/chat/edit/edit", url.Values{"seq": {"3"}, "text": {"Second"}}, false); status != http.StatusAccepted {
		t.Fatalf("answered %d: %s", status, body)
	}
	h.await("edit")
	page := h.browser.Page("/chat/edit")
	if strings.Contains(page, "Secnod") || !strings.Contains(page, ">Second<") || strings.Contains(page, "Taken back") || !strings.Contains(page, `alt="cat.png"`) {
		t.Errorf("the page shows %s", page)
	}
	calls := h.model.Calls()
	for _, m := range calls[len(calls)-1].Messages {
		if strings.Contains(m.Content, "Secnod") {
			t.Errorf("the model is still told %q", m.Content)
		}
	}
}

// A page sends an edit again when its request breaks off, also while the gateway still handles the first one.
func TestAnEditThatComesSeveralTimesIsTakenOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("twice", "Frist")
	hold := make(chan struct{})
	h.model.Reply(func(llmtest.Call) llmtest.Answer { <-hold; return llmtest.Answer{Text: "At last."} })
	edit := url.Values{"seq": {"1"}, "text": {"First"}, "id": {strings.Repeat("a", 32)}}
	var sent sync.WaitGroup
	for range 8 {
		sent.Go(func() {
			if status, body := h.post("/chat/twice/edit", edit, false); status != http.StatusAccepted {
				t.Errorf("it is answered %d: %s", status, body)
			}
		})
	}
	sent.Wait()
	other := url.Values{"seq": {"1"}, "text": {"Other"}}
	if status, _ := h.post("/chat/twice/edit", other, false); status != http.StatusUnprocessableEntity {
		t.Errorf("another edit meanwhile is answered %d", status)
	}
	close(hold)
	h.await("twice")
	h.expectMessages("after the edit", "twice", "First 2/2", "At last.")
}

// While an edit is answered, the page shows it in place of the earlier version.
func TestAnEditIsShownAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("now", "First")
	h.ask("now", "Secnod")
	hold := make(chan struct{})
	h.model.Reply(func(llmtest.Call) llmtest.Answer { <-hold; return llmtest.Answer{Text: "At last."} })
	if status, body := h.post("/chat/now/edit", url.Values{"seq": {"3"}, "text": {"Second"}}, false); status != http.StatusAccepted {
		t.Fatalf("answered %d: %s", status, body)
	}
	if page := h.browser.Page("/chat/now"); strings.Contains(page, "Secnod") || !strings.Contains(page, ">Second<") || !strings.Contains(page, ">First<") {
		t.Errorf("while it is answered the page shows %s", page)
	}
	close(hold)
	h.await("now")
	if page := h.browser.Page("/chat/now"); strings.Contains(page, "Secnod") || !strings.Contains(page, "At last.") {
		t.Errorf("after it the page shows %s", page)
	}
}

// Commands are written like messages, and their replies offer buttons with further commands.
func TestCommandsAndTheirButtons(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("talk", "One")
	h.ask("talk", "Two")
	h.ask("talk", "/history 1")
	h.ask("talk", "/export md")
	page := h.browser.Page("/chat/talk")
	for _, want := range []string{`<p class="asked">/history 1</p>`, `name="text" value="/history 1 1"`, "<button>Older</button>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s:\n%s", want, page)
		}
	}
	_, rest, _ := strings.Cut(page, `href="/chat/talk/file/`)
	id, _, _ := strings.Cut(rest, `"`)
	status, body, header := h.browser.Get("/chat/talk/file/" + id)
	if status != http.StatusOK || !strings.Contains(body, "Two") || !strings.HasPrefix(header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the file is answered %d, %v: %s", status, header, body)
	}
	if status, _, _ := h.browser.Get("/chat/other/file/" + id); status != http.StatusNotFound {
		t.Errorf("another chat has the file as well: %d", status)
	}
}

// When the model fails, the page shows the question, the reason, and a button to try again.
func TestAFailureOffersAnotherTry(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Script(llmtest.Answer{Status: 400}, llmtest.Answer{Text: "Now it works"})
	h.ask("fails", "Please")
	page := h.browser.Page("/chat/fails")
	if !strings.Contains(page, `class="notice failed"`) || !strings.Contains(page, "<button>Try again</button>") || !strings.Contains(page, ">Please<") {
		t.Fatalf("the page shows %s", page)
	}
	h.ask("fails", "/retry")
	if page := h.browser.Page("/chat/fails"); !strings.Contains(page, "Now it works") {
		t.Errorf("after another try the page shows %s", page)
	}
}

func TestToolCallsAreShown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Script(llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "1", Name: "show", Arguments: `{"it":1}`}}}, llmtest.Answer{Text: "Done."})
	h.ask("tools", "Use it")
	page := h.browser.Page("/chat/tools")
	if !strings.Contains(page, "Used show") || !strings.Contains(page, "shown: {&#34;it&#34;:1}") || strings.Count(page, `download="show-`) != 1 {
		t.Errorf("the page shows %s", page)
	}
}

// A picture of a tool that the answer names is also shown below the answer.
func TestAnAnswerShowsThePicturesOfToolsThatItNames(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Reply(func(c llmtest.Call) llmtest.Answer {
		result := c.Messages[len(c.Messages)-1]
		if result.Role != "tool" {
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "1", Name: "show", Arguments: "{}"}}}
		}
		_, name, _ := strings.Cut(result.Content, "[picture ")
		name, _, _ = strings.Cut(name, ":")
		return llmtest.Answer{Text: "See " + name + ", and once more " + name}
	})
	h.ask("tools", "Show it")
	page := h.browser.Page("/chat/tools")
	_, answer, _ := strings.Cut(page, "The assistant answered:")
	if strings.Count(page, `download="show-`) != 2 || strings.Count(answer, `download="show-`) != 1 || strings.Count(answer, `<img src="/chat/tools/`) != 1 {
		t.Errorf("the page shows %s", page)
	}
}

// A conversation is renamed, archived, reopened and deleted.
func TestAConversationIsNamedArchivedReopenedAndDeleted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("life", "Hello")
	id := h.active("life").ID
	if status, _ := h.post("/chat/life/rename", url.Values{"title": {"  Of  life "}}, true); status != http.StatusOK {
		t.Errorf("renaming answers %d", status)
	}
	if got := h.active("life").Title; got != "Of life" {
		t.Errorf("its title is %q", got)
	}
	_, page := h.post("/chat/life/archive", nil, true)
	if !strings.Contains(page, "This conversation is archived.") || !strings.Contains(page, "Archived</summary>") || strings.Contains(page, `id="compose"`) {
		t.Errorf("an archived conversation shows %s", page)
	}
	_, page = h.post("/chat/life/conversation/"+id+"/reopen", nil, true)
	if !strings.Contains(page, `id="compose"`) || !strings.Contains(page, ">Hello<") || h.active("life").ID != id {
		t.Errorf("after it was reopened, it shows %s", page)
	}
	if asked := h.browser.Page("/chat/life/delete"); !strings.Contains(asked, "Delete “Of life”?") {
		t.Errorf("the page does not ask before it deletes: %s", asked)
	}
	h.post("/chat/life/delete", nil, true)
	if status, _, _ := h.browser.Get("/chat/life/conversation/" + id); status != http.StatusNotFound {
		t.Errorf("after it was deleted, it answers %d", status)
	}
	if page := h.browser.Page("/"); strings.Contains(page, "Of life") {
		t.Error("after it was deleted, it is still listed")
	}
}

// Changes of a chat in the list can be undone: the answer to the script says how.
func TestChangesOfAChatCanBeUndone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("back", "Hello")
	id := h.active("back").ID
	change := func(path string, fields url.Values) (answer struct {
		Undo *struct {
			URL    string
			Fields map[string]string
		}
	}) {
		t.Helper()
		status, body := h.post(path, fields, false)
		if status == http.StatusNoContent {
			return answer
		}
		if status != http.StatusOK {
			t.Fatalf("%s answers %d: %s", path, status, body)
		}
		h.must(json.Unmarshal([]byte(body), &answer))
		return answer
	}
	list := func() string {
		_, list, _ := strings.Cut(h.browser.Page("/"), `id="chats">`)
		list, _, _ = strings.Cut(list, `id="found-chats"`)
		return list
	}
	var before string
	gatewaytest.Await(t, "the end of the answer in the list", func() bool {
		before = list()
		return !strings.Contains(before, "at-work")
	})
	for path, fields := range map[string]url.Values{
		"/chat/back/rename":  {"title": {"Another name"}},
		"/chat/back/pin":     {"pinned": {"true"}},
		"/chat/back/archive": nil,
	} {
		answer := change(path, fields)
		if list() == before || answer.Undo == nil {
			t.Fatalf("after %s, which can be undone by %+v, the list is %s", path, answer.Undo, list())
		}
		undo := url.Values{}
		for name, value := range answer.Undo.Fields {
			undo.Set(name, value)
		}
		change(answer.Undo.URL, undo)
		if got := list(); got != before || h.active("back").ID != id {
			t.Errorf("when %s is undone, the list is %s; before it was %s", path, got, before)
		}
	}
}

// The web chat shows no session of another channel.
func TestOtherChannelsAreNotShown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	done, err := h.store.Append(t.Context(), "telegram:chat:1", "", conversation.Message{Role: conversation.RoleUser, Content: "A secret of Telegram", Tokens: 1})
	h.must(err)
	if status, _, _ := h.browser.Get("/chat/x/conversation/" + done.Conversation.ID); status != http.StatusNotFound {
		t.Errorf("a conversation of Telegram answers %d", status)
	}
	if page := h.browser.Page("/search?q=secret"); strings.Contains(page, "Telegram</") || !strings.Contains(page, "Nothing was found") {
		t.Errorf("the search shows %s", page)
	}
	for _, path := range []string{"/chat/..%2ftelegram:chat:1", "/chat/a:b", "/chat/" + strings.Repeat("a", 65)} {
		if status, _, _ := h.browser.Get(path); status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, status)
		}
	}
}

func TestSearchFindsMessagesOfAllChats(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("one", "The heron stood in the reeds")
	h.ask("two", "A grebe dives")
	page := h.browser.Page("/search?q=heron")
	if !strings.Contains(page, "<mark>heron</mark>") || strings.Contains(page, "<mark>grebe") {
		t.Fatalf("the search shows %s", page)
	}
	_, rest, _ := strings.Cut(page, `<ol class="found">`)
	for range 2 { // to the chat, and to the message
		_, rest, _ = strings.Cut(rest, `<a href="`)
		address, _, _ := strings.Cut(rest, `"`)
		if found := h.browser.Page(strings.ReplaceAll(address, "&amp;", "&")); !strings.Contains(found, "stood in the reeds") {
			t.Errorf("%s leads to %s", address, found)
		}
	}
}

// Among many chats, the one whose name is typed is found first, and every chat can be reached page by page, also without
// scripts.
func TestEveryChatOfManyCanBeReached(t *testing.T) {
	t.Parallel()
	const chats = 500
	h := newHarness(t)
	const count = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO `
	storetest.Exec(t, h.store, count+`sessions (id, key, channel, created_at) SELECT i, 'web:chat-' || i, 'web', 0 FROM n`)
	storetest.Exec(t, h.store, count+`conversations (id, uuid, session_id, title, messages, created_at, updated_at)
		SELECT i, printf('%036d', i), i, 'feta ' || i, 1, 0, i FROM n`)
	storetest.Exec(t, h.store, count+`messages (conversation_id, seq, run_id, role, content, tokens, created_at)
		SELECT i, 1, 0, 'user', 'a cheese', 9, 0 FROM n`)
	var first struct{ HTML, Next string }
	_, body, _ := h.browser.Get("/search?q=feta+342")
	h.must(json.Unmarshal([]byte(body), &first))
	if address := hrefs(first.HTML)[0]; address != "/chat/chat-342" || first.Next != "/search?q=feta+342&skip=20" {
		t.Errorf("%s is found first, and %s follows", address, first.Next)
	}
	next := regexp.MustCompile(`<a[^>]* href="([^"]+)"[^>]* rel="next"|<p class="none"><a href="(/chats[^"]+)"`)
	for _, start := range []string{"/", "/search?q=feta+342"} {
		reached := map[string]bool{}
		for address := start; address != ""; {
			page := h.browser.Page(address)
			if start != "/" || address != "/" {
				_, page, _ = strings.Cut(page, "<main") // without the sidebar
			}
			for _, to := range hrefs(page) {
				reached[to] = true
			}
			address = ""
			if found := next.FindStringSubmatch(page); found != nil {
				address = html.UnescapeString(found[1] + found[2])
			}
		}
		for n := 1; n <= chats; n++ {
			if !reached["/chat/chat-"+strconv.Itoa(n)] {
				t.Fatalf("paging from %s does not reach chat %d", start, n)
			}
		}
	}
	if status, body, _ := h.browser.Get("/chats?from=made-up"); status != http.StatusUnprocessableEntity {
		t.Errorf("an invalid page cursor is answered %d: %s", status, body)
	}
}

// hrefs returns the addresses that a page links to, in order.
func hrefs(page string) (list []string) {
	for _, found := range regexp.MustCompile(`<a[^>]* href="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		list = append(list, html.UnescapeString(found[1]))
	}
	return list
}

// A chat is in the list as soon as something was written in it.
func TestANewChatIsListedWhileItsFirstAnswerIsMade(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "Yes"} })
	h.ask("other", "Something else")
	hold := make(chan struct{})
	h.model.Reply(func(llmtest.Call) llmtest.Answer { <-hold; return llmtest.Answer{Text: "Yes"} })
	defer close(hold)
	s := h.follow("other", "/0/0")
	h.say("fresh", "May I come in?")
	s.until(func(u update) bool { return u.Chats != nil && strings.Contains(*u.Chats, "May I come in?") })
	if page := h.browser.Page("/"); !strings.Contains(page, `href="/chat/fresh"`) {
		t.Errorf("the list is %s", page)
	}
}

// The page shows the end of a long conversation, and earlier messages on request.
func TestEarlierMessagesAreShownOnRequest(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var said []conversation.Message
	for n := range 100 {
		said = append(said, conversation.Message{Role: conversation.RoleUser, Content: fmt.Sprintf("number %d.", n), Tokens: 1},
			conversation.Message{Role: conversation.RoleAssistant, Content: "noted", Tokens: 1})
	}
	_, err := h.store.Append(t.Context(), "web:long", "", said...)
	h.must(err)
	page := h.browser.Page("/chat/long")
	if !strings.Contains(page, "number 99.") || strings.Contains(page, "number 60.") {
		t.Error("the first page does not show the end alone")
	}
	for range 10 {
		_, rest, more := strings.Cut(page, `<div class="earlier"><a class="button small" href="`)
		if !more {
			break
		}
		address, _, _ := strings.Cut(rest, `"`)
		page = h.browser.Page(address)
	}
	if !strings.Contains(page, "number 0.") {
		t.Error("going back does not lead to the beginning")
	}
}

// Forms that another site sends are refused.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("forms", "Hello")
	for _, path := range []string{"/messages", "/edit", "/rename", "/archive", "/delete"} {
		r, err := http.NewRequest(http.MethodPost, h.browser.URL+"/chat/forms"+path, strings.NewReader(url.Values{"text": {"x"}, "title": {"x"}}.Encode()))
		h.must(err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		answer, err := h.browser.Client.Do(r)
		h.must(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s from another site answers %d", path, answer.StatusCode)
		}
	}
}

// An edit is refused while a later message waits, which it would take back, too.
func TestEditIsRefusedWhileALaterMessageWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("turns", "First")
	seq := fmt.Sprint(h.active("turns").Messages - 1)
	hold := make(chan struct{})
	h.model.Reply(func(llmtest.Call) llmtest.Answer { <-hold; return llmtest.Answer{Text: "At last."} })
	h.say("turns", "Second")
	status, body := h.post("/chat/turns/edit", url.Values{"text": {"First, changed"}, "seq": {seq}}, false)
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "still working") {
		t.Errorf("an edit of a message before a waiting one is answered %d: %s", status, body)
	}
	close(hold)
	h.await("turns")
	if page := h.browser.Page("/chat/turns"); !strings.Contains(page, ">First</div>") || !strings.Contains(page, ">Second</div>") {
		t.Errorf("after it the page shows %s", page)
	}
}

// An edit that is sent twice, since the first answer was lost, is done once.
func TestAnEditIsDoneOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("once", "First")
	h.ask("once", "Second")
	edit := url.Values{"text": {"Second, changed"}, "seq": {fmt.Sprint(h.active("once").Messages - 1)}, "id": {"made-by-the-page"}}
	for range 2 {
		if status, body := h.post("/chat/once/edit", edit, false); status != http.StatusAccepted {
			t.Fatalf("the edit is answered %d: %s", status, body)
		}
		h.await("once")
	}
	page := h.browser.Page("/chat/once")
	if strings.Count(page, ">Second, changed</div>") != 1 || !strings.Contains(page, ">First</div>") || strings.Contains(page, ">Second</div>") {
		t.Errorf("the page shows %s", page)
	}
}

// An edit that comes after somebody has begun a new conversation, since it waited in the browser, changes no message there.
func TestAnEditOfAnEarlierConversationIsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("late", "First")
	old := h.active("late")
	h.ask("late", "/new")
	h.ask("late", "Another matter")
	edit := url.Values{"text": {"First, changed"}, "seq": {fmt.Sprint(old.Messages - 1)}, "conversation": {old.ID}}
	if status, body := h.post("/chat/late/edit", edit, false); status != http.StatusUnprocessableEntity || !strings.Contains(body, "not there any more") {
		t.Errorf("the edit is answered %d: %s", status, body)
	}
	edit.Set("conversation", h.active("late").ID)
	if status, body := h.post("/chat/late/edit", edit, false); status != http.StatusAccepted {
		t.Errorf("an edit in the conversation of now is answered %d: %s", status, body)
	}
}

// Archiving a chat during an answer is refused at once, and the page says what to do.
func TestChatIsNotArchivedDuringAnAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("busy", "Hello")
	hold := make(chan struct{})
	defer close(hold)
	h.model.Reply(func(llmtest.Call) llmtest.Answer { <-hold; return llmtest.Answer{Text: "At last."} })
	s := h.follow("busy", "/0/0")
	h.say("busy", "Take long")
	s.until(func(u update) bool { return u.Working != nil && *u.Working })
	status, page := h.post("/chat/busy/archive", nil, true)
	if status != http.StatusConflict || !strings.Contains(page, "is working") {
		t.Errorf("archiving answers %d: %s", status, page)
	}
	if !h.active("busy").Active {
		t.Error("it was archived nevertheless")
	}
}

// The page of an archived conversation has no form for messages.
func TestAnArchivedConversationOffersNothingToSend(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("old", "Hello")
	h.model.Script(llmtest.Answer{Status: http.StatusBadRequest})
	h.ask("old", "Fail")
	if page := h.browser.Page("/chat/old"); !strings.Contains(page, "data-send") || !strings.Contains(page, "data-edit") {
		t.Fatalf("the open chat offers nothing: %s", page)
	}
	_, page := h.post("/chat/old/archive", nil, true)
	if strings.Contains(page, "data-send") || strings.Contains(page, "data-edit") || !strings.Contains(page, ">Hello</div>") {
		t.Errorf("the archived one shows %s", page)
	}
}

// The list links only to the pages that this gateway has.
func TestListLinksToTheOtherPages(t *testing.T) {
	t.Parallel()
	page := gatewaytest.ServePages(t, func(server *httpserver.Server) {
		web.New(web.Deps{Store: storetest.New(t), Feed: activity.NewFeed(), Log: slog.New(slog.DiscardHandler)}).Serve(server)
		server.Handle("GET /console/{$}", httpserver.Person, http.NotFoundHandler())
	}).Page("/")
	if !strings.Contains(page, `<a href="/console/">Console</a>`) || strings.Contains(page, "/api/docs") {
		t.Errorf("the page shows %s", page)
	}
	if strings.Contains(page, "/signout") {
		t.Error("a gateway without a token offers to sign out")
	}
}

// A message in another chat changes nothing but the list on a page.
func TestMessageInAnotherChatUpdatesTheListOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("mine", "Hello")
	s := h.follow("mine", "/0/0")
	s.until(func(u update) bool { return u.Chats != nil })
	h.ask("yours", "A stranger")
	for seen := false; !seen; {
		u := s.next()
		if u.Entries != nil || u.Waiting != nil || u.Blocks != nil || u.Title != nil {
			t.Errorf("the page is told %+v", u)
		}
		seen = u.Chats != nil && strings.Contains(*u.Chats, "A stranger")
	}
}

// Health tells the operator that the web chat is served.
func TestHealthListsTheWebChat(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	gatewaytest.Await(t, "the web chat to say that it serves", func() bool {
		list, err := bots.New(h.store).Health(t.Context())
		h.must(err)
		return slices.ContainsFunc(list, func(is bots.Health) bool {
			return is.Channel == "web" && is.State == bots.Serving
		})
	})
}

// The model's thoughts before a tool call are shown like those before its answer.
func TestThoughtsBeforeToolCallsAreShownFolded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Script(llmtest.Answer{Reasoning: "Which <clock>?", ToolCalls: []llm.ToolCall{{ID: "c", Name: "current_time", Arguments: "{}"}}},
		llmtest.Answer{Reasoning: "It is late.", Text: "Ten."})
	h.ask("thoughts", "how late is it?")
	page := h.browser.Page("/chat/thoughts")
	at := 0
	for _, want := range []string{
		`<details class="thought"><summary>Thought</summary><div>Which &lt;clock&gt;?</div></details>`, "current_time",
		`<details class="thought"><summary>Thought</summary><div>It is late.</div></details><p>Ten.</p>`,
	} {
		i := strings.Index(page[at:], want)
		if i < 0 {
			t.Fatalf("the page lacks %s behind %s", want, page[:at])
		}
		at += i
	}
}

func TestAnAnswerShowsItsModelAndItsThoughtFolded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.model.Script(llmtest.Answer{Text: "<think>if <b> then</think>It is so."})
	h.ask("thoughts", "why?")
	page := h.browser.Page("/chat/thoughts")
	for _, want := range []string{`<details class="thought"><summary>Thought</summary><div>if &lt;b&gt; then</div></details><p>It is so.</p>`, `<span class="by" dir="auto" title="Answered by">test-model</span>`, `<template class="source">It is so.</template>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
