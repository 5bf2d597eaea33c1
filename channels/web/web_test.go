package web_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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

// Without scripts a chat is a page and a form.
func TestAChatWithoutScripts(t *testing.T) {
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

func TestWhatCanNotBeSentIsRefusedInWords(t *testing.T) {
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

func pngOf(side int) []byte {
	var data bytes.Buffer
	_ = png.Encode(&data, image.NewGray(image.Rect(0, 0, side, side))) // into memory
	return data.Bytes()
}

// What looks like a file is one only if somebody sent one.
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

// A picture that is pasted is seen by the model and by who comes back.
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

// A file of any kind is taken, and offered for download in a way that no browser runs
// it. Nobody reaches a file of another chat by its address.
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

// What was said last can be said anew: the first saying, and its answer, are
// gone from the page and from what the model sees.
func TestTheLastMessageIsSaidAnew(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("edit", "First")
	h.ask("edit", "Secnod", sent{"cat.png", "image/png", pngOf(4)})
	if status, body := h.post("/chat/edit/edit", url.Values{"seq": {"1"}, "text": {"Other"}}, false); status != http.StatusUnprocessableEntity || !strings.Contains(body, "only the last one") {
		t.Errorf("an earlier message is changed: %d %s", status, body)
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

// While an edit is answered, the page shows it in place of what it replaces.
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

// Commands work where messages are written, and offer what may be asked next.
func TestCommandsAndWhatTheyOffer(t *testing.T) {
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

// A model that fails leaves the question, a reason, and a way to ask again.
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
	if !strings.Contains(page, "Used show") || !strings.Contains(page, "shown: {&#34;it&#34;:1}") {
		t.Errorf("the page shows %s", page)
	}
}

// The life of a conversation: it is named, put away, taken up again, deleted.
func TestAConversationIsNamedArchivedReopenedAndDeleted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("life", "Hello")
	id := h.active("life").ID
	if status, _ := h.post("/chat/life/rename", url.Values{"title": {"  Of  life "}}, true); status != http.StatusOK {
		t.Errorf("renaming answers %d", status)
	}
	if got := h.active("life").Title; got != "Of life" {
		t.Errorf("it is called %q", got)
	}
	_, page := h.post("/chat/life/archive", nil, true)
	if !strings.Contains(page, "This conversation is archived.") || !strings.Contains(page, "Archived</summary>") || strings.Contains(page, `id="compose"`) {
		t.Errorf("an archived conversation shows %s", page)
	}
	_, page = h.post("/chat/life/conversation/"+id+"/reopen", nil, true)
	if !strings.Contains(page, `id="compose"`) || !strings.Contains(page, ">Hello<") || h.active("life").ID != id {
		t.Errorf("taken up again it shows %s", page)
	}
	if asked := h.browser.Page("/chat/life/delete"); !strings.Contains(asked, "Delete “Of life”?") {
		t.Errorf("before it is deleted, nobody asks: %s", asked)
	}
	h.post("/chat/life/delete", nil, true)
	if status, _, _ := h.browser.Get("/chat/life/conversation/" + id); status != http.StatusNotFound {
		t.Errorf("deleted it answers %d", status)
	}
	if page := h.browser.Page("/"); strings.Contains(page, "Of life") {
		t.Error("deleted it is still listed")
	}
}

// Places that are not web chats are nowhere to be seen.
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

func TestTheSearchFindsWhatWasSaidInAnyChat(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("one", "The heron stood in the reeds")
	h.ask("two", "A grebe dives")
	page := h.browser.Page("/search?q=heron")
	if !strings.Contains(page, "<mark>heron</mark>") || strings.Contains(page, "<mark>grebe") {
		t.Fatalf("the search shows %s", page)
	}
	_, rest, _ := strings.Cut(page, `<ol class="found">`)
	_, rest, _ = strings.Cut(rest, `<a href="`)
	address, _, _ := strings.Cut(rest, "#")
	if found := h.browser.Page(strings.ReplaceAll(address, "&amp;", "&")); !strings.Contains(found, "stood in the reeds") {
		t.Errorf("the hit leads to %s", found)
	}
}

// A long conversation shows its end, and the rest on request.
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

// No form works from another site.
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

// An edit never takes back another message than the one that it is of: while
// something waits behind that, it is refused.
func TestAnEditWaitsItsTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.ask("turns", "First")
	seq := fmt.Sprint(h.active("turns").Messages - 1)
	hold := make(chan struct{})
	h.model.Reply(func(llmtest.Call) llmtest.Answer { <-hold; return llmtest.Answer{Text: "At last."} })
	h.say("turns", "Second")
	status, body := h.post("/chat/turns/edit", url.Values{"text": {"First, changed"}, "seq": {seq}}, false)
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "still working") {
		t.Errorf("an edit behind which something waits is answered %d: %s", status, body)
	}
	close(hold)
	h.await("turns")
	if page := h.browser.Page("/chat/turns"); !strings.Contains(page, ">First</div>") || !strings.Contains(page, ">Second</div>") {
		t.Errorf("after it the page shows %s", page)
	}
}

// An edit whose answer was lost on the way is sent again, and done once.
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

// Nobody waits for a long answer to put a chat away: they are told what to do.
func TestAChatAtWorkIsNotPutAway(t *testing.T) {
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

// A page offers nothing that can't be done there.
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

// The list leads to the parts that this gateway has, and to no others.
func TestTheListLeadsToTheOtherParts(t *testing.T) {
	t.Parallel()
	page := gatewaytest.ServePages(t, func(server *httpserver.Server) {
		web.New(web.Deps{Store: storetest.New(t), Feed: activity.NewFeed(), Log: slog.New(slog.DiscardHandler)}).Serve(server)
		server.Handle("GET /console/{$}", httpserver.Person, http.NotFoundHandler())
	}).Page("/")
	if !strings.Contains(page, `<a href="/console/">Console</a>`) || strings.Contains(page, "/api/docs") {
		t.Errorf("the page shows %s", page)
	}
	if strings.Contains(page, "/signout") {
		t.Error("without a token there is something to sign out of")
	}
}

// What other chats do changes the list in a page, and nothing else of it.
func TestAnotherChatChangesTheListAlone(t *testing.T) {
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

// Who looks after the gateway sees that the web chat serves.
func TestTheChatSaysThatItServes(t *testing.T) {
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
