package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/console"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/pairing"
	"parley/conversation/steps"
)

const chat = conversation.Key("telegram:chat:42")

var ada = conversation.Sender{ID: "42", Name: "Ada"}

// The overview shows use by person, and its cost.
func TestOverviewShowsUsageAndCost(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, func(p *console.Deps) {
		p.Cost = func(model string, prompt, _, _ int64) (float64, bool) {
			return float64(prompt) / 1000, model == "fake"
		}
	})
	d.must(bots.New(d.store).SetHealth(t.Context(), conversation.Account{Channel: "telegram"}, bots.Interrupted, "no network"))
	d.talk(chat, ada, "hello", "hi", nil)
	d.talk(chat, ada, "again", "", func(r *conversation.Run) { r.Status, r.Error = conversation.StatusFailed, "503" })
	for _, name := range []string{"hour", "day", "week", "month", "year", "nonsense"} {
		page := d.browser.Page("/console/?range=" + name)
		d.shows(page, "interrupted", "no network", `<dt>Runs</dt><dd>2</dd>`, `<dt>Tokens in</dt><dd>2,400</dd>`, `<dt>Errors</dt><dd>1</dd>`,
			`<dt>Cost</dt><dd>2.40</dd>`, "Ada", "2 to be sent")
	}
}

func TestCutAnswerIsMarkedInTranscriptAndTrace(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	of := d.talk(chat, ada, "a story", "Once upon a", func(r *conversation.Run) {
		r.FinishReason = steps.FinishLength
		r.Messages[len(r.Messages)-1].FinishReason = steps.FinishLength
		r.Steps = []steps.Step{{Kind: steps.Model, Name: "fake", At: r.StartedAt, FinishReason: steps.FinishLength}}
	})
	d.shows(d.browser.Page("/console/conversation/"+of.ID), "cut off at the length limit")
	d.shows(d.browser.Page("/console/conversation/"+of.ID+"/trace"), `<span class="chip bad">cut off at the length limit</span>`,
		`<span class="trouble">cut off at the length limit</span>`)
}

// The cost of models without a price is shown as unknown.
func TestUnknownCostIsNotShownAsZero(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, func(p *console.Deps) {
		p.Cost = func(model string, _, _, _ int64) (float64, bool) { return 1.5, model == "fake" }
	})
	d.talk(chat, ada, "hello", "hi", nil)
	d.talk(chat, ada, "hello", "hi", func(r *conversation.Run) { r.Model = "other" })
	d.shows(d.browser.Page("/console/"), "≥ 1.5")
	free := newConsoleHarness(t, nil)
	free.talk(chat, ada, "hello", "hi", nil)
	free.shows(free.browser.Page("/console/"), `<dt>Cost</dt><dd>–</dd>`)
}

// Sessions are found by channel, person and words.
func TestSessionsAreFound(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	d.talk(chat, ada, "where is the Oceanário", "in Lisbon", nil)
	d.talk("discord:dm:7", conversation.Sender{ID: "7", Name: "Bob"}, "hello", "hi", nil)
	for query, want := range map[string][2]bool{
		"": {true, true}, "channel=discord": {false, true}, "user=Ada": {true, false}, "text=chat:42": {true, false},
		"state=archived": {false, false}, "sort=age": {true, true},
	} {
		page := d.browser.Page("/console/sessions?" + query)
		got := [2]bool{strings.Contains(page, ">telegram:chat:42</a>"), strings.Contains(page, ">discord:dm:7</a>")}
		if got != want {
			t.Errorf("%q lists %v, want %v", query, got, want)
		}
	}
	d.shows(d.browser.Page("/console/search?q=oceanario"), "<mark>Oceanário</mark>", "?at=1#m1")
	if status, _, _ := d.browser.Get("/console/sessions?from=nonsense"); status != http.StatusBadRequest {
		t.Errorf("a page that nobody has given answers %d", status)
	}
}

// Every message of a long conversation is on exactly one page, forwards and backwards.
func TestEveryMessageOfALongConversationIsOnOnePage(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	var of conversation.Conversation
	for n := range 130 {
		of = d.talk(chat, ada, fmt.Sprint("question ", n), "answer", nil)
	}
	shown := regexp.MustCompile(`<li class="message \w+" id="m(\d+)">`)
	for _, turn := range []struct{ first, rel string }{{"", "prev"}, {"?after=0", "next"}} {
		seen := map[string]int{}
		link := regexp.MustCompile(`href="([^"]+)" rel="` + turn.rel + `"`)
		for path := "/console/conversation/" + of.ID + turn.first; path != ""; {
			page := d.browser.Page(path)
			for _, m := range shown.FindAllStringSubmatch(page, -1) {
				seen[m[1]]++
			}
			path = ""
			if next := link.FindStringSubmatch(page); next != nil {
				path = next[1]
			}
		}
		if len(seen) != 260 {
			t.Errorf("turning to %s shows %d messages, want 260", turn.rel, len(seen))
		}
		for seq, n := range seen {
			if n != 1 {
				t.Errorf("message %s is on %d pages", seq, n)
			}
		}
	}
	d.shows(d.browser.Page("/console/conversation/"+of.ID+"?at=57#m57"), `id="m57"`, `id="m147"`)
}

// A trace shows how an answer was made: calls with their times, the messages that the window left out,
// arguments and results of tools, and errors.
func TestTraceShowsCallsWindowAndErrors(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	of := d.talk(chat, ada, "what time is it?", "It is noon.", func(r *conversation.Run) {
		start := r.StartedAt
		r.Steps = []steps.Step{
			{Kind: steps.Model, Name: "fake", At: start, Took: 400 * time.Millisecond, FirstByte: 100 * time.Millisecond, Prompt: 600, Completion: 20, Shown: 7, Left: 1234, Window: 590},
			{Kind: steps.Tool, Name: "current_time", At: start.Add(400 * time.Millisecond), Took: time.Millisecond, CallID: "c1"},
			{Kind: steps.Model, Name: "fake", At: start.Add(500 * time.Millisecond), Took: time.Hour, Error: "429 too many"},
		}
		r.Messages = []conversation.Message{r.Messages[0],
			{Role: conversation.RoleAssistant, Reasoning: "I need a <clock>.", ToolCalls: []conversation.ToolCall{{ID: "c1", Name: "current_time", Arguments: `{"zone":"UTC"}`}}},
			{Role: conversation.RoleTool, ToolCallID: "c1", ToolName: "current_time", Content: "12:00 UTC"}, r.Messages[1]}
		r.Instructions = []string{"Answer <briefly>.", "Name no names."}
	})
	page := d.browser.Page("/console/conversation/" + of.ID + "/trace")
	d.shows(page, "what time is it?", "first byte after 100 ms", "600 in, 20 out", "1,234 older left out", "{&#34;zone&#34;:&#34;UTC&#34;}", "12:00 UTC", "429 too many",
		"2 instructions in force", "Answer &lt;briefly&gt;.", "Name no names.",
		`<details class="fold"><summary>Thought</summary><pre dir="auto" tabindex="0">I need a &lt;clock&gt;.</pre></details>`)
	bar := regexp.MustCompile(`<rect class="work" x="(\d+)" y="1" width="(\d+)"`)
	for _, m := range bar.FindAllStringSubmatch(page, -1) {
		var x, width int
		fmt.Sscan(m[1]+" "+m[2], &x, &width)
		if width < 1 || x+width > 1000 {
			t.Errorf("a bar can't be seen whole: from %d, %d wide", x, width)
		}
	}
	if n := len(bar.FindAllString(page, -1)); n != 3 {
		t.Errorf("%d bars, want 3", n)
	}
	for _, path := range []string{"", "/window"} {
		d.browser.Page("/console/conversation/" + of.ID + path)
	}
}

// Conversations are renamed, archived, reset and deleted. Deletions are confirmed first.
func TestConversationsAreRenamedArchivedResetAndDeleted(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	of := d.talk(chat, ada, "hello", "hi", nil)
	at := "/console/conversation/" + of.ID
	if status, page := d.submit(at+"/rename", url.Values{"title": {"  A   new title "}}); status != http.StatusOK || !strings.Contains(page, "<h1 dir=\"auto\">A new title</h1>") {
		t.Errorf("rename: %d %s", status, page)
	}
	if status, _ := d.submit(at+"/rename", url.Values{"title": {strings.Repeat("x", 81)}}); status != http.StatusUnprocessableEntity {
		t.Errorf("a title that is too long: %d", status)
	}
	key := url.Values{"key": {string(chat)}}
	d.shows(d.browser.Page("/console/confirm?do=archive&key="+url.QueryEscape(string(chat))), `action="/console/session/archive"`, `value="telegram:chat:42"`)
	if status, page := d.submit("/console/session/archive", key); status != http.StatusOK || !strings.Contains(page, "The conversation is archived.") {
		t.Errorf("archive: %d", status)
	}
	if status, _ := d.submit("/console/session/archive", key); status != http.StatusNotFound {
		t.Errorf("archiving again: %d", status)
	}
	d.talk(chat, ada, "hello", "hi", nil)
	if status, _ := d.submit("/console/session/reset", key); status != http.StatusOK {
		t.Errorf("reset: %d", status)
	}
	d.shows(d.browser.Page("/console/confirm?do=delete-conversation&id="+of.ID), `action="`+at+`/delete"`)
	if status, _ := d.submit(at+"/delete", url.Values{}); status != http.StatusOK {
		t.Errorf("delete: %d", status)
	}
	if status, _, _ := d.browser.Get(at); status != http.StatusNotFound {
		t.Errorf("a deleted conversation answers %d", status)
	}
	if status, _ := d.submit("/console/session/delete", key); status != http.StatusOK {
		t.Errorf("delete all: %d", status)
	}
	if page := d.browser.Page("/console/sessions"); strings.Contains(page, ">telegram:chat:42</a>") {
		t.Error("a session is listed of which all was deleted")
	}
}

// Forms that another site's page sends with the operator's browser are refused.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	of := d.talk(chat, ada, "hello", "hi", nil)
	d.browser.Page("/console/")
	for _, path := range []string{"/console/session/archive", "/console/session/reset", "/console/session/delete", "/console/deliveries/1/retry",
		"/console/pairing/approve", "/console/pairing/revoke", "/console/conversation/" + of.ID + "/rename", "/console/conversation/" + of.ID + "/delete"} {
		r, err := http.NewRequest(http.MethodPost, d.browser.URL+path, strings.NewReader(url.Values{"key": {string(chat)}, "title": {"x"}}.Encode()))
		d.must(err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "https://evil.example")
		answer, err := d.browser.Client.Do(r)
		d.must(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s answers %d", path, answer.StatusCode)
		}
	}
}

func TestDeliveriesShowRepliesThatAreSetAside(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	d.talk(chat, ada, "hello", "the answer", nil)
	held := d.due(chat)[0]
	held.Attempts = 7
	d.must(d.store.Mark(t.Context(), held, conversation.MarkHeld, "500 Internal Server Error"))
	d.shows(d.browser.Page("/console/deliveries"), "set aside", "500 Internal Server Error")
	d.shows(d.browser.Page("/console/"), "1 set aside")
}

// A refused reply is sent again once, and the sender is notified.
func TestAFailedDeliveryIsSentAgain(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	d.talk(chat, ada, "hello", "the answer", nil)
	failed := d.due(chat)[0]
	d.must(d.store.Mark(t.Context(), failed, conversation.MarkFailed, "403: blocked"))
	d.shows(d.browser.Page("/console/deliveries"), "403: blocked", "the answer", "Send again")
	retry := fmt.Sprintf("/console/deliveries/%d/retry", failed.ID)
	if status, _ := d.submit(retry, url.Values{}); status != http.StatusOK || len(d.looked) != 1 || d.looked[0] != chat || len(d.due(chat)) != 1 {
		t.Fatalf("%d, looked %v, due %v", status, d.looked, d.due(chat))
	}
	if status, _ := d.submit(retry, url.Values{}); status != http.StatusConflict || len(d.looked) != 1 {
		t.Errorf("a second time answers %d", status)
	}
}

// Many strangers do not hide the people who have access.
func TestPairingPageShowsTheNewestOfManyStrangers(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	for i := range 103 {
		_, _, err := pairing.New(d.store).Ask(t.Context(), conversation.Account{Channel: "telegram"}, fmt.Sprint("stranger-", i), "Somebody")
		d.must(err)
	}
	page := d.browser.Page("/console/pairing")
	d.shows(page, "3 more ask, with older codes", "telegram:stranger-3 ·", "telegram:stranger-102 ·")
	if strings.Contains(page, "telegram:stranger-2 ·") {
		t.Error("an older code is shown")
	}
}

func TestPairingsAreApprovedAndRevoked(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	p, _, err := pairing.New(d.store).Ask(t.Context(), conversation.Account{Channel: "telegram"}, "42", "Ada")
	d.must(err)
	d.shows(d.browser.Page("/console/pairing"), p.Code)
	d.submit("/console/pairing/approve", url.Values{"code": {p.Code}})
	if in, err := pairing.New(d.store).Has(t.Context(), conversation.Account{Channel: "telegram"}, "42"); !in || err != nil {
		t.Errorf("let in: %v, %v", in, err)
	}
	d.shows(d.browser.Page("/console/confirm?do=revoke&channel=telegram&user=42"), `name="user" value="42"`)
	d.submit("/console/pairing/revoke", url.Values{"channel": {"telegram"}, "user": {"42"}})
	if in, _ := pairing.New(d.store).Has(t.Context(), conversation.Account{Channel: "telegram"}, "42"); in {
		t.Error("a person whose access was revoked still has it")
	}
}

// The console shows waiting messages and replies, and what each waits for.
func TestQueuesAreShown(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	d.talk(chat, ada, "hello", "hi", nil)
	_, err := d.store.Accept(t.Context(), nil, conversation.Inbound{Key: chat, SourceID: "w", Address: "{}", Sender: ada, Text: "are you there?", At: time.Now()})
	d.must(err)
	d.shows(d.browser.Page("/console/deliveries"), "are you there?", "To be sent", "telegram:chat:42")
}

// The console shows messages that wait for a bot without a token, and with which bot each person has
// access.
func TestConsoleDistinguishesBots(t *testing.T) {
	t.Parallel()
	former, now := conversation.Account{Channel: "telegram", ID: "7000001"}, conversation.Account{Channel: "telegram", ID: "7000002"}
	d := newConsoleHarness(t, func(p *console.Deps) { p.Channels = []conversation.Account{now} })
	for _, bot := range []conversation.Account{former, now} {
		d.must(bots.New(d.store).SetHealth(t.Context(), bot, bots.Serving, ""))
		in := conversation.Inbound{Key: chat, Account: bot.ID, SourceID: "42:1", Address: "{}", Sender: ada, Text: "to " + bot.ID, At: time.Now()}
		_, err := d.store.Accept(t.Context(), nil, in)
		d.must(err)
		p, _, err := pairing.New(d.store).Ask(t.Context(), bot, "42", "Ada")
		d.must(err)
		_, err = pairing.New(d.store).Approve(t.Context(), p.Code)
		d.must(err)
	}
	_, err := bots.New(d.store).SetGroup(t.Context(), bots.Group{Bot: now, ID: "-1001", Name: "Friends <b>", State: bots.Member, ByName: "Bob", Lacks: []string{"Send messages", "Pin"}})
	d.must(err)
	d.shows(d.browser.Page("/console/"), "Groups and servers", "Friends &lt;b&gt;", "-1001", "by Bob", "Send messages, Pin")
	page := d.browser.Page("/console/deliveries")
	d.shows(page, "to 7000001", "to 7000002", `bot 7000001</span> <span class="chip">not served here</span>`, `bot 7000002</span></td>`)
	overview := d.browser.Page("/console/")
	d.shows(overview, `bot 7000001</span><span class="chip">not configured</span>`, `bot 7000002</span><span class="chip serving">serving</span>`)
	if n := strings.Count(overview, "1 waiting"); n != 2 {
		t.Errorf("%d bots have something waiting, want 2:\n%s", n, overview)
	}
	d.shows(d.browser.Page("/console/pairing"), "bot 7000001", "bot 7000002", "user=42&amp;bot=7000001")
	d.shows(d.browser.Page("/console/confirm?do=revoke&channel=telegram&user=42&bot=7000001"), `name="bot" value="7000001"`)
	if status, _ := d.submit("/console/pairing/revoke", url.Values{"channel": {"telegram"}, "user": {"42"}, "bot": {"7000001"}}); status != http.StatusOK {
		t.Errorf("revoking answers %d", status)
	}
	for bot, want := range map[conversation.Account]bool{former: false, now: true} {
		if in, err := pairing.New(d.store).Has(t.Context(), bot, "42"); err != nil || in != want {
			t.Errorf("%s lets them in: %v, %v; want %v", bot, in, err, want)
		}
	}
}

// How long ago something was is told by the clock of the store, since this machine's may be wrong.
func TestAgesAreOfTheStoresClock(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, func(deps *console.Deps) {
		deps.Now = func() time.Time { return time.Now().Add(5*time.Hour + time.Minute) }
	})
	d.talk("telegram:chat:7", ada, "hello", "hi", nil)
	if page := d.browser.Page("/console/sessions"); !strings.Contains(page, ">5 h ago<") {
		t.Errorf("the page has no age of 5 hours: %s", page)
	}
}
